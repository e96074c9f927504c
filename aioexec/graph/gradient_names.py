"""`Graph.gradient_override_map`: names of gradient rules that replace those of the ops of new nodes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from aioexec.errors import GraphTypeError

if TYPE_CHECKING:
    from aioexec.graph.graph import Graph

GRADIENT_NAME: Final = "_gradient_op_type"
"""The attribute that names the gradient rule of a node."""


@contextlib.contextmanager
def gradient_override_map(self: Graph, op_type_map: Mapping[str, str]) -> Iterator[None]:
    """Within the block, new nodes of the ops in `op_type_map` use the gradient rules registered under the names given there."""
    if not all(isinstance(item, str) for pair in op_type_map.items() for item in pair):
        raise GraphTypeError(f"op_type_map must map op types to names of gradients, got {op_type_map!r}")
    before = self._gradient_names
    self._gradient_names = {**before, **op_type_map}
    try:
        yield
    finally:
        self._gradient_names = before
