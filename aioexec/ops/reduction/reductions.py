"""Reductions over axes of a tensor: sum, mean, product, extrema, logical and, or."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from aioexec import shapes
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op, apply_tuple_op
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.kernels.kernel import (
    Alias,
    Attrs,
    Compute,
    KernelContext,
    Launches,
    Native,
    Operand,
    Reference,
    Spec,
)
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.graph.static_values import constant_value
from aioexec.ops.common.elementwise import conjugate, named
from aioexec.ops.reduction.launches import (
    MAXIMUM,
    MINIMUM,
    PRODUCT,
    Reduction,
    Scratch,
    mean_of,
    normalised,
    reduce_launches,
    sum_of,
)
from aioexec.shapes import Dims

Array = np.ndarray[Any, Any]

# Shapes


def reduced_dims(context: ShapeContext) -> Sequence[Dims]:
    """Shape rule: the shape of input 0 without the axes in input 1, or with 1 in their place."""
    dims, keep = context.inputs[0], bool(context.attrs["keep_dims"])
    shapes.with_rank_at_most(context.inputs[1], 1)
    axes = context.value(1)
    if dims is None:
        return [None]
    if axes is None:
        return [(None,) * len(dims) if keep else None]
    rank = len(dims)
    chosen = set()
    for axis in axes.reshape(-1).tolist():
        if not -rank <= axis < rank:
            raise GraphValueError(f"Invalid reduction dimension {axis} for input with {rank} dimensions")
        chosen.add(axis % rank)
    return [tuple(1 if k in chosen else dim for k, dim in enumerate(dims) if keep or k not in chosen)]


def checked_axes(axes: Array, rank: int) -> tuple[int, ...]:
    """Return the axes as NumPy accepts them.

    Raises:
        InvalidArgumentError: an axis is out of range or repeated.
    """
    found = normalised(axes, rank)
    if found is not None:
        return found
    for axis in np.asarray(axes).reshape(-1).tolist():
        if not -rank <= axis < rank:
            raise InvalidArgumentError(
                f"Invalid reduction dimension ({axis} for input with {rank} dimension(s))"
            )
    raise InvalidArgumentError(
        f"Invalid reduction arguments: Axes contains duplicate dimension: {np.asarray(axes).tolist()}"
    )


# Reference kernels

Reduce = Callable[..., Any]


def reference(compute: Reduce) -> Reference:
    """Return a kernel for `compute(x, axes, keepdims)`; 16-bit floats are reduced in float32."""

    def bind(context: KernelContext) -> Compute:
        keep = bool(context.attrs["keep_dims"])

        def kernel(x: Array, axes: Array) -> Array:
            chosen = checked_axes(axes, x.ndim)
            wide = x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x
            result: Array = np.asarray(compute(wide, chosen, keep))
            return result.astype(x.dtype, copy=False)

        return kernel

    return bind


def sum_values(x: Array, axes: tuple[int, ...], keep: bool) -> Any:
    """Return sums; for small arrays `np.sum` takes twice as long."""
    keepdims: Any = keep  # the stub takes constants only
    return np.add.reduce(x, axis=axes, dtype=x.dtype, keepdims=keepdims)


def mean_values(x: Array, axes: tuple[int, ...], keep: bool) -> Any:
    """Return means; integers are summed in 64 bits, and the quotient is truncated towards zero; 0 if there are no elements."""
    count = math.prod([x.shape[axis] for axis in axes])
    if x.dtype.kind not in "iu":
        return sum_values(x, axes, keep) / x.dtype.type(count)
    total = np.sum(x, axis=axes, dtype=np.uint64 if x.dtype.kind == "u" else np.int64, keepdims=keep)
    return np.sign(total) * (np.abs(total) // total.dtype.type(max(count, 1)))


def product_values(x: Array, axes: tuple[int, ...], keep: bool) -> Any:
    return np.prod(x, axis=axes, dtype=x.dtype, keepdims=keep)


def bounds(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    if dtype.kind in "iu":
        return np.iinfo(dtype).min, np.iinfo(dtype).max
    return -np.inf, np.inf


def max_values(x: Array, axes: tuple[int, ...], keep: bool) -> Any:
    return np.max(x, axis=axes, keepdims=keep, initial=bounds(x.dtype)[0])


def min_values(x: Array, axes: tuple[int, ...], keep: bool) -> Any:
    return np.min(x, axis=axes, keepdims=keep, initial=bounds(x.dtype)[1])


def all_values(x: Array, axes: tuple[int, ...], keep: bool) -> Any:
    return np.all(x, axis=axes, keepdims=keep)


def any_values(x: Array, axes: tuple[int, ...], keep: bool) -> Any:
    return np.any(x, axis=axes, keepdims=keep)


def norm_values(x: Array, axes: tuple[int, ...], keep: bool) -> Any:
    """Return the square root of the sum of squares; for integers truncated, after squares and sums in their dtype."""
    squares = (x * np.conj(x)).real if x.dtype.kind == "c" else x * x
    return np.sqrt(np.sum(squares, axis=axes, dtype=squares.dtype, keepdims=keep))


# Native forms

NUMBERS = frozenset({"float32", "float64", "int32", "int64"})


def native(
    kind: Callable[[np.dtype[Any]], Reduction], *, is_mean: bool = False, dtypes: frozenset[str] = NUMBERS
) -> Native:
    """Return the native form of a reduction over the axes in input 1."""

    def bind(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | Alias | None:
        x, chosen = inputs
        axes = None if chosen.value is None else normalised(chosen.value, len(x.shape))
        if axes is None or x.dtype.name not in dtypes:
            return None
        if 0 not in x.shape and all(x.shape[axis] == 1 for axis in axes):
            return Alias((0,), (0,))
        count = int(np.prod([x.shape[axis] for axis in axes], dtype=np.int64)) if is_mean else 1
        scratch = Scratch()
        rows = reduce_launches(
            kind(x.dtype), x.dtype, x.shape, axes, Operand("input", 0), Operand("output", 0), scratch, count
        )
        return Launches(tuple(rows), tuple(scratch.sizes))

    return Native(bind, dtypes)


# Gradients


def static_axes(op: Operation) -> tuple[int, ...] | None:
    """Return the reduced axes as non-negative numbers if they and the rank are static, else None."""
    axes, dims = constant_value(op.inputs[1]), op.inputs[0].dims
    return None if axes is None or dims is None else normalised(axes, len(dims))


def expanded(op: Operation, value: Tensor) -> Tensor:
    """Restore the reduced dimensions of a value of the output's shape as 1, so that it broadcasts against the input."""
    if op.attrs["keep_dims"]:
        return value
    axes, dims = static_axes(op), op.inputs[0].dims
    if axes is None or dims is None:
        return apply_op("Reshape", value, kept_shape(op))
    kept = [1 if axis in axes else dim for axis, dim in enumerate(dims)]
    if kept.count(None) <= 1 and 0 not in kept:
        return apply_op("Reshape", value, constant([-1 if dim is None else dim for dim in kept], "int32"))
    if len(axes) == 1:
        return apply_op("ExpandDims", value, constant(axes[0], "int32"))
    stays = np.array([axis not in axes for axis in range(len(dims))], np.int32)
    sizes = apply_op("Mul", apply_op("Shape", op.inputs[0]), constant(stays))
    return apply_op("Reshape", value, apply_op("AddV2", sizes, constant(1 - stays)))


