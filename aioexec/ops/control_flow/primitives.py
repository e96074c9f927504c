"""The control nodes: Switch, Merge, Enter, Exit, NextIteration, LoopCond, ControlTrigger and their variants for references.

Most have no kernel: the executor runs them by role, since a kernel cannot see which of its inputs are dead.
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


def _no_gradient(op: Operation, *gradients: Any) -> NoReturn:
    """Raise: the gradient of a control node is computed for its conditional or loop as a whole."""
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
    """Shape rule: unknown for loop variables, which may change shape between iterations; kept for loop constants."""
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
        gradient=_no_gradient,
        role=Role.SWITCH,
    )
    register(
        f"{_prefix}Merge(inputs:{_list}) -> (output:{_type}, value_index:int32) [T:type; N:int>=1]",
        shape=_merged,
        kernel=None,
        gradient=_no_gradient,
        role=Role.MERGE,
    )
    register(
        f"{_prefix}Enter(data:{_type}) -> (output:{_type}) [{_FRAME}]",
        shape=same_shape if _prefix else _entered,  # a reference has the shape of its variable
        kernel=None,
        gradient=_no_gradient,
        role=Role.ENTER,
    )
    for _name, _role in (("Exit", Role.EXIT), ("NextIteration", Role.NEXT_ITERATION)):
        register(
            f"{_prefix}{_name}(data:{_type}) -> (output:{_type}) [T:type]",
            shape=same_shape,
            kernel=None,
            gradient=_no_gradient,
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
    """Convert to a tensor (to the reference if a variable has one); IndexedSlices are returned unchanged."""
    if isinstance(value, IndexedSlices):
        return value
    handle = getattr(value, "handle", None)
    return convert_to_tensor(value, as_ref=not isinstance(handle, Tensor))


def _parts(slices: IndexedSlices) -> list[Tensor]:
    return [slices.values, slices.indices, *([] if slices.dense_shape is None else [slices.dense_shape])]


def switch(data: Any, pred: Any, dtype: Any = None, name: str | None = None) -> tuple[Any, Any]:
    """Forward `data` to output 0 if `pred` is false, or to output 1 if it is true; the other output is dead.

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
    """Forward a reference to output 0 if `pred` is false, or to output 1 if it is true."""
    if_false, if_true = apply_tuple_op("RefSwitch", data, pred, name=name)
    return if_false, if_true


def merge(inputs: Sequence[Any], name: str | None = None) -> tuple[Any, Tensor]:
    """Forward the first live tensor of `inputs`, and its index.

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
    """Forward the first live reference of `inputs`, and its index."""
    output, index = apply_tuple_op("RefMerge", list(inputs), name=name)
    return output, index


def ref_select(index: Any, inputs: Sequence[Any], name: str | None = None) -> Tensor:
    """Return the reference at `index`."""
    return _tensor(apply_op("RefSelect", index, [_as_data(item) for item in inputs], name=name))


def enter(
    data: Any,
    frame_name: str,
    is_constant: bool = False,
    parallel_iterations: int = 10,
    name: str | None = None,
) -> Tensor:
    """Forward `data` into a frame: into its first iteration, or into every iteration if `is_constant`."""
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
    """Forward a reference into a frame."""
    attrs = {"frame_name": frame_name, "is_constant": is_constant, "parallel_iterations": parallel_iterations}
    return _tensor(apply_op("RefEnter", data, name=name, **attrs))


def exit(data: Any, name: str | None = None) -> Tensor:
    """Forward `data` to the parent frame."""
    data = _as_data(data)
    return _tensor(apply_op("RefExit" if data.dtype.is_ref else "Exit", data, name=name))


def next_iteration(data: Any, name: str | None = None) -> Tensor:
    """Forward `data` to the next iteration."""
    data = _as_data(data)
    return _tensor(apply_op("RefNextIteration" if data.dtype.is_ref else "NextIteration", data, name=name))


def loop_cond(input: Any, name: str | None = None) -> Tensor:
    """Mark the condition of a loop, which continues while it holds."""
    return _tensor(apply_op("LoopCond", input, name=name))


def control_trigger(name: str | None = None) -> Operation:
    """Return an operation that does nothing; it runs after its control inputs, even if they are dead."""
    return apply_no_output_op("ControlTrigger", name=name)


def _tensor(value: Any) -> Tensor:
    assert isinstance(value, Tensor)
    return value
