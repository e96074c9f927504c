"""The methods of variables that update rows: each takes IndexedSlices, and is a function of `scatter_updates` too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aioexec.errors import GraphTypeError
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.ops.state import scatter_updates


def _method(function: Callable[..., Any], summary: str) -> Callable[..., Any]:
    """Return a method that gives the rows of IndexedSlices to a function of variable, indices and rows."""

    def update(
        self: Any, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None
    ) -> Any:
        if not isinstance(sparse_delta, IndexedSlices):
            raise GraphTypeError(f"expected IndexedSlices, got {sparse_delta!r}")
        return function(self, sparse_delta.indices, sparse_delta.values, use_locking, name)

    update.__doc__ = summary
    return update


class ScatterMethods:
    """A mixin of `Variable`."""

    scatter_update = _method(scatter_updates.scatter_update, "Replace the rows given by IndexedSlices.")
    scatter_add = _method(scatter_updates.scatter_add, "Add IndexedSlices to the content.")
    scatter_sub = _method(scatter_updates.scatter_sub, "Subtract IndexedSlices from the content.")
    scatter_mul = _method(scatter_updates.scatter_mul, "Multiply rows of the content by IndexedSlices.")
    scatter_div = _method(scatter_updates.scatter_div, "Divide rows of the content by IndexedSlices.")
    scatter_max = _method(
        scatter_updates.scatter_max, "Replace elements of rows by those of IndexedSlices that are greater."
    )
    scatter_min = _method(
        scatter_updates.scatter_min, "Replace elements of rows by those of IndexedSlices that are less."
    )
