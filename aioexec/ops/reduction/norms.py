"""Norms, and clipping by norms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.node import Tensor
from aioexec.ops.common.elementwise import conjugate, op_scope
from aioexec.ops.reduction.reductions import keeps_dims, reduce_max, reduce_sum


def norm(
    tensor: Any,
    ord: Any = "euclidean",
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """Return the norm of vectors (`axis` None: of all elements; an int: along it) or of matrices (`axis`: a pair).

    Args:
        ord: "euclidean", "fro", 1, 2, inf or another positive number; of matrices "euclidean", "fro", 1 and inf.

    Raises:
        GraphValueError: the norm is not supported.
    """
    keep = keeps_dims(keepdims, keep_dims)
    is_matrix = isinstance(axis, tuple | list) and len(axis) == 2
    supported = ["euclidean", "fro", 1, np.inf] if is_matrix else ["euclidean", 1, 2, np.inf]
    is_power = not is_matrix and isinstance(ord, int | float) and ord > 0
    if ord not in supported and not is_power:
        raise GraphValueError(
            f"norm: expected ord in {supported}{'' if is_matrix else ' or > 0'}, got {ord!r}"
        )
    if isinstance(axis, tuple | list) and not is_matrix:
        if len(axis) != 1:
            raise GraphValueError(f"norm: expected None, an integer or a pair as axis, got {axis!r}")
        axis = axis[0]
    with op_scope(name, "norm", tensor):
        x = convert_to_tensor(tensor)
        result = norm_kept(x, ord, list(axis) if is_matrix else axis)
        return result if keep else squeezed(result, axis)


def normalize(
    tensor: Any, ord: Any = "euclidean", axis: Any = None, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Divide a tensor by its `norm` along `axis`.

    Returns:
        The quotient, and the norm with the reduced dimensions kept as 1.
    """
    with op_scope(name, "normalize", tensor):
        given = convert_to_tensor(tensor)
        length = norm(given, ord, axis, keepdims=True)
        if length.dtype.base_dtype is not given.dtype.base_dtype:
            length = apply_op("Cast", length, DstT=given.dtype.base_dtype)
        return apply_op("RealDiv", given, length), length


def norm_kept(x: Tensor, ord: Any, axis: Any) -> Tensor:
    """Return the norm with reduced dimensions kept as 1; `axis` is a list for matrices."""
    if ord in ("fro", "euclidean", 2):
        squares = apply_op("Mul", x, conjugate(x))
        total = reduce_sum(squares, axis, keepdims=True)
        return apply_op("Sqrt", apply_op("Real", total) if x.dtype.is_complex else total)
    size = apply_op("ComplexAbs" if x.dtype.is_complex else "Abs", x)
    if isinstance(axis, list):
        first, last = (axis[0], axis[1]) if ord == 1 else (axis[1], axis[0])
        return reduce_max(reduce_sum(size, first, keepdims=True), last, keepdims=True)
    if ord == 1:
        return reduce_sum(size, axis, keepdims=True)
    if ord == np.inf:
        return reduce_max(size, axis, keepdims=True)
    power = constant(float(ord), size.dtype.base_dtype)
    total = reduce_sum(apply_op("Pow", size, power), axis, keepdims=True)
    return apply_op("Pow", total, constant(1.0 / float(ord), size.dtype.base_dtype))


def squeezed(x: Tensor, axis: Any) -> Tensor:
    axes = [] if axis is None else [axis] if isinstance(axis, int) else list(axis)
    return apply_op("Squeeze", x, squeeze_dims=axes)


def values_of(t: Any) -> Tensor:
    """Return the dense values of a tensor or IndexedSlices."""
    return t.values if isinstance(t, IndexedSlices) else convert_to_tensor(t)


def like(t: Any, values: Tensor) -> Any:
    """Return values as `t` is: a tensor, or IndexedSlices with its indices."""
    return IndexedSlices(values, t.indices, t.dense_shape) if isinstance(t, IndexedSlices) else values


