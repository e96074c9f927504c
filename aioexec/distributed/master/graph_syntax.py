"""Checks of the names of nodes and inputs in a client's GraphDef, with TensorFlow's error messages.

GraphDefs from a master to a worker are not checked here: masters use names that are forbidden to clients.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from aioexec.errors import InvalidArgumentError

_NAME: Final = r"[A-Za-z0-9.][A-Za-z0-9_./>-]*"
_NODE: Final = re.compile(_NAME)
_INPUT: Final = re.compile(rf"(\^)?{_NAME}(?(1)|(?::(?:0|[1-9]\d*))?)")


def check_syntax(graph_def: Any) -> None:
    """Check the names in a GraphDef.

    Raises:
        InvalidArgumentError: a malformed name, or an input after the control inputs.
    """
    for node in graph_def.node:
        if not _NODE.fullmatch(node.name):
            raise InvalidArgumentError(f"Illegal op name '{node.name}'")
        _check_inputs(node.name, node.input)


def _check_inputs(name: str, inputs: Sequence[str]) -> None:
    has_controls = False
    for text in inputs:
        match = _INPUT.fullmatch(text)
        if match is None:
            raise InvalidArgumentError(f"Illegal op input name '{text}' of node {name!r}")
        if has_controls and not match[1]:
            raise InvalidArgumentError(
                f"All control inputs must follow all data inputs: node {name!r} has {text!r} after one"
            )
        has_controls = has_controls or bool(match[1])
