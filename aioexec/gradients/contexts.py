"""The control-flow contexts in which gradients are computed: backward loops, and branches.

A gradient rule uses tensors of the forward graph. In a backward loop these are not available: a rule refers to a tensor of the
forward loop, and the node it makes needs the value of that tensor in the corresponding forward iteration. A context sees every
node before it is made, and replaces such an input:

- a small constant by a copy of it in the backward loop;
- a loop invariant by a constant Enter from outside;
- any other tensor by a pop from a list that the forward loop fills.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from aioexec.gradients.places import Frame, Place, Places, is_constant_enter, is_loop_switch, origin
from aioexec.gradients.saved_values import ForwardLoop, element_shape
from aioexec.graph.control_flow import CondContext, ControlFlowContext, WhileContext
from aioexec.graph.convert import constant
from aioexec.graph.kernels.kernel import Role
from aioexec.graph.node import BaseGraph, Operation, Tensor
from aioexec.graph.registry import Row
from aioexec.graph.static_values import constant_value
from aioexec.shapes import Dims, TensorShape

_SMALL: Final = 64  # elements


@contextlib.contextmanager
def enter_context(graph: BaseGraph, context: ControlFlowContext | None) -> Iterator[None]:
    """Make nodes of the block in a context, regardless of the graph's current one."""
    before = graph._get_control_flow_context()
    graph._set_control_flow_context(context)
    try:
        yield
    finally:
        graph._set_control_flow_context(before)


class Contexts:
    """The context for the gradients of each place of the forward graph.

    Constant: `places`, the context in which gradients were requested. Growing: `loops`, the backward loop of each
    differentiated frame; `_branches`, for each place in a conditional.
    """

    def __init__(self, graph: BaseGraph) -> None:
        self.places = Places(graph)
        self.loops: dict[Frame, BackwardLoop] = {}
        self._graph = graph
        self._base: ControlFlowContext | None = graph._get_control_flow_context()
        self._branches: dict[Place, BranchContext] = {}

    def context(self, place: Place) -> ControlFlowContext | None:
        """The context of the gradients of nodes at a place of the forward graph."""
        if not place.guards:
            return self.loops.get(place.frame, self._base)
        if place not in self._branches:
            *outer, (pred, side) = place.guards
            around = self.context(Place(place.frame, tuple(outer)))
            if around is not None:
                pred = around.AddValue(pred)
            with enter_context(self._graph, around):
                self._branches[place] = BranchContext(self, place, pred, side)
        return self._branches[place]

    def at(self, place: Place) -> contextlib.AbstractContextManager[None]:
        return enter_context(self._graph, self.context(place))

    def note(self, tensor: Tensor, place: Place) -> None:
        """Record that a tensor was made for a place of the forward graph, so that it is alive when that place is."""
        context = self.context(place)
        if isinstance(context, BranchContext):
            context._add_to_enclosing([tensor])

    def value(self, tensor: Tensor, place: Place) -> Tensor | None:
        """The replacement of a forward tensor at a place or in a branch of it; None if it is from outside."""
        found = self.places.behind(tensor)
        if found.frame is not place.frame or not set(found.guards) >= set(place.guards):
            return None
        loop = self.loops.get(place.frame)
        return tensor if loop is None else loop.value(tensor)

    def find_equivalent(
        self, row: Row, inputs: Sequence[Tensor], attrs: Mapping[str, Any]
    ) -> Operation | None:
        """For an op on shapes, such as Shape: its value, computed in the forward loop, so that the tensor is not saved."""
        if not row.shape_only or len(inputs) != 1:
            return None
        tensor = shape_source(inputs[0])
        loop = self.loops.get(self.places.behind(tensor).frame)
        if loop is None or loop.has(tensor) or is_constant_enter(tensor.op):
            return None
        computed = loop.forward.compute(row.name, tensor, dict(attrs))
        static = constant_value(computed)
        if static is not None:
            return constant(static).op
        return self._graph.create_op("Identity", [computed])


