"""The additions of a gradient to the forward loop: an iteration counter, and lists of values computed in its iterations.

A backward loop runs the iterations of the forward loop in reverse and needs values they computed. Each such tensor is pushed to
a list, which is an additional variable of the forward loop. In a branch, the list passes through the branch, so that it has
elements only for the iterations in which the tensor was alive. Existing nodes of the loop are not changed.

All of this is dataflow: the gradient of a push is a pop and vice versa, so higher-order gradients need no further code.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.errors import GraphValueError
from aioexec.gradients.places import (
    Frame,
    LoopVariable,
    Place,
    Places,
    counting_variable,
    is_loop_switch,
    loop_variables,
    predicate,
)
from aioexec.graph import registry
from aioexec.graph.graph import Graph
from aioexec.graph.kernels.kernel import Role
from aioexec.graph.node import Operation, Tensor


def element_shape(tensor: Tensor) -> np.ndarray[Any, Any]:
    """The shape of a tensor as the operand of a list op, -1 where unknown; unknown for handles."""
    dims = None if tensor.dtype.base_dtype == dtypes.resource else tensor.dims
    return np.array(-1 if dims is None else [-1 if dim is None else dim for dim in dims], np.int32)


class ForwardLoop:
    """A loop that is differentiated.

    Constant: its frame and variables, the condition. Growing: `_lists`, from each saved tensor to its list after the loop.
    Nodes are added by their place in the structure of the graph, whether the loop was built here or imported.
    """

    def __init__(self, places: Places, frame: Frame) -> None:
        self.frame = frame
        self.variables = loop_variables(places, frame)
        self._places = places
        graph = frame.enters[0].graph
        assert isinstance(graph, Graph)
        self._graph = graph
        self._lists: dict[Tensor, Tensor] = {}
        conditions = {predicate(op) for variable in self.variables for op in _switches(variable)}
        if len(conditions) != 1:
            raise GraphValueError(f"while loop {frame.name!r} has {len(conditions)} conditions, expected one")
        self._condition = conditions.pop()

    @functools.cached_property
    def counter(self) -> LoopVariable:
        """A variable that is incremented by one in each iteration; added if the loop has none."""
        return counting_variable(self.variables) or self._add_counter()

    def exit(self, variable: LoopVariable) -> Tensor:
        """The value of a variable after the loop."""
        exits = variable.exits
        if exits:
            return exits[0]
        return self._leave(self._make_switch(variable.value)[0])

    def save(self, tensor: Tensor) -> Tensor:
        """The list, after the loop, of a tensor's values in the iterations in which it was alive."""
        if tensor not in self._lists:
            with self._graph.name_scope("saved"), self._graph.device(None):
                self._lists[tensor] = self._save(tensor)
        return self._lists[tensor]

    def compute(self, op_type: str, tensor: Tensor, attrs: dict[str, Any]) -> Tensor:
        """The output of an op applied to a tensor of the loop, at that tensor's place."""
        return self._node(op_type, [tensor], attrs, device=tensor.device).outputs[0]

    def _save(self, tensor: Tensor) -> Tensor:
        dtype, device = tensor.dtype.base_dtype, tensor.device
        operands = [element_shape(tensor), np.array(-1, np.int32)]
        empty = self._outside(
            "EmptyTensorList", [self._constant(value) for value in operands], {"element_dtype": dtype}
        )
        merge, out, into = self._new_variable(empty.outputs[0], device)
        others = []
        for pred, side in self._places.behind(tensor).guards:
            sides = self._node("Switch", [into, pred], device=device).outputs
            into = sides[side]
            others.append((sides[1 - side], side))
        push = self._node("TensorListPushBack", [into, tensor], {"element_dtype": dtype}, device=device)
        following = push.outputs[0]
        for other, side in reversed(others):
            following = self._node("Merge", [following, other][:: 1 - 2 * side], device=device).outputs[0]
        self._close(merge, following)
        return self._leave(out)

    def _leave(self, out: Tensor) -> Tensor:
        tensor = self._node("Exit", [out], device=out.device).outputs[0]
        if self.frame.context is not None:
            self.frame.context.ExitResult([tensor])
        return tensor

    def _add_counter(self) -> LoopVariable:
        with self._graph.name_scope("count"), self._graph.device(None):
            merge, _, into = self._new_variable(self._constant(np.array(0, np.int32)), "")
            count = self._node("Identity", [into])
            one = self._node(
                "Const", [], {"value": np.array(1, np.int32), "dtype": dtypes.int32}, controls=[count]
            )
            following = self._node("AddV2", [count.outputs[0], one.outputs[0]]).outputs[0]
            self._close(merge, following)
        return LoopVariable(merge.inputs[0].op, merge, following)

    def _new_variable(self, value: Tensor, device: str) -> tuple[Operation, Tensor, Tensor]:
        """Add a variable to the loop; returns its Merge, its exit value and its body value."""
        attrs = {
            "frame_name": self.frame.name,
            "is_constant": False,
            "parallel_iterations": self.frame.enters[0].attrs["parallel_iterations"],
        }
        enter = self._node("Enter", [value], attrs, device=device).outputs[0]
        enter.set_shape(shapes.TensorShape(value.dims))
        merge = self._node("Merge", [enter, enter], device=device)
        return merge, *self._make_switch(merge.outputs[0])

    def _make_switch(self, value: Tensor) -> tuple[Tensor, Tensor]:
        out, into = self._node("Switch", [value, self._condition], device=value.device).outputs
        return out, into

    def _close(self, merge: Operation, following: Tensor) -> None:
        merge.set_input(1, self._node("NextIteration", [following], device=merge.device).outputs[0])

    def _constant(self, value: np.ndarray[Any, Any]) -> Tensor:
        value.setflags(write=False)
        return self._outside("Const", [], {"value": value, "dtype": dtypes.as_dtype(value.dtype)}).outputs[0]

    def _outside(self, op_type: str, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Operation:
        """A node outside the loop that runs if the loop does."""
        context = self.frame.context
        outer = None if context is None else context.outer_context
        op = self._add(op_type, inputs, attrs, () if inputs else self._controls(), "")
        op._set_control_flow_context(outer)
        return op

    def _controls(self) -> Sequence[Operation]:
        place = Place(self.frame.parent or self._places.root, self.frame.guards)
        return () if place == Place(self._places.root) else (self._pivot,)

    @functools.cached_property
    def _pivot(self) -> Operation:
        """An operation that runs when the loop does."""
        place = Place(self.frame.parent or self._places.root, self.frame.guards)
        entered = [variable.enter.inputs[0] for variable in self.variables]
        here = [tensor for tensor in entered if set(self._places.behind(tensor).guards) >= set(place.guards)]
        source = next(
            (tensor for tensor in here if tensor.op.row.role not in (Role.SWITCH, Role.ENTER)), None
        )
        if source is not None:
            return source.op
        source = next((tensor for tensor in here if tensor.op.row.role is Role.SWITCH), (here or entered)[0])
        identity = self._add("Identity", [source], {}, (), "")
        identity._set_control_flow_context(source.op._control_flow_context)
        return identity

    def _node(
        self,
        op_type: str,
        inputs: Sequence[Tensor],
        attrs: dict[str, Any] | None = None,
        controls: Sequence[Operation] = (),
        device: str = "",
    ) -> Operation:
        """A node of the loop."""
        op = self._add(op_type, inputs, attrs or {}, controls, device)
        context = self.frame.context
        if context is not None:
            context.AddOp(op)
        return op

    def _add(
        self,
        op_type: str,
        inputs: Sequence[Tensor],
        attrs: dict[str, Any],
        controls: Sequence[Operation],
        device: str,
    ) -> Operation:
        name = self._graph.unique_name(op_type)
        op = self._graph.add_node(registry.lookup(op_type), name, inputs, controls, attrs, device)
        self._places.added.add(op)
        return op


def _switches(variable: LoopVariable) -> list[Operation]:
    return [op for op in variable.value.consumers() if is_loop_switch(op)]
