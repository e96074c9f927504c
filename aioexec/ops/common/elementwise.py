"""Shared by element-wise ops: shape rules, functions that register ops, gradients under broadcasting."""

from __future__ import annotations

import contextlib
import functools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, ParamSpec, Protocol, TypeVar

import numpy as np

from aioexec import shapes
from aioexec.errors import InvalidArgumentError, OpError, ResourceExhaustedError
from aioexec.graph.apply import apply_op, apply_tuple_op, graph_of
from aioexec.graph.convert import convert_to_tensor, symbolic_dtype
from aioexec.graph.kernels.kernel import Attrs, Compute, Native, Reference, plain
from aioexec.graph.kernels.launches import expression
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import NotDifferentiable, Row, ShapeContext, register
from aioexec.shapes import Dims

P = ParamSpec("P")
Result = TypeVar("Result")

Array = np.ndarray[Any, Any]
Gradient = Callable[..., Sequence[Any]] | NotDifferentiable
Statuses = tuple[tuple[type[OpError], str], ...]

FLOATS = frozenset({"float32", "float64"})
"""Native dtypes of an op that has no kernel for integers."""

ZERO_DIVISOR: Statuses = ((InvalidArgumentError, "Integer division by zero"),)
"""The error of a kernel that divides integers and returns status 1."""


def same_shape(context: ShapeContext) -> Sequence[Dims]:
    """Shape rule: the output has the shape of the first input."""
    return [context.inputs[0]]


def merged_shape(context: ShapeContext) -> Sequence[Dims]:
    """Shape rule: all inputs and the output have one shape."""
    return [functools.reduce(shapes.merge, context.inputs)]


def broadcast_shape(context: ShapeContext) -> Sequence[Dims]:
    """Shape rule: the output has the shape to which the inputs broadcast."""
    return [functools.reduce(shapes.broadcast, context.inputs)]


def unary(
    signature: str,
    *,
    numpy: Compute,
    native: str | Callable[[Attrs], str] | None,
    gradient: Gradient,
    dtypes: frozenset[str] | None = None,
    statuses: Statuses = (),
) -> Row:
    """Register an op with one input and an output of its shape; `native` as in `launches.expression`."""
    return register(
        signature,
        shape=same_shape,
        kernel=plain(numpy),
        gradient=gradient,
        native=None if native is None else _native(native, dtypes, statuses),
    )


def binary(
    signature: str,
    *,
    numpy: Compute,
    native: str | Callable[[Attrs], str] | None,
    gradient: Gradient,
    dtypes: frozenset[str] | None = None,
    statuses: Statuses = (),
) -> Row:
    """Register an op with two inputs that broadcast; `native` as in `launches.expression`."""
    return register(
        signature,
        shape=broadcast_shape,
        kernel=fitting(numpy),
        gradient=gradient,
        native=None if native is None else _native(native, dtypes, statuses),
    )


def _native(text: str | Callable[[Attrs], str], dtypes: frozenset[str] | None, statuses: Statuses) -> Native:
    if dtypes is None:
        return expression(text, statuses=statuses)
    return expression(text, dtypes=dtypes, statuses=statuses)


_MOST_BYTES: Final = 1 << 40


def room_for(dims: Sequence[int], itemsize: int) -> None:
    """Refuse sizes beyond `_MOST_BYTES`, which no machine can allocate.

    Raises:
        ResourceExhaustedError: the tensor is larger.
    """
    if math.prod(dims) * max(itemsize, 1) > _MOST_BYTES:
        raise ResourceExhaustedError(f"a tensor of shape {shown(dims)} is too large to allocate")


def fitting(compute: Compute) -> Reference:
    """Return a reference kernel whose inputs broadcast; NumPy's ValueError for others becomes InvalidArgumentError."""

    def checked(*inputs: Array) -> Any:
        try:
            return compute(*inputs)
        except ValueError as error:
            given = [array.shape for array in inputs]
            try:
                np.broadcast_shapes(*given)
            except ValueError:
                raise incompatible(given) from None
            raise error

    return plain(checked)


