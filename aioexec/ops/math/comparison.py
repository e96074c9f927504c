"""Comparisons, logical ops, tests for NaN and infinity, and selection by a condition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op, apply_tuple_op
from aioexec.graph.kernels.kernel import Attrs, Compute, KernelContext, Launches, Native, Operand, Spec, plain
from aioexec.graph.kernels.launches import View, c_strides, expression, launch
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.ops.common.elementwise import (
    FLOATS,
    Array,
    BinaryFunction,
    binary,
    broadcast_shape,
    convert_pair,
    fitting,
    function_of_two,
    merged_shape,
    op_scope,
    shown,
    unary,
)
from aioexec.shapes import Dims

BOOL = frozenset({"bool"})
REAL = "bfloat16|half|float|double"

# Comparisons

_ORDERS: tuple[tuple[str, Compute, str], ...] = (
    ("Less", np.less, "<"),
    ("LessEqual", np.less_equal, "<="),
    ("Greater", np.greater, ">"),
    ("GreaterEqual", np.greater_equal, ">="),
)
_EQUALITIES: tuple[tuple[str, Compute, str], ...] = (
    ("Equal", np.equal, "=="),
    ("NotEqual", np.not_equal, "!="),
)
_LOGIC: tuple[tuple[str, Compute, str], ...] = (
    ("LogicalAnd", np.logical_and, "&"),
    ("LogicalOr", np.logical_or, "|"),
)
_TESTS: tuple[tuple[str, Compute, str], ...] = (
    ("IsNan", np.isnan, "is_nan"),
    ("IsInf", np.isinf, "is_inf"),
    ("IsFinite", np.isfinite, "is_finite"),
)

for _name, _function, _sign in _ORDERS:
    binary(
        f"{_name}(x:T, y:T) -> (z:bool) [T:type@12]",
        numpy=_function,
        native=f"x, y: x {_sign} y",
        gradient=NOT_DIFFERENTIABLE,
    )


def _equality_shape(context: ShapeContext) -> Sequence[Dims]:
    x, y = context.inputs
    if not context.attrs["incompatible_shape_error"]:
        try:
            return [
                shapes.broadcast(x, y) if shapes.is_fully_defined(x) and shapes.is_fully_defined(y) else None
            ]
        except GraphValueError:
            return [()]
    return [shapes.broadcast(x, y)]


def _equality(function: Compute) -> Any:
    def kernel(context: Any) -> Compute:
        def compare(x: Array, y: Array) -> Any:
            try:
                np.broadcast_shapes(x.shape, y.shape)
            except ValueError:
                if context.attrs["incompatible_shape_error"]:
                    raise InvalidArgumentError(
                        f"Incompatible shapes: {shown(x.shape)} vs. {shown(y.shape)}"
                    ) from None
                return np.asarray(function is np.not_equal)
            return np.asarray(function(x, y), np.bool_)

        return compare

    return kernel


def _equality_native(sign: str) -> Native:
    """Return the native form if the shapes broadcast; other shapes, which may be allowed, are left to the reference kernel."""
    form = expression(f"x, y: x {sign} y")

    def bind(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Any:
        try:
            shapes.broadcast(inputs[0].shape, inputs[1].shape)
        except GraphValueError:
            return None
        return form.bind(attrs, inputs, outputs)

    return Native(bind, form.dtypes)


for _name, _function, _sign in _EQUALITIES:
    register(
        f"{_name}(x:T, y:T) -> (z:bool) [T:type; incompatible_shape_error:bool=true] {{commutative}}",
        shape=_equality_shape,
        kernel=_equality(_function),
        gradient=NOT_DIFFERENTIABLE,
        native=_equality_native(_sign),
    )

# Logic

for _name, _function, _sign in _LOGIC:
    binary(
        f"{_name}(x:bool, y:bool) -> (z:bool) {{commutative}}",
        numpy=_function,
        native=f"x, y: x {_sign} y",
        gradient=NOT_DIFFERENTIABLE,
        dtypes=BOOL,
    )

unary(
    "LogicalNot(x:bool) -> (y:bool)",
    numpy=np.logical_not,
    native="x: ~x",
    gradient=NOT_DIFFERENTIABLE,
    dtypes=BOOL,
)

for _name, _function, _text in _TESTS:
    unary(
        f"{_name}(x:T) -> (y:bool) [T:type{{{REAL}}}]",
        numpy=_function,
        native=f"x: {_text}(x)",
        gradient=NOT_DIFFERENTIABLE,
        dtypes=FLOATS,
    )


def _approximately_equal(context: KernelContext) -> Compute:
    tolerance = context.attrs["tolerance"]

    def compute(x: Array, y: Array) -> Array:
        if x.shape != y.shape:
            raise InvalidArgumentError(
                f"x and y must be of one shape, got {shown(x.shape)} and {shown(y.shape)}"
            )
        return np.asarray(np.abs(x - y) < tolerance)

    return compute


register(
    "ApproximateEqual(x:T, y:T) -> (z:bool) [T:type@6; tolerance:float=1e-05] {commutative}",
    shape=lambda context: [context.inputs[0] and merged_shape(context)[0]],
    kernel=_approximately_equal,
    gradient=NOT_DIFFERENTIABLE,
)

# Selection


def _select_shape(context: ShapeContext) -> Sequence[Dims]:
    """Shape rule: the condition has the shape of the values, or is a scalar, or a vector over their first dimension."""
    condition, then, otherwise = context.inputs
    values = shapes.merge(then, otherwise)
    if condition is None or values is None or condition == ():
        return [values]
    if len(condition) == 1 and len(values) != 1:
        if not values:
            raise GraphValueError(f"a condition of shape {shapes.describe(condition)} for scalars")
        shapes.merge(condition, values[:1])
        return [values]
    return [shapes.merge(condition, values)]


def _select(condition: Array, then: Array, otherwise: Array) -> Array:
    if then.shape != otherwise.shape:
        raise InvalidArgumentError(
            f"Select: values of shapes {shown(then.shape)} and {shown(otherwise.shape)} differ"
        )
    rank = then.ndim
    if condition.ndim == 1 and rank > 1 and condition.shape[0] == then.shape[0]:
        condition = condition.reshape(-1, *(1,) * (rank - 1))
    elif condition.shape not in ((), then.shape):
        raise InvalidArgumentError(
            f"Select: a condition of shape {shown(condition.shape)} for values of {shown(then.shape)}"
        )
    return np.where(condition, then, otherwise)


def _select_gradient(op: Operation, dy: Tensor) -> Sequence[Any]:
    condition = op.inputs[0]
    zeros = apply_op("ZerosLike", op.inputs[1])
    return [None, apply_op("Select", condition, dy, zeros), apply_op("Select", condition, zeros, dy)]


def _bind_select(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    condition, then, _ = inputs
    if then.dtype.name not in NATIVE_ITEMS:
        return None
    shape = then.shape
    if condition.shape == shape:
        strides = c_strides(shape, 1)
    else:
        strides = (1 if condition.shape else 0, *(0,) * (len(shape) - 1)) if shape else ()
    values = c_strides(shape, then.dtype.itemsize)
    sources = [("c", View(Operand("input", 0), "bool", strides))]
    sources += [
        (name, View(Operand("input", k), then.dtype.name, values)) for k, name in ((1, "t"), (2, "e"))
    ]
    row = launch(
        "y = where(c, t, e)", sources, [("y", View(Operand("output", 0), then.dtype.name, values))], shape
    )
    return Launches(() if row is None else (row,), inplace=(1, 2))


NATIVE_ITEMS = frozenset(
    {"float32", "float64", "int32", "int64", "bool", "int8", "uint8", "int16", "uint16", "uint32", "uint64"}
)

register(
    "Select(condition:bool, t:T, e:T) -> (output:T) [T:type]",
    shape=_select_shape,
    kernel=plain(_select),
    gradient=_select_gradient,
    native=Native(_bind_select),
)


def _select_v2_gradient(op: Operation, dy: Tensor) -> Sequence[Any]:
    condition, then, otherwise = op.inputs
    zeros = apply_op("ZerosLike", dy)
    parts = (apply_op("SelectV2", condition, dy, zeros), apply_op("SelectV2", condition, zeros, dy))
    return [None, *(_summed_to(part, value) for part, value in zip(parts, (then, otherwise), strict=True))]


def _summed_to(gradient: Tensor, value: Tensor) -> Any:
    """Sum a gradient of the broadcast shape to the shape of the value that was broadcast."""
    if shapes.is_fully_defined(value.dims) and value.dims == gradient.dims:
        return gradient
    shape = apply_op("Shape", value)
    axes, _ = apply_tuple_op("BroadcastGradientArgs", shape, apply_op("Shape", gradient))
    return apply_op("Reshape", apply_op("Sum", gradient, axes), shape)


register(
    "SelectV2(condition:bool, t:T, e:T) -> (output:T) [T:type]",
    shape=broadcast_shape,
    kernel=fitting(np.where),
    gradient=_select_v2_gradient,
    native=expression("c, t, e: where(c, t, e)"),
)


# Functions


def _comparison(op_type: str, summary: str) -> BinaryFunction:
    """Return the Python function of an op with two inputs and a boolean result."""

    return function_of_two(op_type, f"Return {summary} element-wise, with broadcasting, as bools")


less = _comparison("Less", "x < y")
less_equal = _comparison("LessEqual", "x <= y")
greater = _comparison("Greater", "x > y")
greater_equal = _comparison("GreaterEqual", "x >= y")
logical_and = _comparison("LogicalAnd", "x and y")
logical_or = _comparison("LogicalOr", "x or y")
equal = _comparison("Equal", "x == y")
not_equal = _comparison("NotEqual", "x != y")


def logical_not(x: Any, name: str | None = None) -> Tensor:
    """Return not x element-wise."""
    return apply_op("LogicalNot", x, name=name)


def logical_xor(x: Any, y: Any, name: str | None = "LogicalXor") -> Tensor:
    """Return x xor y element-wise."""
    with op_scope(name, "LogicalXor", x, y) as scope:
        x, y = convert_pair(x, y)
        return logical_and(logical_or(x, y), logical_not(logical_and(x, y)), name=scope)


def is_nan(x: Any, name: str | None = None) -> Tensor:
    """Return whether elements are NaN."""
    return apply_op("IsNan", x, name=name)


def is_inf(x: Any, name: str | None = None) -> Tensor:
    """Return whether elements are infinite."""
    return apply_op("IsInf", x, name=name)


def is_finite(x: Any, name: str | None = None) -> Tensor:
    """Return whether elements are neither NaN nor infinite."""
    return apply_op("IsFinite", x, name=name)


def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """Select from x where the condition holds, else from y; without both return the coordinates (int64) where it holds.

    x and y have one shape; the condition has the same shape, or is a scalar, or a vector over the first dimension.

    Raises:
        GraphValueError: only one of x and y is given.
    """
    if (x is None) != (y is None):
        raise GraphValueError("where: x and y must both be given, or neither")
    if x is None:
        return apply_op("Where", condition, name=name or "Where")
    return apply_op("Select", condition, x, y, name=name or "Select")


def where_v2(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """As `where`, with broadcasting of condition, x and y."""
    if (x is None) != (y is None):
        raise GraphValueError("where: x and y must both be given, or neither")
    if x is None:
        return apply_op("Where", condition, name=name or "Where")
    return apply_op("SelectV2", condition, x, y, name=name or "SelectV2")
