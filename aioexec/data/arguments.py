"""Arguments of datasets as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.data.structure import Component, flatten, is_nested
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Tensor
from aioexec.graph.static_values import constant_value
from aioexec.ops.math.comparison import equal, logical_and, where
from aioexec.ops.random.random_ops import get_seed
from aioexec.shapes import TensorShape


def int64_tensor(value: Any, name: str) -> Tensor:
    return convert_to_tensor(value, dtypes.int64, name=name)


def component_tensors(spec: Any, values: Sequence[Any], slices: bool = False) -> list[Tensor]:
    """Return the tensors of a dataset's op for the values of an element."""
    return [
        value if type(component) is Component else component.to_tensor(value, slices)
        for component, value in zip(flatten(spec), values, strict=True)
    ]


def static_rows(size: Tensor, drops_remainder: Tensor) -> int | None:
    """Return the number of rows of every batch, if it is known."""
    rows = constant_value(size)
    return int(rows) if rows is not None and constant_value(drops_remainder) else None


def shape_tensor(shape: Any) -> Tensor:
    """Return a shape as a tensor, with -1 for unknown dimensions."""
    if isinstance(shape, Tensor):
        return convert_to_tensor(shape, dtypes.int64)
    if isinstance(shape, np.ndarray):
        shape = shape.tolist()
    sizes = shape.as_list() if isinstance(shape, TensorShape) else shape
    sizes = [sizes] if isinstance(sizes, int) else sizes
    if any(isinstance(size, Tensor) for size in sizes):
        return convert_to_tensor(sizes, dtypes.int64)
    known = [getattr(size, "value", size) for size in sizes]
    return constant([-1 if size is None else int(size) for size in known], dtypes.int64, shape=[len(known)])


def padded_shape(shape: TensorShape, padded: Tensor) -> TensorShape:
    """Return the static shape of a padded component.

    Raises:
        GraphValueError: the ranks differ, or a dimension is smaller than that of the component.
    """
    sizes = constant_value(padded)
    if sizes is None:
        (rank,) = padded.shape.as_list() if padded.shape.ndims == 1 else (None,)
        return TensorShape(None if rank is None else [None] * rank)
    found = [None if size < 0 else int(size) for size in sizes]
    if shape.ndims is not None and not (
        shape.ndims == len(found)
        and all(
            most is None or size is None or size <= most
            for size, most in zip(shape.as_list(), found, strict=True)
        )
    ):
        raise GraphValueError(
            f"The padded shape {tuple(found)} is not compatible with the shape {shape} of the corresponding input "
            "component."
        )
    return TensorShape(found)


def padding_tensor(value: Any, component: Component) -> Tensor:
    """Return the scalar that a component is padded with.

    Raises:
        GraphValueError: it is no scalar.
    """
    if value is None:
        value = b"" if component.dtype == dtypes.string else component.dtype.numpy.type()
    found = convert_to_tensor(value, None if isinstance(value, Tensor) else component.dtype, "padding_value")
    if found.shape.ndims not in (0, None):
        raise GraphValueError(f"Padding value should be a scalar, but is not: {found}.")
    if found.dtype.base_dtype != component.dtype:
        raise GraphTypeError(
            f"Padding value tensor ({found}) does not match output type: {component.dtype!r}"
        )
    return found


def check_predicate(spec: Any, what: str) -> None:
    """Check that a function returns a scalar of dtype bool.

    Raises:
        GraphValueError: it does not.
    """
    if (
        is_nested(spec)
        or type(spec) is not Component
        or spec.dtype != dtypes.bool
        or not spec.shape.is_compatible_with([])
    ):
        raise GraphValueError(
            f"`{what}` must return a scalar boolean tensor, but its return value is {spec!r}."
        )


def seed_tensors(seed: Any) -> tuple[Tensor, Tensor]:
    """Return the two seeds of a dataset: of the graph and of the op; 0, 0 if neither is set."""
    first, second = get_seed(seed)
    if first is None or second is None:
        return int64_tensor(0, "seed"), int64_tensor(0, "seed2")
    one = int64_tensor(first, "seed")
    with get_default_graph().name_scope("seed2") as scope:
        other = convert_to_tensor(second, dtypes.int64)
        both = logical_and(equal(one, 0), equal(other, 0))
        return one, where(both, constant(2**31 - 1, dtype=dtypes.int64), other, name=scope)
