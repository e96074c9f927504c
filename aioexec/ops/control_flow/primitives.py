"""The nodes of control flow: switches, merges, and the way into, around and out of a frame.

Most have no kernel: the executor runs them by their role, since a kernel cannot see which of its inputs are dead.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NoReturn

from aioexec import shapes
from aioexec.errors import GraphValueError, InvalidArgumentError, UnimplementedError
from aioexec.graph.apply import apply_no_output_op, apply_op, apply_tuple_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.kernels.kernel import Compute, KernelContext, Role, plain
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register, undefined_gradient
from aioexec.ops.array.identity import ALIAS
from aioexec.ops.common.elementwise import same_shape
from aioexec.shapes import Dims


def _by_role(op: Operation, *gradients: Any) -> NoReturn:
    """The gradient of a node of control flow is that of the conditional or loop it belongs to, by its role."""
    raise UnimplementedError(f"{op.type} {op.name!r} has no gradient by itself")


def _switched(context: ShapeContext) -> Sequence[Dims]:
    shapes.with_rank(context.inputs[1], 0)
    return [context.inputs[0], context.inputs[0]]


def _merged(context: ShapeContext) -> Sequence[Dims]:
    return [functools.reduce(shapes.common, context.inputs), ()]


def _selected(context: ShapeContext) -> Sequence[Dims]:
    shapes.with_rank(context.inputs[0], 0)
    return [functools.reduce(shapes.common, context.inputs[1:])]


def _entered(context: ShapeContext) -> Sequence[Dims]:
    """A loop variable may have another shape in the next iteration; what is the same in each keeps its own."""
    return [context.inputs[0] if context.attrs["is_constant"] else None]


def _condition(context: ShapeContext) -> Sequence[Dims]:
    return [shapes.with_rank(context.inputs[0], 0)]


_FRAME = "T:type; frame_name:string; is_constant:bool=false; parallel_iterations:int=10"

for _prefix, _type, _list, _flags in (
    ("", "T", "N*T", ""),
    ("Ref", "Ref(T)", "Ref(N*T)", " {allows_uninit}"),
):
    register(
        f"{_prefix}Switch(data:{_type}, pred:bool) -> (output_false:{_type}, output_true:{_type}) [T:type]{_flags}",
        shape=_switched,
        kernel=None,
        gradient=_by_role,
        role=Role.SWITCH,
    )
    register(
        f"{_prefix}Merge(inputs:{_list}) -> (output:{_type}, value_index:int32) [T:type; N:int>=1]",
        shape=_merged,
        kernel=None,
        gradient=_by_role,
        role=Role.MERGE,
    )
    register(
        f"{_prefix}Enter(data:{_type}) -> (output:{_type}) [{_FRAME}]",
        shape=same_shape if _prefix else _entered,  # a reference keeps the shape of its variable
        kernel=None,
        gradient=_by_role,
        role=Role.ENTER,
    )
    for _name, _role in (("Exit", Role.EXIT), ("NextIteration", Role.NEXT_ITERATION)):
        register(
            f"{_prefix}{_name}(data:{_type}) -> (output:{_type}) [T:type]",
            shape=same_shape,
            kernel=None,
            gradient=_by_role,
            role=_role,
        )

register(
    "LoopCond(input:bool) -> (output:bool)",
    shape=_condition,
    kernel=plain(lambda condition: condition),
    native=ALIAS,
    gradient=NOT_DIFFERENTIABLE,
    role=Role.LOOP_COND,
)
register(
    "ControlTrigger() -> ()",
    shape=lambda context: (),
    kernel=plain(lambda: None),
    gradient=NOT_DIFFERENTIABLE,
    role=Role.CONTROL_TRIGGER,
)
register(
    "RefIdentity(input:Ref(T)) -> (output:Ref(T)) [T:type] {allows_uninit}",
    shape=same_shape,
    kernel=plain(lambda reference: reference),
    gradient=lambda op, dy: [dy],
)


def _select(context: KernelContext) -> Compute:
    def compute(index: Any, *references: Any) -> Any:
        if index.ndim != 0:
            raise InvalidArgumentError(f"Index must be a scalar, but it has shape {index.shape}")
        if not 0 <= index < len(references):
            raise InvalidArgumentError(f"Index must be in the range [0, {len(references)}) but got {index}")
        return references[int(index)]

    return compute


register(
    "RefSelect(index:int32, inputs:Ref(N*T)) -> (output:Ref(T)) [T:type; N:int>=1]",
    shape=_selected,
    kernel=_select,
    gradient=undefined_gradient,
)


# Functions


def _as_data(value: Any) -> Any:
    """A tensor, of a variable its reference where it has one; IndexedSlices stay what they are."""
    if isinstance(value, IndexedSlices):
        return value
    handle = getattr(value, "handle", None)
    return convert_to_tensor(value, as_ref=not isinstance(handle, Tensor))


def _parts(slices: IndexedSlices) -> list[Tensor]:
    return [slices.values, slices.indices, *([] if slices.dense_shape is None else [slices.dense_shape])]


def switch(data: Any, pred: Any, dtype: Any = None, name: str | None = None) -> tuple[Any, Any]:
    """Hand `data` to one of two outputs, (false, true): the other is dead, and so is what depends on it.

    Args:
        data: a tensor or IndexedSlices.
    """
    with get_default_graph().name_scope(name or "Switch") as scope:
        if not isinstance(data, IndexedSlices):
            data = convert_to_tensor(data, dtype, name="data") if dtype is not None else _as_data(data)
            op_type = "RefSwitch" if data.dtype.is_ref else "Switch"
            if_false, if_true = apply_tuple_op(op_type, data, pred, name=scope)
            return if_false, if_true
        pairs = [switch(part, pred) for part in _parts(data)]
        return IndexedSlices(*(pair[0] for pair in pairs)), IndexedSlices(*(pair[1] for pair in pairs))


def ref_switch(data: Any, pred: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Hand a reference to one of two outputs, (false, true)."""
    if_false, if_true = apply_tuple_op("RefSwitch", data, pred, name=name)
    return if_false, if_true


