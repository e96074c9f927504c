"""ListDiff: the elements of one vector that are not in another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from aioexec import dtypes, shapes
from aioexec.errors import InvalidArgumentError
from aioexec.graph.apply import apply_tuple_op
from aioexec.graph.kernels.kernel import Compute, KernelContext
from aioexec.graph.node import Tensor
from aioexec.graph.registry import ShapeContext, register, undefined_gradient
from aioexec.ops.common.elementwise import Array
from aioexec.shapes import Dims


class ListDiff(NamedTuple):
    """The result of `setdiff1d`: the remaining elements, and their positions."""

    out: Tensor
    idx: Tensor


def _shape(context: ShapeContext) -> Sequence[Dims]:
    for dims in context.inputs:
        shapes.with_rank(dims, 1)
    return [(None,), (None,)]


def _list_diff(context: KernelContext) -> Compute:
    positions = context.output_dtypes[1].numpy

    def compute(x: Array, y: Array) -> Any:
        for name, value in (("x", x), ("y", y)):
            if value.ndim != 1:
                raise InvalidArgumentError(f"{name} should be a 1D vector, got shape {value.shape}")
        removed = set(y.tolist())
        kept = [i for i, value in enumerate(x.tolist()) if value not in removed]
        return x[kept], np.array(kept, positions)

    return compute


register(
    "ListDiff(x:T, y:T) -> (out:T, idx:out_idx) [T:type; out_idx:type{int32|int64}=int32]",
    shape=_shape,
    kernel=_list_diff,
    gradient=undefined_gradient,
    dynamic_shape=True,
)


def setdiff1d(x: Any, y: Any, index_dtype: Any = dtypes.int32, name: str | None = None) -> ListDiff:
    """Return the elements of the vector x that are not in y, in their order and with repetitions, and their positions."""
    return ListDiff(
        *apply_tuple_op("ListDiff", x, y, name=name or "ListDiff", out_idx=dtypes.as_dtype(index_dtype))
    )