def incompatible(given: Sequence[tuple[int, ...]]) -> OpError:
    return InvalidArgumentError(f"Incompatible shapes: {' vs. '.join(map(shown, given))}")


def shown(shape: Sequence[object] | Array) -> str:
    """Format a shape as messages at run time do: [2,3]."""
    return f"[{','.join(map(str, shape))}]"


def in_float32(compute: Compute) -> Compute:
    """Compute 16-bit floats in float32 and round once at the end."""

    def widened(*inputs: Array) -> Any:
        dtype = inputs[0].dtype
        if dtype.itemsize != 2 or dtype.kind in "iu":
            return compute(*inputs)
        return compute(*(array.astype(np.float32) for array in inputs)).astype(dtype)

    return widened


@contextlib.contextmanager
def op_scope(name: str | None, default_name: str, *values: Any) -> Iterator[str]:
    """Open the name scope of a function that adds several nodes; its last node takes the name of the scope."""
    with graph_of(values).as_default() as graph, graph.name_scope(name or default_name) as scope:
        yield scope


def named(function: Callable[P, Result], name: str, doc: str) -> Callable[P, Result]:
    """Set the name and docstring of a function that a table generates; return it."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def snake_case(op_type: str) -> str:
    """Return the name that TensorFlow gives the Python function of an op: SquaredDifference is squared_difference."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", op_type).lower()


class UnaryFunction(Protocol):
    """The Python function of an op with one input."""

    def __call__(self, x: Any, name: str | None = None) -> Tensor: ...


class BinaryFunction(Protocol):
    """The Python function of an op with two inputs."""

    def __call__(self, x: Any, y: Any, name: str | None = None) -> Tensor: ...


def function_of(op_type: str, summary: str, name_of_function: str | None = None) -> UnaryFunction:
    """Return the Python function of an op with one input."""

    def function(x: Any, name: str | None = None) -> Tensor:
        return apply_op(op_type, x, name=name)

    return named(function, name_of_function or snake_case(op_type), f"Return {summary} element-wise.")


def function_of_two(op_type: str, summary: str, name_of_function: str | None = None) -> BinaryFunction:
    """Return the Python function of an op with two inputs."""

    def function(x: Any, y: Any, name: str | None = None) -> Tensor:
        return apply_op(op_type, x, y, name=name)

    return named(function, name_of_function or snake_case(op_type), f"{summary}.")


def convert_pair(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Convert two arguments to tensors of one dtype: that of the one that is a tensor, else that of the first."""
    dtype = symbolic_dtype(x) or symbolic_dtype(y)
    first = convert_to_tensor(x, dtype, "x")
    return first, convert_to_tensor(y, dtype or first.dtype.base_dtype, "y")


# Gradients


def conjugate(x: Tensor) -> Tensor:
    """Return the complex conjugate, by which gradients are multiplied; a real tensor unchanged."""
    return apply_op("Conj", x) if x.dtype.is_complex else x


def reduced(op: Operation, *gradients: Tensor | None) -> list[Tensor | None]:
    """Sum the gradients of two broadcast inputs over the dimensions along which each was broadcast."""
    x, y = op.inputs[-2:]
    known = shapes.is_fully_defined(x.dims) and shapes.is_fully_defined(y.dims)
    if known and x.dims == y.dims:
        return list(gradients)
    out = shapes.broadcast(x.dims, y.dims) if known else None
    x_shape, y_shape = (apply_op("Shape", tensor) for tensor in (x, y))
    axes = apply_tuple_op("BroadcastGradientArgs", x_shape, y_shape)
    return [
        gradient
        if gradient is None or (known and tensor.dims == out)
        else apply_op("Reshape", apply_op("Sum", gradient, axis), shape)
        for gradient, tensor, axis, shape in zip(gradients, (x, y), axes, (x_shape, y_shape), strict=True)
    ]
