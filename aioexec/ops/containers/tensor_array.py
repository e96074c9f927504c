"""TensorArray ops: one op creates an array for the step, others write and read its elements.

Writes and reads are ordered by the *flow*, a float tensor without meaning: each op consumes the flow of the ops it must
follow. Gradients use it, too: the gradient of an op with respect to its flow input is a flow that follows the op's accesses to
the gradient array. The gradient of a write is thus read after the gradients of all reads are written.

The V3 ops pass an array on resource edges, the V2 ops as a string, the others on reference edges: in each case a scalar object
array that holds the `resources.tensor_array.TensorArray` itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.dtypes import DType
from aioexec.errors import InvalidArgumentError
from aioexec.graph.apply import apply_any_op, apply_op
from aioexec.graph.control_flow import is_loop_constant, output_context
from aioexec.graph.graph import get_default_graph
from aioexec.graph.kernels.kernel import Attrs, Compute, KernelContext
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.ops.common.elementwise import Array, shown
from aioexec.resources.manager import resource_of_handle
from aioexec.resources.tensor_array import TensorArray
from aioexec.resources.tensor_list import boxed
from aioexec.shapes import Dims

_FLOW = np.zeros((), np.float32)
_FLOW.setflags(write=False)

# Kernels


def _made(context: KernelContext) -> Compute:
    attrs, name, passes_flow = context.attrs, context.node_name, len(context.output_dtypes) == 2

    def make(size: Array) -> Any:
        if size.ndim:
            raise InvalidArgumentError(f"TensorArray size must be scalar, but had shape: {shown(size.shape)}")
        array = TensorArray(
            attrs["tensor_array_name"] or name,
            attrs["dtype"],
            int(size),
            attrs["element_shape"],
            identical=attrs.get("identical_element_shapes", False),
            dynamic=attrs["dynamic_size"],
            clears=attrs["clear_after_read"],
        )
        return (boxed(array), _FLOW) if passes_flow else boxed(array)

    return make


def _gradient_array(context: KernelContext) -> Compute:
    source, passes_flow = context.attrs["source"], len(context.output_dtypes) == 2

    def find(handle: Any, flow: Array, prefix: Array | None = None) -> Any:
        sizes = () if prefix is None else tuple(prefix.reshape(-1).tolist())
        if min(sizes, default=0) < 0:
            raise InvalidArgumentError(f"shape_to_prepend must not be negative, got {shown(sizes)}")
        array = boxed(_array_in(handle).gradient(source, sizes))
        return (array, _FLOW) if passes_flow else array

    return find


def _array_in(handle: Any) -> TensorArray:
    return resource_of_handle(TensorArray, handle, "")


Verb = Callable[..., Any]
"""(array, attributes for ops that read, *inputs between handle and flow) to the outputs."""


def _read_kernel(verb: Verb) -> Callable[[KernelContext], Compute]:
    """Return a kernel whose inputs are the handle, the operands, and the flow."""

    def kernel(context: KernelContext) -> Compute:
        attrs, dtype = context.attrs, context.attrs.get("dtype")

        def compute(handle: Any, *operands: Array) -> Any:
            array = _array_in(handle)
            if dtype is not None:
                array.check_dtype(dtype, "requested")
            return verb(array, attrs, *operands[:-1])

        return compute

    return kernel


def _write_kernel(verb: Verb) -> Callable[[KernelContext], Compute]:
    """Return a kernel whose inputs are the handle, the operands, and the flow, and whose output is the flow."""

    def kernel(context: KernelContext) -> Compute:
        dtype: DType = context.attrs["T"].base_dtype

        def compute(handle: Any, *operands: Array) -> Array:
            array = _array_in(handle)
            array.check_dtype(dtype, "is trying to write")
            verb(array, *operands[:-1])
            return _FLOW

        return compute

    return kernel


def _scalar(index: Array) -> int:
    if index.ndim:
        raise InvalidArgumentError(f"TensorArray index must be scalar, but had shape: {shown(index.shape)}")
    return int(index)


def _vector(operand: Array, what: str) -> Array:
    if operand.ndim != 1:
        raise InvalidArgumentError(
            f"Expected {what} to be a vector, but received shape: {shown(operand.shape)}"
        )
    return operand


def _numbers(operand: Array, what: str) -> list[int]:
    numbers: list[int] = _vector(operand, what).tolist()
    return numbers


def _write(array: TensorArray, index: Array, value: Array) -> None:
    array.write(_scalar(index), value)


def _scatter(array: TensorArray, indices: Array, value: Array) -> None:
    array.scatter(_numbers(indices, "indices"), value)


def _split(array: TensorArray, value: Array, lengths: Array) -> None:
    array.split(value, _numbers(lengths, "lengths"))


def _gather(array: TensorArray, attrs: Attrs, indices: Array) -> Any:
    return array.gather(_vector(indices, "indices"), attrs["element_shape"])


def _size(array: TensorArray, attrs: Attrs) -> Any:
    array.check_open()
    return np.int32(array.size)


def _pack(array: TensorArray, attrs: Attrs) -> Any:
    return array.gather(np.arange(array.joined), attrs["element_shape"])


# Shapes


def _handle_and_flow(context: ShapeContext) -> Sequence[Dims]:
    return [(2,), ()]


def _handle_only(context: ShapeContext) -> Sequence[Dims]:
    return [(2,)]


def _made_shape(context: ShapeContext) -> Sequence[Dims]:
    shapes.with_rank(context.inputs[0], 0)
    return _handle_and_flow(context)


def _size_shape(context: ShapeContext) -> Sequence[Dims]:
    return [()]


def _write_shape(context: ShapeContext) -> Sequence[Dims]:
    _, index, value, flow = context.inputs
    shapes.with_rank(index, 0)
    shapes.with_rank(flow, 0)
    shapes.merge(context.elements(0), value)
    return [()]


def _read_shape(context: ShapeContext) -> Sequence[Dims]:
    shapes.with_rank(context.inputs[1], 0)
    shapes.with_rank(context.inputs[2], 0)
    return [context.elements(0)]


def _gather_shape(context: ShapeContext) -> Sequence[Dims]:
    indices = shapes.with_rank(context.inputs[1], 1)
    shapes.with_rank(context.inputs[2], 0)
    elements = context.elements(0)
    return [shapes.concatenate(indices, context.attrs["element_shape"] if elements is None else elements)]


def _scatter_shape(context: ShapeContext) -> Sequence[Dims]:
    _, indices, value, flow = context.inputs
    indices, value = shapes.with_rank(indices, 1), shapes.with_rank_at_least(value, 1)
    shapes.with_rank(flow, 0)
    if value is not None:
        shapes.merge(indices, value[:1])
        shapes.merge(context.elements(0), value[1:])
    return [()]


def _split_shape(context: ShapeContext) -> Sequence[Dims]:
    shapes.with_rank(context.inputs[2], 1)
    shapes.with_rank(context.inputs[3], 0)
    return [()]


# Gradients


def _gradient_name(op: Operation) -> str:
    """Return the `source` of a gradient array: the scope of the innermost enclosing call of `gradients`.

    Gradients inside a loop or function must use the same name as those outside.
    """
    names = op.graph.get_name_scope().split("/")
    places = [place for place, name in enumerate(names) if name.startswith("gradients")]
    if places:
        return "/".join(names[: places[-1] + 1])
    return op.graph.get_name_scope().rsplit(f"{op.name}_grad", 1)[0].rstrip("/") or "gradients"


def version_of(handle: Tensor) -> str:
    """Return the suffix of the ops that accept this kind of handle."""
    if handle.dtype.is_ref:
        return ""
    return "V3" if handle.dtype == dtypes.resource else "V2"


def gradient_array(handle: Tensor, flow: Tensor, source: str) -> tuple[Tensor, Tensor]:
    """Return the handle of an array's gradient array, and a flow that follows its creation.

    If the array was created outside of a loop, so is its gradient array: once, for all iterations.
    """
    graph = get_default_graph()
    outer = [_outside_loops(tensor) for tensor in (handle, flow)]
    is_outside = all(tensor.graph is graph and output_context(tensor.op) is None for tensor in outer)
    if is_outside:
        handle, flow = outer
    with graph.control_dependencies(None) if is_outside else contextlib.nullcontext():
        made = apply_any_op(f"TensorArrayGrad{version_of(handle)}", handle, flow, source=source)
        found: Tensor = made[0] if isinstance(made, tuple) else made
        with graph.control_dependencies([found]):
            return found, apply_op("Identity", flow, name="gradient_flow")


def _outside_loops(tensor: Tensor) -> Tensor:
    """Return the tensor outside of the loops through which it is passed unchanged."""
    while is_loop_constant(tensor.op):
        tensor = tensor.op.inputs[0]
    return tensor


def _read_gradient(verb: str) -> Callable[..., Sequence[Any]]:
    """Return the gradient function of a read: it writes to the gradient array, and returns the resulting flow."""

    def gradient(op: Operation, dvalue: Tensor, dlengths: Tensor | None = None) -> Sequence[Any]:
        handle, *operands, flow = op.inputs
        array, flow = gradient_array(handle, flow, _gradient_name(op))
        lengths = [op.outputs[1]] if verb == "Split" else []
        written = apply_op(f"TensorArray{verb}{version_of(handle)}", array, *operands, dvalue, *lengths, flow)
        return [*[None] * (len(op.inputs) - 1), written]

    return gradient


def _write_gradient(verb: str) -> Callable[..., Sequence[Any]]:
    """Return the gradient function of a write: it reads from the gradient array, after all writes to that."""

    def gradient(op: Operation, dflow: Tensor) -> Sequence[Any]:
        handle, *operands, _ = op.inputs
        dtype = op.attrs["T"]
        value = operands.pop(0 if verb == "Concat" else -1)
        # The gradient array copies the shapes of the elements, so it is created after the last write.
        written = apply_op("Identity", op.outputs[0], name="flow_out")
        with op.graph.control_dependencies([written]):
            barrier = apply_op("Identity", dflow, name="write_barrier")
        array, flow = gradient_array(handle, barrier, _gradient_name(op))
        places = [] if verb == "Concat" else operands
        found = apply_any_op(f"TensorArray{verb}{version_of(handle)}", array, *places, flow, dtype=dtype)
        dvalue = found[0] if verb == "Concat" else found
        return [dvalue if tensor is value else None for tensor in op.inputs[:-1]] + [flow]

    return gradient


# Rows

_SETTINGS = "dtype:type; element_shape:shape=<unknown>; dynamic_size:bool=false; clear_after_read:bool=true"
_NAME = "tensor_array_name:string=''"


_OPS_ON_ARRAYS: tuple[tuple[str, Callable[..., Any], Callable[..., Any], Any], ...] = (
    (
        "Write{on}, index:int32, value:T, flow_in:float) -> (flow_out:float) [T:type]",
        _write_shape,
        _write_kernel(_write),
        _write_gradient("Read"),
    ),
    (
        "Scatter{on}, indices:int32, value:T, flow_in:float) -> (flow_out:float) [T:type]",
        _scatter_shape,
        _write_kernel(_scatter),
        _write_gradient("Gather"),
    ),
    (
        "Split{on}, value:T, lengths:int64, flow_in:float) -> (flow_out:float) [T:type]",
        _split_shape,
        _write_kernel(_split),
        _write_gradient("Concat"),
    ),
    (
        "Read{on}, index:int32, flow_in:float) -> (value:dtype) [dtype:type]",
        _read_shape,
        _read_kernel(lambda array, attrs, index: array.read(_scalar(index))),
        _read_gradient("Write"),
    ),
    (
        "Gather{on}, indices:int32, flow_in:float) -> (value:dtype) "
        "[dtype:type; element_shape:shape=<unknown>]",
        _gather_shape,
        _read_kernel(_gather),
        _read_gradient("Scatter"),
    ),
    (
        "Concat{on}, flow_in:float) -> (value:dtype, lengths:int64) "
        "[dtype:type; element_shape_except0:shape=<unknown>]",
        lambda context: [None, (None,)],
        _read_kernel(lambda array, attrs: array.concat(attrs["element_shape_except0"])),
        _read_gradient("Split"),
    ),
    ("Size{on}, flow_in:float) -> (size:int32)", _size_shape, _read_kernel(_size), NOT_DIFFERENTIABLE),
    (
        "Close{on}) -> ()",
        lambda context: [],
        lambda context: lambda handle: _array_in(handle).close(),
        NOT_DIFFERENTIABLE,
    ),
)
"""Signature, shape function, kernel and gradient of each op. All are stateful, so that no pass merges, folds or prunes them."""

for _suffix, _kind in (("", "Ref(string)"), ("V2", "string"), ("V3", "resource")):
    for _signature, _shape, _kernel, _gradient in _OPS_ON_ARRAYS:
        register(
            f"TensorArray{_signature.format(on=f'{_suffix}(handle:{_kind}')} {{stateful}}",
            shape=_shape,
            kernel=_kernel,
            gradient=_gradient,
            dynamic_shape="-> (value" in _signature,
        )

for _signature, _rule in (
    (
        "TensorArrayV3(size:int32) -> (handle:resource, flow:float) "
        f"[{_SETTINGS}; identical_element_shapes:bool=false; {_NAME}]",
        _made_shape,
    ),
    (f"TensorArrayV2(size:int32) -> (handle:string) [{_SETTINGS}; {_NAME}]", _handle_only),
    (f"TensorArray(size:int32) -> (handle:Ref(string)) [{_SETTINGS}; {_NAME}]", _handle_only),
):
    register(f"{_signature} {{stateful}}", shape=_rule, kernel=_made, gradient=NOT_DIFFERENTIABLE)

_GRAD_OF = "flow_in:float) -> (grad_handle"
_BOTH = "flow_out:float) [source:string]"

for _signature, _rule in (
    (f"TensorArrayGradV3(handle:resource, {_GRAD_OF}:resource, {_BOTH}", _handle_and_flow),
    (
        "TensorArrayGradWithShape(handle:resource, flow_in:float, shape_to_prepend:int32) -> "
        f"(grad_handle:resource, {_BOTH}",
        _handle_and_flow,
    ),
    (f"TensorArrayGradV2(handle:string, {_GRAD_OF}:string) [source:string]", _handle_only),
    (f"TensorArrayGrad(handle:string, {_GRAD_OF}:Ref(string)) [source:string]", _handle_only),
):
    register(f"{_signature} {{stateful}}", shape=_rule, kernel=_gradient_array, gradient=NOT_DIFFERENTIABLE)

register(
    "TensorArrayPack(handle:Ref(string), flow_in:float) -> (value:dtype) "
    "[dtype:type; element_shape:shape=<unknown>] {stateful}",
    shape=lambda context: [shapes.concatenate((None,), context.attrs["element_shape"])],
    kernel=_read_kernel(_pack),
    gradient=NOT_DIFFERENTIABLE,
    dynamic_shape=True,
)
register(
    "TensorArrayUnpack(handle:Ref(string), value:T, flow_in:float) -> (flow_out:float) [T:type] {stateful}",
    shape=_size_shape,
    kernel=_write_kernel(TensorArray.unpack),
    gradient=NOT_DIFFERENTIABLE,
)