def shape_source(tensor: Tensor) -> Tensor:
    """The furthest ancestor of equal shape, through Identities and Switches."""
    while True:
        tensor = origin(tensor)
        if tensor.op.row.role is not Role.SWITCH:
            return tensor
        tensor = tensor.op.inputs[0]


class BranchContext(CondContext):
    """The branch in which the gradients of a branch are computed; its pivot is made on access."""

    replaces_foreign = True

    def __init__(self, contexts: Contexts, place: Place, pred: Tensor, side: int) -> None:
        super().__init__(pred, pred, side)
        self._contexts = contexts
        self._place = place
        self._made_pivot: Tensor | None = None

    @property
    def pivot(self) -> Tensor:
        if self._made_pivot is None:
            with enter_context(self._graph, self._outer_context):
                sides = self._graph.create_op("Switch", [self._pred, self._pred]).outputs
                self._made_pivot = self._graph.create_op("Identity", [sides[self._branch]]).outputs[0]
            self._add_to_enclosing([self._made_pivot])
        return self._made_pivot

    def AddValue(self, val: Tensor) -> Tensor:
        if val not in self._values and (inside := self._inside(val)) is not None:
            self._stand_in(val, inside)
        return super().AddValue(val)

    def _inside(self, val: Tensor) -> Tensor | None:
        if is_small_constant(val) and self._place.frame in self._contexts.loops:
            return _copy_constant(val, self)
        return self._contexts.value(val, self._place)

    def _stand_in(self, val: Tensor, inside: Tensor) -> None:
        self._add_to_enclosing([inside])
        self._values.add(val)
        if inside is not val:
            self._external_values[val] = inside

    def capture_by_switch(self, val: Tensor) -> Tensor:
        """The output of a Switch that captures an outer value for the branch."""
        return super().AddValue(val)

    def find_equivalent(
        self, row: Row, inputs: Sequence[Tensor], attrs: Mapping[str, Any]
    ) -> Operation | None:
        return self._contexts.find_equivalent(row, inputs, attrs)


def is_small_constant(val: Tensor) -> bool:
    """Whether a tensor is copied rather than captured, so that rules and planning know its value."""
    return val.op.row.role is Role.CONSTANT and val.op.attrs["value"].size <= _SMALL


def _copy_constant(val: Tensor, context: ControlFlowContext) -> Tensor:
    """A copy of a forward constant in a context."""
    with enter_context(val.graph, context):
        op = val.graph.create_op("Const", [], attrs={key: val.op.attrs[key] for key in ("value", "dtype")})
    return op.outputs[0]