def merge(inputs: Sequence[Any], name: str | None = None) -> tuple[Any, Tensor]:
    """Hand the first live one of `inputs` on, with its index.

    Raises:
        GraphValueError: one of them is None.
    """
    if any(item is None for item in inputs):
        raise GraphValueError(f"At least one of the merge inputs is None: {list(inputs)!r}")
    with get_default_graph().name_scope(name or "Merge") as scope:
        found = [_as_data(item) for item in inputs]
        if not all(isinstance(item, IndexedSlices) for item in found):
            tensors = [convert_to_tensor(item) for item in found]
            op_type = "RefMerge" if all(tensor.dtype.is_ref for tensor in tensors) else "Merge"
            output, index = apply_tuple_op(op_type, tensors, name=scope)
            return output, index
        parts = [merge(list(each)) for each in zip(*map(_parts, found), strict=True)]
        return IndexedSlices(*(value for value, _ in parts)), parts[0][1]


def ref_merge(inputs: Sequence[Any], name: str | None = None) -> tuple[Tensor, Tensor]:
    """Hand the first live one of some references on, with its index."""
    output, index = apply_tuple_op("RefMerge", list(inputs), name=name)
    return output, index


def ref_select(index: Any, inputs: Sequence[Any], name: str | None = None) -> Tensor:
    """The reference at `index`."""
    return _tensor(apply_op("RefSelect", index, [_as_data(item) for item in inputs], name=name))


def enter(
    data: Any,
    frame_name: str,
    is_constant: bool = False,
    parallel_iterations: int = 10,
    name: str | None = None,
) -> Tensor:
    """Hand `data` into a frame: to its first iteration, or to each of them if `is_constant`."""
    data = _as_data(data)
    op_type = "RefEnter" if data.dtype.is_ref else "Enter"
    attrs = {"frame_name": frame_name, "is_constant": is_constant, "parallel_iterations": parallel_iterations}
    return _tensor(apply_op(op_type, data, name=name, **attrs))


def ref_enter(
    data: Any,
    frame_name: str,
    is_constant: bool = False,
    parallel_iterations: int = 10,
    name: str | None = None,
) -> Tensor:
    """Hand a reference into a frame."""
    attrs = {"frame_name": frame_name, "is_constant": is_constant, "parallel_iterations": parallel_iterations}
    return _tensor(apply_op("RefEnter", data, name=name, **attrs))


def exit(data: Any, name: str | None = None) -> Tensor:
    """Hand `data` to the frame around."""
    data = _as_data(data)
    return _tensor(apply_op("RefExit" if data.dtype.is_ref else "Exit", data, name=name))


def next_iteration(data: Any, name: str | None = None) -> Tensor:
    """Hand `data` to the next iteration."""
    data = _as_data(data)
    return _tensor(apply_op("RefNextIteration" if data.dtype.is_ref else "NextIteration", data, name=name))


def loop_cond(input: Any, name: str | None = None) -> Tensor:
    """Mark the condition of a loop: while it holds there is another iteration."""
    return _tensor(apply_op("LoopCond", input, name=name))


def control_trigger(name: str | None = None) -> Operation:
    """An operation that does nothing, when what it waits for is done, dead or alive."""
    return apply_no_output_op("ControlTrigger", name=name)


def _tensor(value: Any) -> Tensor:
    assert isinstance(value, Tensor)
    return value
