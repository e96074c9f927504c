"""The place of a node: its loop, and its branches of conditionals, derived from the edges alone.

A gradient must be computed where its forward node is: as often, and only when that one runs. The contexts a graph was built
in would say so, but a graph that was imported has none. The edges say it too: an Enter leads into a frame, an Exit out of it,
an output of a Switch is there on one side of its predicate only, and a Merge of both sides is there again on both.
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
"""A predicate, and the side of it on which something is there: 1 when it holds."""


@dataclass(eq=False)
class Frame:
    """A loop; the outermost frame, which is none, has no parent.

    `enters`: the operations that lead into it. `guards`: the branches the loop stands in, within the parent.
    """

    name: str
    parent: Frame | None
    enters: list[Operation] = field(default_factory=list)
    guards: tuple[Guard, ...] = ()

    def around(self) -> Iterator[Frame]:
        """This frame and those around it, the innermost first."""
        frame: Frame | None = self
        while frame is not None:
            yield frame
            frame = frame.parent

    @property
    def context(self) -> WhileContext | None:
        """The context the loop was built in; None if it was imported."""
        found = (while_context(enter._control_flow_context) for enter in self.enters)
        return next((context for context in found if isinstance(context, WhileContext)), None)


@dataclass(frozen=True)
class Place:
    """A frame, and the branches within it, the outermost first."""

    frame: Frame
    guards: tuple[Guard, ...] = ()


@dataclass(frozen=True, eq=False)
class LoopVariable:
    """A variable of a loop; `following` is what it becomes after each iteration."""

    enter: Operation
    merge: Operation
    following: Tensor

    @property
    def value(self) -> Tensor:
        """What it is in an iteration."""
        return self.merge.outputs[0]

    @property
    def exits(self) -> list[Tensor]:
        """What it is after the loop, as far as that is asked for."""
        switches = (op for op in self.value.consumers() if is_loop_switch(op))
        leaving = (op for switch in switches for op in switch.outputs[0].consumers())
        return [op.outputs[0] for op in leaving if op.row.role is Role.EXIT]

    @property
    def is_unchanged(self) -> bool:
        """Whether it is the same in each iteration."""
        return origin(self.following) is self.value


def origin(tensor: Tensor) -> Tensor:
    """The tensor this one is a copy of within its loop: through identities, and where a loop goes on with its body.

    An Identity that waits for something may be in a branch which its input is not in.
    """
    while True:
        op = tensor.op
        plain = op.type == "Identity" and (not op.control_inputs or is_constant_enter(op.inputs[0].op))
        if plain or (is_loop_switch(op) and tensor.value_index == 1):
            tensor = op.inputs[0]
        else:
            return tensor


def predicate(op: Operation) -> Tensor:
    """What a Switch goes by."""
    tensor = op.inputs[1]
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor


def is_loop_switch(op: Operation) -> bool:
    return op.row.role is Role.SWITCH and predicate(op).op.row.role is Role.LOOP_COND


def is_loop_merge(op: Operation) -> bool:
    """Whether a loop variable comes round here, or will: while a loop is built both inputs are its Enter."""
    return op.row.role is Role.MERGE and all(
        tensor.op.row.role in (Role.ENTER, Role.NEXT_ITERATION) for tensor in op.inputs
    )


def is_constant_enter(op: Operation) -> bool:
    return op.row.role is Role.ENTER and bool(op.attrs["is_constant"])


class Structure:
    """The frames and branches of a graph, found out as they are asked for; nodes may be added meanwhile.

    `added`: nodes that were made for the loops of the forward graph. `_places`: where each operation known so far runs.
    `_frames`: the loops, by name.
    """

    def __init__(self, graph: BaseGraph) -> None:
        self.root = Frame("", None)
        self.added: set[Operation] = set()
        self._places: dict[Operation, Place] = {}
        self._frames: dict[str, Frame] = {}
        self._graph = graph

    @functools.cached_property
    def _enters(self) -> dict[str, list[Operation]]:
        """The Enter nodes there were at first, by the name of their frame."""
        found: dict[str, list[Operation]] = {}
        for op in self._graph.get_operations():
            if op.row.role is Role.ENTER:
                found.setdefault(op.attrs["frame_name"], []).append(op)
        return found

    def place(self, op: Operation) -> Place:
        """Where an operation runs: an Enter outside of the frame it leads into, an Exit inside."""
        waiting = [op]
        while waiting:
            current = waiting[-1]
            missing = [each for each in self._needed(current) if each not in self._places]
            if missing:
                waiting.extend(missing)
                continue
            waiting.pop()
            if current not in self._places:
                self._places[current] = self._find(current)
        return self._places[op]

    def behind(self, tensor: Tensor) -> Place:
        """Where a tensor can be used."""
        place = self.place(tensor.op)
        if tensor.op.row.role is Role.SWITCH and not is_loop_switch(tensor.op):
            return Place(place.frame, (*place.guards, (predicate(tensor.op), tensor.value_index)))
        return self._leaving(tensor.op)

    def home(self, op: Operation) -> Frame:
        """The frame an operation belongs to: an Enter to the one it leads into."""
        return self._leaving(op).frame if op.row.role is Role.ENTER else self.place(op).frame

    def is_within(self, tensor: Tensor, frame: Frame) -> bool:
        return frame in self.behind(tensor).frame.around()

    def _leaving(self, op: Operation) -> Place:
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
        """What must be placed before an operation: what it waits for, for an Enter all that lead into the frame wait for."""
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
            self._note_enter(op, place)
        return place

    def _joined(self, op: Operation) -> Place:
        """Where all that an operation waits for is there."""
        tensors = [tensor for tensor in op.inputs if tensor.op.row.role is not Role.NEXT_ITERATION]
        places = [self.behind(tensor) for tensor in tensors]
        if op.row.role is Role.MERGE and len(places) == len(op.inputs) > 1:
            places = [_merged(places)]
        places.extend(self._leaving(control) for control in op.control_inputs)
        frame = max((place.frame for place in places), key=_depth, default=self.root)
        guards: dict[Guard, None] = {}
        for place in places:
            if place.frame is frame:
                guards.update(dict.fromkeys(place.guards))
        return Place(frame, tuple(guards))

    def _note_enter(self, op: Operation, place: Place) -> None:
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
        """The operations that lead into a frame."""
        for op in self._enters.get(frame.name, ()):
            self.place(op)
        return frame.enters


def _depth(frame: Frame) -> int:
    return sum(1 for _ in frame.around())


def _merged(places: list[Place]) -> Place:
    """Where a Merge is: of the two sides of a predicate where the predicate is, else where all its inputs are."""
    frame = max((place.frame for place in places), key=_depth)
    shared = [guard for guard in places[0].guards if all(guard in place.guards for place in places[1:])]
    return Place(frame, tuple(shared))


def split_by(structure: Structure, merge: Operation) -> Tensor | None:
    """The predicate on whose sides the two inputs of a Merge are; None if it is no such Merge."""
    if len(merge.inputs) != 2:
        return None
    first, second = (structure.behind(tensor).guards for tensor in merge.inputs)
    for pred, side in first:
        if (pred, 1 - side) in second:
            return pred
    return None


def loop_variables(structure: Structure, frame: Frame) -> list[LoopVariable]:
    """The variables of a loop.

    Raises:
        GraphValueError: what leads into the loop is no variable and no constant of it.
    """
    found = []
    for enter in list(structure.all_enters(frame)):
        if is_constant_enter(enter):
            continue
        merges = [op for op in enter.outputs[0].consumers() if is_loop_merge(op)]
        following = (
            [tensor.op.inputs[0] for tensor in merges[0].inputs if tensor.op is not enter] if merges else []
        )
        if len(merges) != 1 or len(following) != 1 or len(enter.outputs[0].consumers()) != 1:
            raise GraphValueError(
                f"{enter.name!r} is no variable of the while loop {frame.name!r}: its value is used but in the first iteration"
            )
        found.append(LoopVariable(enter, merges[0], following[0]))
    return found


def counting_variable(variables: Iterable[LoopVariable]) -> LoopVariable | None:
    """A variable of a loop that goes up by one with each iteration."""
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
