"""Gradients of conditionals and loops.

The gradient of a Switch is a Merge of the gradients of both sides, with zeros for a side that has none; that of a Merge is a
Switch on the same predicate. The gradient of a loop is a loop with the same number of iterations. Its variables are the
gradients of the loop variables: each starts as the gradient of the variable's final value and ends as that of its initial
value. Gradients of loop invariants are summed over the iterations.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

import numpy as np

from aioexec import dtypes, shapes
from aioexec.dtypes import DType
from aioexec.errors import GraphValueError
from aioexec.gradients.aggregation import Gradient, aggregate
from aioexec.gradients.contexts import BackwardLoop, Contexts, enter_context
from aioexec.gradients.places import (
    Frame,
    LoopVariable,
    Place,
    Places,
    is_constant_enter,
    is_loop_merge,
    is_loop_switch,
    predicate,
    split_by,
)
from aioexec.gradients.saved_values import ForwardLoop, element_shape
from aioexec.graph.apply import apply_op, apply_tuple_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.kernels.kernel import Role
from aioexec.graph.node import BaseGraph, Operation, Tensor
from aioexec.graph.static_values import variable_dims
from aioexec.ops.array.filling import zeros
from aioexec.ops.control_flow.primitives import merge, switch

ROLES: Final = (Role.SWITCH, Role.MERGE, Role.ENTER, Role.EXIT, Role.NEXT_ITERATION)


class Walk(Protocol):
    """The interface of `walk.Walk` used here."""

    contexts: Contexts | None
    live: set[Tensor]
    between: set[Operation]
    collected: dict[Tensor, list[Gradient]]
    method: int

    def add(self, tensor: Tensor, gradient: Gradient | None) -> None: ...
    def total(self, tensor: Tensor) -> Gradient | None: ...
    def run(self, loop: Frame | None = None) -> None: ...
    def at(self, op: Operation) -> AbstractContextManager[None]: ...
    def scope(self, op: Operation) -> AbstractContextManager[None]: ...
    def named(self, graph: BaseGraph, name: str) -> AbstractContextManager[None]: ...


def open_frames(places: Places, ys: Sequence[Tensor], xs: Sequence[Tensor]) -> set[Frame]:
    """The loops that contain all of `ys` and `xs`; these are not differentiated.

    Raises:
        GraphValueError: an x is in another loop.
    """
    frames = [places.behind(y).frame for y in ys]
    innermost = max(frames, key=lambda frame: len(list(frame.around())))
    found = set(innermost.around())
    for tensor in (*ys, *xs):
        frame = places.behind(tensor).frame
        if frame not in found:
            raise GraphValueError(
                f"gradients: {tensor.name!r} is in the while loop {frame.name!r} and cannot be used outside of it: "
                "differentiate with respect to an input of the loop, or a result of it"
            )
    return found


def differentiate(walk: Walk, op: Operation) -> None:
    """Propagate gradients through a control-flow node; loops as a whole are left to `differentiate_loop`."""
    assert walk.contexts is not None
    if is_loop_switch(op):
        walk.add(op.inputs[0], walk.total(op.outputs[1]))
    elif op.row.role is Role.SWITCH:
        _differentiate_switch(walk, walk.contexts, op)
    elif op.row.role is Role.MERGE and not is_loop_merge(op):
        _differentiate_merge(walk, walk.contexts, op)
    elif walk.contexts.places.home(op) in walk.contexts.loops:
        return
    elif op.row.role is Role.MERGE:
        walk.add(op.inputs[0], walk.total(op.outputs[0]))
    elif op.row.role is Role.ENTER:
        _differentiate_enter(walk, op)


def _differentiate_enter(walk: Walk, op: Operation) -> None:
    """The gradient with respect to an input of a loop within whose body gradients are computed."""
    gradient = walk.total(op.outputs[0])
    if gradient is not None and not is_constant_enter(op):
        raise GraphValueError(
            f"Cannot compute gradient inside while loop with respect to op {op.inputs[0].op.name!r}. We do not support taking "
            "the gradient wrt or through the initial value of a loop variable. Gradients can be computed through loop "
            "invariants or wrt the input parameters to the loop body."
        )
    walk.add(op.inputs[0], gradient)


# Conditionals


def _differentiate_merge(walk: Walk, contexts: Contexts, op: Operation) -> None:
    places = contexts.places
    with walk.at(op):
        gradient = walk.total(op.outputs[0])
        if gradient is None:
            return
        with walk.scope(op):
            pred = split_by(places, op)
            sides = None if pred is None else switch(gradient, pred, name="cond_grad")
            for k, tensor in enumerate(op.inputs):
                if tensor not in walk.live:
                    continue
                place = places.behind(tensor)
                if sides is None:
                    part = switch(gradient, apply_op("Equal", op.outputs[1], k))[1]
                else:
                    part = sides[next(side for guard, side in place.guards if guard is pred)]
                for piece in _pieces(part):
                    contexts.note(piece, place)
                walk.add(tensor, part)


def _differentiate_switch(walk: Walk, contexts: Contexts, op: Operation) -> None:
    """The gradient of the input of all Switches of the same tensor and predicate, which this one represents."""
    arrived = []
    for side in (0, 1):
        together = [tensor for tensor in _same_switches(op, side) if tensor in walk.collected]
        totals = [total for tensor in together if (total := walk.total(tensor)) is not None]
        arrived.append(aggregate(totals, walk.method))
    known = next((gradient for gradient in arrived if gradient is not None), None)
    if known is None:
        return
    for side, gradient in enumerate(arrived):
        if gradient is None:
            with contexts.at(contexts.places.behind(op.outputs[side])), walk.scope(op):
                arrived[side] = zeros_for(op.outputs[side], known)
    with walk.at(op), walk.scope(op):
        walk.add(op.inputs[0], merge(arrived, name="cond_grad")[0])


def _same_switches(op: Operation, side: int) -> list[Tensor]:
    pred = predicate(op)
    return [
        other.outputs[side]
        for other in op.inputs[0].consumers()
        if other.row.role is Role.SWITCH and other.inputs[0] is op.inputs[0] and predicate(other) is pred
    ]


def _pieces(gradient: Gradient) -> list[Tensor]:
    if isinstance(gradient, IndexedSlices):
        parts = (gradient.values, gradient.indices, gradient.dense_shape)
        return [part for part in parts if part is not None]
    return [gradient]


def zeros_for(tensor: Tensor, gradient: Gradient | None = None) -> Gradient:
    """Zeros of the shape of a tensor, in the form of `gradient`."""
    dtype = tensor.dtype.base_dtype
    if dtype == dtypes.variant:
        return apply_op("ZerosLike", tensor)
    if gradient is not None:
        dtype = gradient.dtype.base_dtype
    if isinstance(gradient, IndexedSlices):
        return _no_slices(tensor, gradient, dtype)
    made = zeros(_shape_of(tensor), dtype)
    made.set_shape(shapes.TensorShape(_dims_of(tensor)))
    return made


def _no_slices(tensor: Tensor, gradient: IndexedSlices, dtype: DType) -> IndexedSlices:
    shape = _shape_of(tensor)
    rows = apply_op("ConcatV2", [[0], apply_op("Slice", shape, [1], [-1])], 0)
    dense_shape = None if gradient.dense_shape is None else _shape_of(tensor, gradient.dense_shape.dtype)
    return IndexedSlices(zeros(rows, dtype), zeros([0], gradient.indices.dtype), dense_shape)


def _dims_of(tensor: Tensor) -> shapes.Dims:
    return variable_dims(tensor) if tensor.dtype.base_dtype == dtypes.resource else tensor.dims


def _shape_of(tensor: Tensor, dtype: DType = dtypes.int32) -> Any:
    """The shape of a tensor, or of the variable behind a handle."""
    dims = _dims_of(tensor)
    if dims is not None and None not in dims:
        return convert_to_tensor(np.array(dims, dtype.numpy))
    op_type = "VariableShape" if tensor.dtype.base_dtype == dtypes.resource else "Shape"
    return apply_op(op_type, tensor, out_type=dtype)


# Loops


def differentiate_loop(walk: Walk, frame: Frame) -> None:
    contexts = walk.contexts
    assert contexts is not None
    assert frame.parent is not None
    graph = frame.enters[0].graph
    place = Place(frame.parent, frame.guards)
    forward = ForwardLoop(contexts.places, frame)
    active = [variable for variable in forward.variables if variable.merge in walk.between]
    scope = frame.name.rpartition("/")[0] or frame.name
    with contexts.at(place), walk.named(graph, scope):
        arrived = {variable: _sum_of_exits(walk, variable) for variable in active}
        if all(gradient is None for gradient in arrived.values()):
            return
        carried = [variable for variable in active if not variable.is_unchanged]
        firsts = [_dense_or_zeros(arrived[each], forward.exit(each)) for each in carried]
        backward = BackwardLoop(contexts, forward)
        with enter_context(graph, backward):
            backward.count_back()
            finishing = _build_backward(walk, backward, carried, firsts)
        for variable in active:
            if variable.is_unchanged:
                walk.add(variable.enter.inputs[0], arrived[variable])
        for tensor, finish in finishing:
            gradient = finish()
            for piece in _pieces(gradient):
                contexts.note(piece, place)
            walk.add(tensor, gradient)


def _build_backward(
    walk: Walk, backward: BackwardLoop, carried: Sequence[LoopVariable], firsts: Sequence[Tensor]
) -> list[tuple[Tensor, Callable[[], Gradient]]]:
    """Build the backward loop; returns pairs (a tensor that enters the forward loop, a function that returns its gradient)."""
    forward = backward.forward
    found: list[tuple[Tensor, Callable[[], Gradient]]] = []
    variables = [
        backward.carry(*pair) for pair in zip(firsts, (each.value.dims for each in carried), strict=True)
    ]
    for variable, (_, (_, into)) in zip(carried, variables, strict=True):
        walk.add(variable.following, into)
    walk.run(forward.frame)
    for variable, (merged, (out, _)) in zip(carried, variables, strict=True):
        gradient = _dense_or_zeros(walk.total(variable.value), variable.value)
        backward.add_back_edge(merged, gradient)
        found.append((variable.enter.inputs[0], functools.partial(backward.leave_loop, out)))
    for enter, inside in _invariants(forward):
        total = walk.total(inside)
        if total is not None:
            found.append((enter.inputs[0], sum_over_iterations(backward, enter.inputs[0], total)))
    return found


def _invariants(forward: ForwardLoop) -> Iterator[tuple[Operation, Tensor]]:
    """The Enters of loop invariants, and their tensors inside the loop."""
    for enter in forward.frame.enters:
        if is_constant_enter(enter):
            yield enter, enter.outputs[0]
    for variable in forward.variables:
        if variable.is_unchanged:
            yield variable.enter, variable.value


def sum_over_iterations(backward: BackwardLoop, tensor: Tensor, gradient: Gradient) -> Callable[[], Gradient]:
    """Sum a gradient over the iterations of a backward loop; slices are concatenated.

    Args:
        tensor: the tensor outside of the loop that the gradient is of.
    """
    if isinstance(gradient, IndexedSlices):
        return _concatenate_slices(backward, tensor, gradient)
    with enter_context(backward._graph, backward.outer_context):
        zero = zeros_for(tensor, gradient)
    assert isinstance(zero, Tensor)
    merged, (out, into) = backward.carry(zero, _dims_of(tensor))
    backward.add_back_edge(merged, apply_op("AddN", [into, gradient]))
    return functools.partial(backward.leave_loop, out)


def _concatenate_slices(
    backward: BackwardLoop, tensor: Tensor, slices: IndexedSlices
) -> Callable[[], Gradient]:
    lists = []
    for piece in (slices.values, slices.indices):
        dtype = piece.dtype.base_dtype
        with enter_context(backward._graph, backward.outer_context):
            empty = apply_op("EmptyTensorList", element_shape(piece), -1, element_dtype=dtype)
        merged, (out, into) = backward.carry(empty, ())
        backward.add_back_edge(merged, apply_op("TensorListPushBack", into, piece))
        lists.append((out, dtype))

    def finish() -> IndexedSlices:
        row = apply_op("Slice", _shape_of(tensor), [1], [-1])
        shapes_of_parts = (apply_op("ConcatV2", [[-1], row], 0), [-1])
        values, indices = (
            apply_tuple_op(
                "TensorListConcatV2", backward.leave_loop(out), shape, no_dims, element_dtype=dtype
            )[0]
            for (out, dtype), shape in zip(lists, shapes_of_parts, strict=True)
        )
        dense_shape = slices.dense_shape
        return IndexedSlices(
            values, indices, None if dense_shape is None else _shape_of(tensor, dense_shape.dtype)
        )

    no_dims = np.zeros(0, np.int64)
    return finish


def _sum_of_exits(walk: Walk, variable: LoopVariable) -> Gradient | None:
    totals = [walk.total(tensor) for tensor in variable.exits]
    return aggregate([total for total in totals if total is not None], walk.method)


def _dense_or_zeros(gradient: Gradient | None, tensor: Tensor) -> Tensor:
    return convert_to_tensor(zeros_for(tensor) if gradient is None else gradient)
