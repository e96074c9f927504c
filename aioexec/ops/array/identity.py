"""Ops that forward their input: identity, placeholders, gradient barriers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from aioexec import dtypes, shapes
from aioexec.dtypes import DType
from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_list_op, apply_op
from aioexec.graph.graph import get_default_graph
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.kernels.kernel import Alias, Attrs, Compute, KernelContext, Native, Role, Spec, plain
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register, undefined_gradient
from aioexec.ops.common.elementwise import Array, same_shape
from aioexec.shapes import Dims


def alias_all(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Alias:
    """Make output k an alias of input k."""
    return Alias(tuple(range(len(outputs))), (0,) * len(outputs))


ALIAS = Native(alias_all)


def _first(*inputs: Array) -> Array:
    return inputs[0]


for _name, _gradient in (("Identity", lambda op, dy: [dy]), ("Snapshot", undefined_gradient)):
    register(
        f"{_name}(input:T) -> (output:T) [T:type]",
        shape=same_shape,
        kernel=plain(_first),
        gradient=_gradient,
        native=ALIAS,
        role=Role.IDENTITY,
    )

for _name, _attrs in (("StopGradient", ""), ("PreventGradient", "; message:string=''")):

    def _refuse(op: Operation, dy: Tensor) -> NoReturn:
        raise LookupError(
            f"gradient of {op.name!r} is not to be taken: {op.attrs['message'] or 'PreventGradient'}"
        )

    register(
        f"{_name}(input:T) -> (output:T) [T:type{_attrs}]",
        shape=same_shape,
        kernel=plain(_first),
        gradient=NOT_DIFFERENTIABLE if _name == "StopGradient" else _refuse,
        native=ALIAS,
        role=Role.IDENTITY,
    )


def _all_inputs(context: KernelContext) -> Compute:
    if len(context.output_dtypes) == 1:
        return _first
    return lambda *inputs: inputs


register(
    "IdentityN(input:T) -> (output:T) [T:list(type)>=1]",
    shape=lambda context: list(context.inputs),
    kernel=_all_inputs,
    gradient=lambda op, *dys: list(dys),
    native=ALIAS,
)

# Checks of shapes


def _ensured_shape(context: ShapeContext) -> Sequence[Dims]:
    return [shapes.merge(context.inputs[0], context.attrs["shape"])]


def _ensure(context: KernelContext) -> Compute:
    wanted: Dims = context.attrs["shape"]

    def check(value: Array) -> Array:
        if not shapes.compatible(wanted, value.shape):
            raise InvalidArgumentError(
                f"Shape of tensor {context.node_name} {shapes.shown(value.shape)} is not compatible with expected shape "
                f"{shapes.shown(wanted)}."
            )
        return value

    return check


def _alias_if_compatible(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Alias | None:
    """The input itself; no native form for a shape that the kernel refuses."""
    return alias_all(attrs, inputs, outputs) if shapes.compatible(attrs["shape"], inputs[0].shape) else None


register(
    "EnsureShape(input:T) -> (output:T) [T:type; shape:shape]",
    shape=_ensured_shape,
    kernel=_ensure,
    gradient=lambda op, dy: [dy],
    native=Native(_alias_if_compatible),
)

# Placeholders

_SHORT_NAMES = {"float32": "float", "float64": "double", "float16": "half"}


def _unfed(context: KernelContext) -> Compute:
    dtype: DType = context.output_dtypes[0]
    dims: Dims = context.attrs["shape"]
    shape = "" if dims is None else f" and shape {shapes.shown(dims)}"
    message = (
        f"You must feed a value for placeholder tensor {context.node_name!r} "
        f"with dtype {_SHORT_NAMES.get(dtype.name, dtype.name)}{shape}"
    )

    def refuse() -> NoReturn:
        raise InvalidArgumentError(message)

    return refuse


register(
    "Placeholder() -> (output:dtype) [dtype:type; shape:shape=<unknown>]",
    shape=lambda context: [context.attrs["shape"]],
    kernel=_unfed,
    gradient=NOT_DIFFERENTIABLE,
    role=Role.PLACEHOLDER,
)


def _with_default_shape(context: ShapeContext) -> Sequence[Dims]:
    dims = context.attrs["shape"]
    if not shapes.compatible(dims, context.inputs[0]):
        raise GraphValueError(f"the default value is not of shape {shapes.describe(dims)}")
    return [context.inputs[0] if shapes.is_fully_defined(dims) else dims]


register(
    # stateful: a feed replaces the input, so no pass may fold the input into the output
    "PlaceholderWithDefault(input:dtype) -> (output:dtype) [dtype:type; shape:shape] {stateful}",
    shape=_with_default_shape,
    kernel=plain(_first),
    gradient=lambda op, dy: [dy],
    role=Role.IDENTITY,
)


# Functions


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Tensor:
    """Create a tensor that must be fed in every run that needs it."""
    dims = shapes.as_dims(shape)
    attrs = {"dtype": dtypes.as_dtype(dtype), "shape": dims}
    return (
        get_default_graph().create_op("Placeholder", (), name=name or "Placeholder", attrs=attrs).outputs[0]
    )


def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """Create a tensor whose value is `input` unless it is fed; feeds must be compatible with `shape`."""
    return apply_op("PlaceholderWithDefault", input, name=name, shape=shapes.TensorShape(shape))


def identity(input: Any, name: str | None = None) -> Any:
    """Return a tensor with the value of `input`; for a reference, a snapshot."""
    if isinstance(input, IndexedSlices):
        values, indices = identity(input.values, name), identity(input.indices, name)
        shape = None if input.dense_shape is None else identity(input.dense_shape, name)
        return IndexedSlices(values, indices, shape)
    return apply_op("Identity", input, name=name)


def identity_n(input: Sequence[Any], name: str | None = None) -> list[Tensor]:
    """Return tensors with the values of `input`, which become available together."""
    outputs = apply_list_op("IdentityN", list(input), name=name)
    assert isinstance(outputs, list)
    return outputs


def stop_gradient(input: Any, name: str | None = None) -> Tensor:
    """Return the value of `input`; gradients treat it as a constant."""
    return apply_op("StopGradient", input, name=name)


def prevent_gradient(input: Any, message: str = "", name: str | None = None) -> Tensor:
    """Return the value of `input`; a gradient through it raises LookupError."""
    return apply_op("PreventGradient", input, name=name, message=message)


def ensure_shape(x: Any, shape: Any, name: str | None = None) -> Tensor:
    """Return `x` with its static shape merged with `shape`; a step whose value has another shape fails.

    Raises:
        GraphValueError: the shapes contradict each other.
        GraphTypeError: `shape` is a tensor.
        InvalidArgumentError: in a step, if the shape of the value is not compatible with `shape`.
    """
    if isinstance(shape, Tensor):
        raise GraphTypeError("ensure_shape takes a static shape, got a tensor")
    return apply_op("EnsureShape", x, name=name, shape=shapes.TensorShape(shape))
