"""The place of a node: its loop and its branches of conditionals, derived from the edges of the graph.

A gradient must be computed at the place of its forward node: in the same loop, and in the same branches. The contexts in which
a graph was built contain that, but an imported graph may have none. The edges imply it too: an Enter leads into a frame, an
Exit out of it, an output of a Switch is alive on one side of its predicate only, and a Merge of both sides is alive on both.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import field

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.errors import GraphValueError
from aioexec.graph.control_flow import WhileContext, while_context
from aioexec.graph.kernels.kernel import Role
from aioexec.graph.node import BaseGraph, Operation, Tensor
from aioexec.graph.static_values import constant_value

Guard = tuple[Tensor, int]
"""A predicate, and the side on which a value is alive: 1 if the predicate is true."""


@dataclass(eq=False)
class Frame:
    """A loop; the outermost frame has no parent and is no loop.

    `enters`: the operations that lead into it. `guards`: the branches of the parent frame that contain the loop.
    """

    name: str
    parent: Frame | None
    enters: list[Operation] = field(default_factory=list)
    guards: tuple[Guard, ...] = ()

    def around(self) -> Iterator[Frame]:
        """This frame and its ancestors, the innermost first."""
        frame: Frame | None = self
        while frame is not None:
            yield frame
            frame = frame.parent

    @property
    def context(self) -> WhileContext | None:
        """The context in which the loop was built; None if it was imported."""
        found = (while_context(enter._control_flow_context) for enter in self.enters)
        return next((context for context in found if isinstance(context, WhileContext)), None)


@dataclass(frozen=True)
class Place:
    """A frame, and the branches within it, the outermost first."""

    frame: Frame
    guards: tuple[Guard, ...] = ()


@dataclass(frozen=True, eq=False)
class LoopVariable:
    """A variable of a loop; `following` is its value in the next iteration."""

    enter: Operation
    merge: Operation
    following: Tensor

    @property
    def value(self) -> Tensor:
        """Its value in an iteration."""
        return self.merge.outputs[0]

    @property
    def exits(self) -> list[Tensor]:
        """Its values after the loop: the outputs of existing Exits."""
        switches = (op for op in self.value.consumers() if is_loop_switch(op))
        leaving = (op for switch in switches for op in switch.outputs[0].consumers())
        return [op.outputs[0] for op in leaving if op.row.role is Role.EXIT]

    @property
    def is_unchanged(self) -> bool:
        """Whether it is a loop invariant."""
        return origin(self.following) is self.value


def origin(tensor: Tensor) -> Tensor:
    """The tensor of which this one is a copy within its loop: through Identities, and through the Switch into the body.

    An Identity with control inputs is no copy: it may be in a branch that its input is not in.
    """
    while True:
        op = tensor.op
        plain = op.type == "Identity" and (not op.control_inputs or is_constant_enter(op.inputs[0].op))
        if plain or (is_loop_switch(op) and tensor.value_index == 1):
            tensor = op.inputs[0]
        else:
            return tensor


def predicate(op: Operation) -> Tensor:
    """The predicate of a Switch."""
    tensor = op.inputs[1]
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor


def is_loop_switch(op: Operation) -> bool:
    return op.row.role is Role.SWITCH and predicate(op).op.row.role is Role.LOOP_COND


def is_loop_merge(op: Operation) -> bool:
    """Whether a Merge is that of a loop variable; while the loop is being built both inputs are its Enter."""
    return op.row.role is Role.MERGE and all(
        tensor.op.row.role in (Role.ENTER, Role.NEXT_ITERATION) for tensor in op.inputs
    )


def is_constant_enter(op: Operation) -> bool:
    return op.row.role is Role.ENTER and bool(op.attrs["is_constant"])


class Places:
    """The frames and branches of a graph, computed on demand; nodes may be added meanwhile.

    `added`: nodes made for gradients in the loops of the forward graph. `_place_of`: the place of each operation, as far as
    computed. `_frames`: the loops, by name.
    """

    def __init__(self, graph: BaseGraph) -> None:
        self.root = Frame("", None)
        self.added: set[Operation] = set()
        self._place_of: dict[Operation, Place] = {}
        self._frames: dict[str, Frame] = {}
        self._graph = graph

    @functools.cached_property
    def _enters(self) -> dict[str, list[Operation]]:
        """The Enter nodes that existed at the construction of this object, by the name of their frame."""
        found: dict[str, list[Operation]] = {}
        for op in self._graph.get_operations():
            if op.row.role is Role.ENTER:
                found.setdefault(op.attrs["frame_name"], []).append(op)
        return found

    def place(self, op: Operation) -> Place:
        """The place in which an operation runs: an Enter outside of the frame it leads into, an Exit inside."""
        waiting = [op]
        while waiting:
            current = waiting[-1]
            missing = [each for each in self._needed(current) if each not in self._place_of]
            if missing:
                waiting.extend(missing)
                continue
            waiting.pop()
            if current not in self._place_of:
                self._place_of[current] = self._find(current)
        return self._place_of[op]

    def behind(self, tensor: Tensor) -> Place:
        """The place in which a tensor can be used."""
        place = self.place(tensor.op)
        if tensor.op.row.role is Role.SWITCH and not is_loop_switch(tensor.op):
            return Place(place.frame, (*place.guards, (predicate(tensor.op), tensor.value_index)))
        return self._place_after(tensor.op)

    def home(self, op: Operation) -> Frame:
        """The frame that an operation belongs to: an Enter to the one it leads into."""
        return self._place_after(op).frame if op.row.role is Role.ENTER else self.place(op).frame

    def _place_after(self, op: Operation) -> Place:
        place = self.place(op)
        if op.row.role is Role.ENTER:
            return Place(self._frames[op.attrs["frame_name"]])
        if op.row.role is Role.EXIT:
            frame = place.frame
            if frame.parent is None:
                raise GraphValueError(f"Exit {op.name!r} is in no loop")
            return Place(frame.parent, frame.guards)
        return place

    def _needed(self, op: Operation) -> Iterable[Operation]:
        """The operations to place before `op`: its inputs and control inputs; for an Enter those of all Enters of its frame."""
        together = [op]
        if op.row.role is Role.ENTER and op.attrs["frame_name"] not in self._frames:
            together = [op, *self._enters.get(op.attrs["frame_name"], ())]
        for each in together:
            for tensor in each.inputs:
                if tensor.op.row.role is not Role.NEXT_ITERATION:
                    yield tensor.op
            yield from each.control_inputs

    def _find(self, op: Operation) -> Place:
        place = self._joined(op)
        if op.row.role is Role.ENTER:
            self._note_enter(op)
        return place

    def _joined(self, op: Operation) -> Place:
        """The place in which all inputs of an operation are alive."""
        tensors = [tensor for tensor in op.inputs if tensor.op.row.role is not Role.NEXT_ITERATION]
        places = [self.behind(tensor) for tensor in tensors]
        if op.row.role is Role.MERGE and len(places) == len(op.inputs) > 1:
            places = [_merged(places)]
        places.extend(self._place_after(control) for control in op.control_inputs)
        frame = max((place.frame for place in places), key=_depth, default=self.root)
        guards: dict[Guard, None] = {}
        for place in places:
            if place.frame is frame:
                guards.update(dict.fromkeys(place.guards))
        return Place(frame, tuple(guards))

    def _note_enter(self, op: Operation) -> None:
        name = op.attrs["frame_name"]
        if name not in self._frames:
            together = [op, *(each for each in self._enters.get(name, ()) if each is not op)]
            places = [self._joined(each) for each in together]
            outer = max((found.frame for found in places), key=_depth)
            guards = dict.fromkeys(
                guard for found in places if found.frame is outer for guard in found.guards
            )
            self._frames[name] = Frame(name, outer, [], tuple(guards))
        self._frames[name].enters.append(op)

    def all_enters(self, frame: Frame) -> list[Operation]:
        """All operations that lead into a frame."""
        for op in self._enters.get(frame.name, ()):
            self.place(op)
        return frame.enters


def _depth(frame: Frame) -> int:
    return sum(1 for _ in frame.around())


def _merged(places: list[Place]) -> Place:
    """The place of a Merge: the guards common to all inputs."""
    frame = max((place.frame for place in places), key=_depth)
    shared = [guard for guard in places[0].guards if all(guard in place.guards for place in places[1:])]
    return Place(frame, tuple(shared))


def split_by(places: Places, merge: Operation) -> Tensor | None:
    """The predicate on whose two sides the inputs of a Merge are; None for other Merges."""
    if len(merge.inputs) != 2:
        return None
    first, second = (places.behind(tensor).guards for tensor in merge.inputs)
    for pred, side in first:
        if (pred, 1 - side) in second:
            return pred
    return None


def loop_variables(places: Places, frame: Frame) -> list[LoopVariable]:
    """The variables of a loop.

    Raises:
        GraphValueError: an Enter of the loop is neither that of a variable nor constant.
    """
    found = []
    for enter in list(places.all_enters(frame)):
        if is_constant_enter(enter):
            continue
        merges = [op for op in enter.outputs[0].consumers() if is_loop_merge(op)]
        following = (
            [tensor.op.inputs[0] for tensor in merges[0].inputs if tensor.op is not enter] if merges else []
        )
        if len(merges) != 1 or len(following) != 1 or len(enter.outputs[0].consumers()) != 1:
            raise GraphValueError(
                f"{enter.name!r} is no variable of the while loop {frame.name!r}: its value is used in the first iteration only"
            )
        found.append(LoopVariable(enter, merges[0], following[0]))
    return found


def counting_variable(variables: Iterable[LoopVariable]) -> LoopVariable | None:
    """A variable that is incremented by one in each iteration."""
    for variable in variables:
        op = origin(variable.following).op
        if (
            op.type not in ("Add", "AddV2")
            or not variable.value.dtype.is_integer
            or variable.value.dims != ()
        ):
            continue
        terms = [origin(tensor) for tensor in op.inputs]
        steps = [constant_value(tensor) for tensor in terms if tensor is not variable.value]
        if len(steps) == 1 and steps[0] is not None and np.array_equal(steps[0], 1):
            return variable
    return None
