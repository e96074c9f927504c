"""Crops of tensors at random places."""

from __future__ import annotations

from typing import Any

from aioexec import dtypes
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.array.slicing import slice_
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.control_flow.dependencies import with_dependencies
from aioexec.ops.control_flow.printing import Assert
from aioexec.ops.math.comparison import greater_equal
from aioexec.ops.random.random_ops import random_uniform
from aioexec.ops.reduction.reductions import reduce_all


def random_crop(value: Any, size: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """Cut a piece of shape `size` out of a tensor at a random place.

    Args:
        size: a size for each dimension of `value`.

    Raises:
        InvalidArgumentError: (in a run) a dimension of `value` is smaller.
    """
    with op_scope(name, "random_crop", value, size) as scope:
        given = convert_to_tensor(value, name="value")
        wanted = convert_to_tensor(size, dtypes.int32, name="size")
        sizes = shape(given)
        check = Assert(
            reduce_all(greater_equal(sizes, wanted)),
            ["Need value.shape >= size, got ", sizes, wanted],
            summarize=1000,
        )
        limit = with_dependencies([check], sizes) - wanted + 1
        drawn = random_uniform(shape(sizes), maxval=dtypes.int32.max, dtype=dtypes.int32, seed=seed)
        return slice_(given, drawn % limit, wanted, name=scope)