def kept_shape(op: Operation) -> Tensor:
    """Return the shape of the input with 1 for the reduced dimensions, for axes that are not static."""
    shape = apply_op("Shape", op.inputs[0])
    rank = apply_op("Size", shape)
    axes = apply_op("Reshape", apply_op("Cast", op.inputs[1], DstT="int32"), constant([-1], "int32"))
    axes = apply_op("FloorMod", apply_op("AddV2", axes, rank), rank)
    ones = apply_op("Fill", apply_op("Shape", axes), constant(1, "int32"))
    return apply_op("DynamicStitch", [apply_op("Range", 0, rank, 1), axes], [shape, ones], N=2)


def spread(op: Operation, value: Tensor) -> Tensor:
    """Broadcast a value to the shape of the input."""
    dims = op.inputs[0].dims
    known = shapes.is_fully_defined(dims)
    shape = constant(np.array(dims, np.int32)) if known else apply_op("Shape", op.inputs[0])
    return apply_op("BroadcastTo", value, shape)


def sum_gradient(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    return spread(op, expanded(op, dy)), None


def norm_gradient(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    scale = apply_op("RealDiv", expanded(op, op.outputs[0]), expanded(op, dy))
    return apply_op("RealDiv", op.inputs[0], scale), None


def mean_gradient(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    return spread(op, apply_op("RealDiv", expanded(op, dy), reduced_count(op, dy))), None


def reduced_count(op: Operation, dy: Tensor) -> Tensor:
    """Return the number of elements reduced to one, in the dtype of the gradient."""
    axes, dims = static_axes(op), op.inputs[0].dims
    reduced = None if axes is None or dims is None else [dims[axis] for axis in axes]
    if reduced is not None and None not in reduced:
        count = int(np.prod(np.array(reduced, np.int64)))
        return constant(float(count), dy.dtype.base_dtype)
    whole, part = apply_op("Size", op.inputs[0]), apply_op("Size", op.outputs[0])
    count_tensor = apply_op("FloorDiv", whole, apply_op("Maximum", part, 1))
    return apply_op("Cast", count_tensor, DstT=dy.dtype.base_dtype)


def extremum_gradient(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    """Divide the gradient equally among the elements equal to the extremum."""
    x = op.inputs[0]
    hits = apply_op("Cast", apply_op("Equal", x, expanded(op, op.outputs[0])), DstT=x.dtype.base_dtype)
    count = apply_op("Sum", hits, op.inputs[1], keep_dims=True)
    return apply_op("Mul", hits, apply_op("RealDiv", expanded(op, dy), count)), None


def product_gradient(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    """Multiply by the product of all other elements: the exclusive cumulative products from both ends."""
    x = op.inputs[0]
    chosen, others = product_order(op)
    order = apply_op("ConcatV2", [chosen, others], 0)
    moved = apply_op("Transpose", x, order)
    shape = apply_op("Shape", moved)
    sizes = [
        apply_op("Prod", apply_op("GatherV2", apply_op("Shape", x), part, 0), [0])
        for part in (chosen, others)
    ]
    table = apply_op("Reshape", moved, apply_op("Pack", sizes))
    before = apply_op("Cumprod", table, 0, exclusive=True)
    after = apply_op("Cumprod", table, 0, exclusive=True, reverse=True)
    product = apply_op("Reshape", apply_op("Mul", conjugate(before), conjugate(after)), shape)
    back = apply_op("Transpose", product, apply_op("InvertPermutation", order))
    return apply_op("Mul", back, expanded(op, dy)), None


def product_order(op: Operation) -> tuple[Tensor, Tensor]:
    """Return the reduced axes as non-negative numbers, and the other axes."""
    axes, dims = static_axes(op), op.inputs[0].dims
    if axes is not None and dims is not None:
        others = [axis for axis in range(len(dims)) if axis not in axes]
        return constant(np.array(axes, np.int32)), constant(np.array(others, np.int32))
    rank = apply_op("Rank", op.inputs[0])
    given = apply_op("Reshape", apply_op("Cast", op.inputs[1], DstT="int32"), [-1])
    chosen = apply_op("FloorMod", apply_op("AddV2", given, rank), rank)
    rest, _ = apply_tuple_op("ListDiff", apply_op("Range", 0, rank, 1), chosen)
    return chosen, rest


# Rows

_ATTRS = "keep_dims:bool=false; T:type@{}; Tidx:type{{int32|int64}}=int32"


def row(name: str, types: int, compute: Reduce, form: Native | None, gradient: Any) -> None:
    register(
        f"{name}(input:T, reduction_indices:Tidx) -> (output:T) [{_ATTRS.format(types)}]",
        shape=reduced_dims,
        kernel=reference(compute),
        native=form,
        gradient=gradient,
        shape_operands=(1,),
    )


row("Sum", 6, sum_values, native(sum_of), sum_gradient)
row("Mean", 6, mean_values, native(mean_of, is_mean=True), mean_gradient)
row("Prod", 6, product_values, native(lambda dtype: PRODUCT), product_gradient)
row("Max", 20, max_values, native(lambda dtype: MAXIMUM), extremum_gradient)
row("EuclideanNorm", 6, norm_values, None, norm_gradient)
row("Min", 20, min_values, native(lambda dtype: MINIMUM), extremum_gradient)

for _name, _compute, _form in (
    ("All", all_values, native(lambda dtype: MINIMUM, dtypes=frozenset({"bool"}))),
    ("Any", any_values, native(lambda dtype: MAXIMUM, dtypes=frozenset({"bool"}))),
):
    register(
        f"{_name}(input:bool, reduction_indices:Tidx) -> (output:bool)"
        " [keep_dims:bool=false; Tidx:type{int32|int64}=int32]",
        shape=reduced_dims,
        kernel=reference(_compute),
        native=_form,
        gradient=NOT_DIFFERENTIABLE,
        shape_operands=(1,),
    )


# Wrappers


def reduction_axes(x: Tensor, axis: Any, reduction_indices: Any) -> Any:
    """Return the axes given under either name, or all."""
    if axis is not None and reduction_indices is not None:
        raise GraphValueError("Cannot specify both 'axis' and 'reduction_indices'")
    chosen = reduction_indices if axis is None else axis
    if chosen is not None:
        return chosen
    if x.dims is not None:
        return constant(np.arange(len(x.dims), dtype=np.int32))
    return apply_op("Range", 0, apply_op("Rank", x), 1, name="range")


def keeps_dims(keepdims: bool | None, keep_dims: bool | None) -> bool:
    if keepdims is not None and keep_dims is not None:
        raise GraphValueError("Cannot specify both 'keepdims' and 'keep_dims'")
    return bool(keep_dims if keepdims is None else keepdims)


def reduce(
    op_type: str,
    value: Any,
    axis: Any,
    keepdims: bool | None,
    name: str | None,
    indices: Any,
    keep: bool | None,
) -> Tensor:
    """Apply a reduction op with the arguments of TensorFlow's functions."""
    x = convert_to_tensor(value)
    keep_dims = keeps_dims(keepdims, keep)
    axes = reduction_axes(x, axis, indices)
    result = apply_op(op_type, x, axes, name=name, keep_dims=keep_dims)
    if axis is None and indices is None and not keep_dims:
        result.set_shape(())
    return result


class ReductionFunction(Protocol):
    """The Python function of a reduction op."""

    def __call__(
        self,
        input_tensor: Any,
        axis: Any = None,
        keepdims: bool | None = None,
        name: str | None = None,
        reduction_indices: Any = None,
        keep_dims: bool | None = None,
    ) -> Tensor: ...


def _reduction(op_type: str, summary: str) -> ReductionFunction:
    def function(
        input_tensor: Any,
        axis: Any = None,
        keepdims: bool | None = None,
        name: str | None = None,
        reduction_indices: Any = None,
        keep_dims: bool | None = None,
    ) -> Tensor:
        return reduce(op_type, input_tensor, axis, keepdims, name, reduction_indices, keep_dims)

    doc = f"{summary}.\n\nRaises:\n    GraphValueError: an axis is out of range.\n"
    return named(function, f"reduce_{op_type.lower()}", doc)


reduce_sum = _reduction(
    "Sum",
    "Sum over `axis` (an int, a list, a tensor; None: all); with `keepdims`, reduced dimensions are kept as 1",
)
reduce_mean = _reduction(
    "Mean", "Return the mean over `axis`, as `reduce_sum`; of integers, the quotient truncated towards zero"
)
reduce_prod = _reduction("Prod", "Return the product over `axis`, as `reduce_sum`")
reduce_max = _reduction(
    "Max",
    "Return the maximum over `axis`, as `reduce_sum`; NaN if an element is NaN, the lowest value if there are none",
)
reduce_min = _reduction("Min", "Return the minimum over `axis`, as `reduce_max`")
reduce_all = _reduction("All", "Return whether all bools over `axis` are true, as `reduce_sum`")
reduce_any = _reduction("Any", "Return whether any bool over `axis` is true, as `reduce_sum`")


def reduce_euclidean_norm(
    input_tensor: Any, axis: Any = None, keepdims: bool | None = None, name: str | None = None
) -> Tensor:
    """Return the square root of the sum of squares over `axis`, as `reduce_sum`."""
    return reduce("EuclideanNorm", input_tensor, axis, keepdims, name, None, None)