class BackwardLoop(WhileContext):
    """The loop that runs the iterations of a forward loop in reverse.

    Its first variable counts down the iterations of the forward loop. Growing: `_popped`, from a forward tensor to its value in
    the corresponding iteration.
    """

    replaces_foreign = True

    def __init__(self, contexts: Contexts, forward: ForwardLoop) -> None:
        context = forward.frame.context
        enter = forward.frame.enters[0]
        super().__init__(
            parallel_iterations=enter.attrs["parallel_iterations"],
            back_prop=context is None or context.back_prop,
            swap_memory=context is not None and context.swap_memory,
        )
        self.forward = forward
        self._contexts = contexts
        self._popped: dict[Tensor, Tensor] = {}
        contexts.loops[forward.frame] = self

    @property
    def differentiated(self) -> WhileContext | None:
        return self.forward.frame.context

    def count_back(self) -> None:
        """Make the counter and the condition: as many iterations as the forward loop had."""
        counter = self.forward.counter
        first, last = counter.enter.inputs[0], self.forward.exit(counter)
        merge = self._enter_variable(last, ())
        self._pivot_for_pred = merge
        graph, known = self._graph, constant_value(first)
        start = first if known is None else constant(known, first.dtype.base_dtype)
        going_on = graph.create_op("Greater", [merge, start]).outputs[0]
        ((_, into),) = self.switch_loop_vars([merge], going_on)
        (ahead,) = self.enter_body([(into, into)])
        one = constant(1, first.dtype.base_dtype)
        here = graph.create_op("Sub", [ahead, one]).outputs[0]
        self._popped[counter.value] = here
        self._popped[origin(counter.following)] = ahead
        self.add_back_edge(merge, here)

    def carry(self, value: Tensor, dims: Dims) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Add a variable; returns its Merge, and (exit value, body value)."""
        merge = self._enter_variable(value, dims)
        assert self._pivot is not None
        out, into = self._graph.create_op("Switch", [merge, self._pivot]).outputs
        return merge, (out, into)

    def leave_loop(self, out: Tensor) -> Tensor:
        """The value of a variable after the loop."""
        with enter_context(self._graph, self):
            (tensor,) = self.leave([(out, out)])[-1:]
        return tensor

    def _enter_variable(self, value: Tensor, dims: Dims) -> Tensor:
        enter = self.enter_loop_var(value, keep_shape=False)
        enter.set_shape(TensorShape(dims))
        return self._graph.create_op("Merge", [enter, enter], name="Merge").outputs[0]

    # Replacements of tensors of the forward loop

    def AddValue(self, val: Tensor) -> Tensor:
        if val in self._values or val.op._control_flow_context is self:
            return super().AddValue(val)
        if is_small_constant(val) or self._contexts.places.behind(val).frame is self.forward.frame:
            self._external_values[val] = self.value(val)
            self._values.add(val)
        return super().AddValue(val)

    def has(self, tensor: Tensor) -> bool:
        return origin(tensor) in self._popped

    def value(self, tensor: Tensor) -> Tensor:
        """The value of a forward tensor in the corresponding iteration, valid if it was alive there."""
        source = origin(tensor)
        if source not in self._popped:
            self._popped[source] = self._find(source)
        return self._popped[source]

    def _find(self, tensor: Tensor) -> Tensor:
        op = tensor.op
        if op.row.role is Role.CONSTANT:
            return _copy_constant(tensor, self)
        if is_constant_enter(op):
            return self.AddValue(op.inputs[0])
        for variable in self.forward.variables:
            if variable.value is tensor and variable.is_unchanged:
                return self.AddValue(variable.enter.inputs[0])
        if op.row.role is Role.SWITCH and not is_loop_switch(op):
            branch = self._contexts.context(self._contexts.places.behind(tensor))
            assert isinstance(branch, BranchContext)
            return branch.capture_by_switch(op.inputs[0])
        return self._pop(tensor)

    def _pop(self, tensor: Tensor) -> Tensor:
        """Pop the value of a tensor from the list filled by the forward loop, in the branches in which it was alive."""
        dtype, graph = tensor.dtype.base_dtype, self._graph
        place = self._contexts.places.behind(tensor)
        with graph.name_scope("restored"), enter_context(graph, self), graph.device(tensor.device or None):
            merge, (_, into) = self.carry(self.forward.save(tensor), ())
            others: list[tuple[Tensor, int]] = []
            for pred, side in place.guards:
                sides = graph.create_op("Switch", [into, self.value(pred)]).outputs
                into = sides[side]
                others.append((sides[1 - side], side))
            shape = constant(element_shape(tensor))
            attrs = {"element_dtype": dtype}
            rest, value = graph.create_op("TensorListPopBack", [into, shape], attrs=attrs).outputs
            for other, side in reversed(others):
                rest = graph.create_op("Merge", [rest, other][:: 1 - 2 * side]).outputs[0]
            self.add_back_edge(merge, rest)
        value.set_shape(tensor.shape)
        self._contexts.note(value, place)
        return value

    def find_equivalent(
        self, row: Row, inputs: Sequence[Tensor], attrs: Mapping[str, Any]
    ) -> Operation | None:
        return self._contexts.find_equivalent(row, inputs, attrs)
