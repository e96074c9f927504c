"""What is known of objects and tensors while a graph is built."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.node import Tensor
from aioexec.graph.sparse_tensor import SparseTensor
from aioexec.graph.static_values import constant_value


def get_static_value(tensor: Any, partial: bool = False) -> Any:
    """Return the value of a tensor as an array if the graph determines it, else None.

    Args:
        partial: for a vector that stacks scalars, return an array of objects with None where an element is unknown.
    """
    if not isinstance(tensor, Tensor):
        return tensor if isinstance(tensor, np.ndarray | np.generic) else None
    value = constant_value(tensor)
    if (
        value is None
        and partial
        and tensor.op.type == "Pack"
        and tensor.dims is not None
        and len(tensor.dims) == 1
    ):
        return np.array(
            [None if (known := constant_value(part)) is None else known.item() for part in tensor.op.inputs]
        )
    return value


def is_tensor(x: Any) -> bool:
    """Whether an object is a tensor, a SparseTensor, IndexedSlices or a variable."""
    return isinstance(x, Tensor | SparseTensor | IndexedSlices) or hasattr(x, "_as_graph_element")