def clip_by_norm(t: Any, clip_norm: Any, axes: Any = None, name: str | None = None) -> Any:
    """Scale a tensor or IndexedSlices so that its L2 norm, over `axes` or all, is at most `clip_norm`."""
    with op_scope(name, "clip_by_norm", t) as scope:
        values = values_of(t)
        total = reduce_sum(apply_op("Mul", values, values), axes, keepdims=True)
        is_positive = apply_op("Greater", total, constant(0, total.dtype.base_dtype))
        safe = apply_op("Select", is_positive, total, apply_op("OnesLike", total))
        size = apply_op("Select", is_positive, apply_op("Sqrt", safe), total)
        limited = apply_op("Mul", values, clip_norm)
        if values.dims is not None and limited.dims is not None and len(limited.dims) != len(values.dims):
            raise GraphValueError(
                f"clip_by_norm: expected a clip_norm that broadcasts to {values.shape}, got {clip_norm!r}"
            )
        clipped = apply_op("RealDiv", limited, apply_op("Maximum", size, clip_norm))
        return like(t, apply_op("Identity", clipped, name=scope))


def listed(t_list: Any, function: str) -> list[Any]:
    if isinstance(t_list, str) or not isinstance(t_list, Sequence):
        raise GraphTypeError(f"{function}: expected a sequence of tensors, got {t_list!r}")
    return [t if t is None or isinstance(t, IndexedSlices) else convert_to_tensor(t) for t in t_list]


def global_norm(t_list: Any, name: str | None = None) -> Tensor:
    """Return the L2 norm of all elements of a list of tensors; None is skipped.

    Raises:
        GraphTypeError: the argument is not a sequence.
    """
    tensors = listed(t_list, "global_norm")
    with op_scope(name, "global_norm", tensors):
        halves = [apply_op("L2Loss", values_of(t)) for t in tensors if t is not None]
        total = reduce_sum(apply_op("Pack", halves, name="stack"))
        doubled = apply_op("Mul", total, constant(2.0, total.dtype.base_dtype))
        return apply_op("Sqrt", doubled, name="global_norm")


def clip_by_global_norm(
    t_list: Any, clip_norm: Any, use_norm: Any = None, name: str | None = None
) -> tuple[list[Any], Tensor]:
    """Scale the tensors of a list by one factor so that their global norm is at most `clip_norm`.

    Args:
        use_norm: the global norm, if it was computed before.

    Returns:
        The scaled tensors (None for None), and the global norm. All are NaN if the norm is not finite.
    """
    tensors = listed(t_list, "clip_by_global_norm")
    size = global_norm(tensors, name) if use_norm is None else convert_to_tensor(use_norm)
    with op_scope(name, "clip_by_global_norm", tensors, size) as scope:
        one = constant(1.0, size.dtype.base_dtype)
        inverse = apply_op("Minimum", apply_op("RealDiv", one, size), apply_op("RealDiv", one, clip_norm))
        scale = apply_op("Mul", clip_norm, inverse)
        scale = apply_op("AddV2", scale, apply_op("Sub", size, size))  # NaN if the norm is not finite
        clipped = [
            None if t is None else like(t, scaled(values_of(t), scale, f"{scope}_{k}"))
            for k, t in enumerate(tensors)
        ]
        return clipped, size


def scaled(values: Tensor, scale: Tensor, name: str) -> Tensor:
    return apply_op("Identity", apply_op("Mul", values, scale), name=name)


def clip_by_average_norm(t: Any, clip_norm: Any, name: str | None = None) -> Tensor:
    """Scale a tensor so that its L2 norm divided by its number of elements is at most `clip_norm`."""
    with op_scope(name, "clip_by_average_norm", t) as scope:
        x = convert_to_tensor(t)
        count = apply_op("Cast", apply_op("Size", x), DstT=x.dtype.base_dtype)
        inverse = apply_op("Rsqrt", reduce_sum(apply_op("Mul", x, x)))
        least = apply_op(
            "Minimum",
            apply_op("Mul", inverse, count),
            apply_op("RealDiv", constant(1.0, x.dtype.base_dtype), clip_norm),
        )
        return apply_op("Mul", apply_op("Mul", x, clip_norm), least, name=scope)
