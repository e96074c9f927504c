"""The names of gradient rules that new nodes of a graph are to use instead of those of their ops."""

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
    """Let new nodes of these ops use the gradient rules registered under these names."""
    if not all(isinstance(item, str) for pair in op_type_map.items() for item in pair):
        raise GraphTypeError(f"op_type_map must map op types to names of gradients, got {op_type_map!r}")
    before = self._gradient_names
    self._gradient_names = {**before, **op_type_map}
    try:
        yield
    finally:
        self._gradient_names = before
