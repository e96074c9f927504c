"""Readiness of a partition's items: frames, iterations, dead values. A pure state machine: no await, no clock, no kernel.

An item runs once in each *iteration* of its frame. The outermost frame has one iteration; every loop is a frame of its own,
made for the iteration of the first Enter that leads into it. An *activation* is an item, the iteration it runs in, and whether
it is dead: a dead item is not run, and its outputs are dead too.

The rules (those of TensorFlow):

- An item runs when all its inputs have arrived; it is dead if any of them is. A trigger never is.
- A Merge runs with the first live input, or, dead, when all inputs are dead, after its control edges have arrived; a dead
  control edge does not make it dead.
- An Enter delivers into iteration 0 of the child frame, a constant one into every iteration. A dead Enter makes the Merge
  behind it dead.
- A NextIteration delivers into the next iteration, which is made unless as many as the frame's `parallel_iterations` are alive;
  then it is deferred until the oldest one is done. A dead one delivers nothing.
- A live Exit delivers to the parent iteration. An Exit that was dead in all iterations delivers, dead, when its frame is done.

An iteration is done when nothing in it runs or can still arrive: no activation is outstanding, no child frame and no earlier
iteration is alive, and, for the first one, every Enter has arrived. A frame is done with its last iteration.
"""

from __future__ import annotations

from collections import deque
from collections.abc import MutableMapping, MutableSequence, Sequence
from typing import Any

from aioexec.formats.murmur import combined, murmur64
from aioexec.planning.instruction import Instruction
from aioexec.planning.items import CONTROL_PORT, Kind
from aioexec.planning.plan import Edge, FramePlan, Item, Partition
from aioexec.resources.variable import Variable
from aioexec.text_cache import cached_by_text

# an enum's attribute costs as much as a small kernel
PROGRAM, FEED, SWITCH, MERGE = Kind.PROGRAM, Kind.FEED, Kind.SWITCH, Kind.MERGE
ENTER, EXIT, NEXT_ITERATION, TRIGGER = Kind.ENTER, Kind.EXIT, Kind.NEXT_ITERATION, Kind.TRIGGER

Values = MutableSequence[Any] | MutableMapping[int, Any]


class Dead:
    """The value of an output that is dead."""

    def __repr__(self) -> str:
        return "DEAD"


DEAD = Dead()


class _LoopValues(dict[int, Any]):
    """The values of one iteration of a loop; any other value is looked up among those known in every step."""

    def __init__(self, known: Sequence[Any]) -> None:
        super().__init__()
        self._known = known

    def __missing__(self, value: int) -> Any:
        return self._known[value]


_NO_ITEMS: dict[int, int] = {}
_NO_FRAMES: dict[int, LoopFrame] = {}
# Shared and never written: most iterations need none of these, and to make four dictionaries would dominate a small step.


class Iteration:
    """One iteration of a frame.

    Attributes:
        frame: the frame it belongs to.
        number: from 0.
        values: the values of its items.
        waits: the number of edges for which each item, once an edge of it has arrived, still waits.
        dead: items for which a dead value has arrived; for a Merge, how many.
        merged: the input that each Merge outputs.
        outstanding: the number of activations that have not finished, and of calls of `hold` without `release`.
        children: frames entered from this iteration and not done, by index.
    """

    __slots__ = ("children", "dead", "frame", "merged", "number", "outstanding", "values", "waits")

    def __init__(self, frame: LoopFrame, number: int, values: Values) -> None:
        self.frame = frame
        self.number = number
        self.values = values
        self.waits: dict[int, int] = {}
        self.dead = self.merged = _NO_ITEMS
        self.outstanding = 0
        self.children = _NO_FRAMES


class LoopFrame:
    """One run of a loop, or the outermost frame.

    Attributes:
        index: of its plan in the partition.
        parent: the iteration it was entered from; None for the outermost.
        id: the same in all partitions: it is part of the keys of transfers.
        iterations: those alive, by number, oldest first; `newest` is the number of the last one made.
        missing_enters: the number of Enters that have not arrived.
        constants: values of constant Enters, and whether they are dead, for every further iteration.
        put_off: deferred NextIterations (item, value).
        exited: Exits that were live in some iteration.
    """

    __slots__ = (
        "constants",
        "exited",
        "id",
        "index",
        "iterations",
        "missing_enters",
        "newest",
        "parent",
        "put_off",
    )

    def __init__(self, index: int, plan: FramePlan, parent: Iteration | None) -> None:
        self.index = index
        self.parent = parent
        self.id = 0 if parent is None else _frame_id(parent, plan.name)
        self.iterations: dict[int, Iteration] = {}
        self.newest = -1
        self.missing_enters = plan.enters
        self.constants: list[tuple[Item, Any, bool]] = []
        self.put_off: list[tuple[Item, Any]] = []
        self.exited: set[int] = set()


def _frame_id(parent: Iteration, name: str | bytes) -> int:
    """The frame's id, computed as TensorFlow does, since it is part of the keys of transfers inside of loops."""
    return combined(parent.frame.id, combined(parent.number, _name_hash(name)))


@cached_by_text(1 << 10)
def _name_hash(name: str | bytes) -> int:
    return murmur64(name if isinstance(name, bytes) else name.encode())


_OUTERMOST = LoopFrame(
    0, FramePlan("", 0, 1, 0, ()), None
)  # the plan of the outermost frame, the same in all steps


class Activation:
    """An item that is ready, in an iteration; a `dead` one does not run."""

    __slots__ = ("dead", "item", "iteration")

    def __init__(self, item: Item, iteration: Iteration, dead: bool) -> None:
        self.item = item
        self.iteration = iteration
        self.dead = dead

    def __repr__(self) -> str:
        where = f"{self.iteration.frame.index}:{self.iteration.number}"
        return f"<{'dead ' if self.dead else ''}{self.item.kind.value} item {self.item.index} in {where}>"


class Propagator:
    """The control state of one partition in one step.

    `ready` collects activations; the scheduler removes and runs them, and calls `on_finished` for each.
    """

    __slots__ = ("_done", "_partition", "items", "outermost", "ready")

    def __init__(self, partition: Partition, values: Values, done: int = 0) -> None:
        self._partition = partition
        self.items = partition.items
        self._done = done
        self.ready: deque[Activation] = deque()
        self.outermost = Iteration(_OUTERMOST, 0, values)

    def start(self, initial: Sequence[Item] | None = None) -> None:
        """Activate the items without inputs: `initial`, if the caller has computed them (`initial_items`)."""
        for item in initial_items(self.items) if initial is None else initial:
            if item.kind is MERGE:
                for position in item.arrived:
                    self._arrive(Edge(0, item.index, position), self.outermost, False)
            elif item.index >= self._done:
                self._activate(item, self.outermost, False)
        for item in self.items[: self._done]:
            for edge in item.edges:
                if edge.target >= self._done:
                    self._arrive(edge, self.outermost, False)

    def on_feed_arrived(self, item: Item) -> None:
        """Record the arrival of a feed of a partial run."""
        for edge in item.edges:
            self._arrive(edge, self.outermost, False)

    def on_finished(self, activation: Activation, live_port: int = 0) -> None:
        """Record the end of an activation, and propagate it to the consumers. `live_port` is the output taken by a Switch."""
        item, iteration = activation.item, activation.iteration
        kind = item.kind
        if kind is PROGRAM or not (kind is SWITCH or kind is ENTER or kind is EXIT or kind is NEXT_ITERATION):
            for edge in item.edges:
                self._arrive(edge, iteration, activation.dead)
        else:
            self._propagate(item, iteration, activation.dead, live_port)
        self.release(iteration)

    def hold(self, iteration: Iteration) -> None:
        """Keep an iteration from being done before `release` is called: a device has work of it."""
        iteration.outstanding += 1

    def release(self, iteration: Iteration) -> None:
        iteration.outstanding -= 1
        if iteration.outstanding == 0 and iteration.frame.parent is not None:
            self._clean(iteration.frame)

    def _propagate(self, item: Item, iteration: Iteration, dead: bool, live_port: int) -> None:
        """Propagate the end of a control-flow item."""
        if item.kind is SWITCH:
            for edge in item.edges:
                self._arrive(edge, iteration, dead or edge.port not in (live_port, CONTROL_PORT))
        elif item.kind is ENTER:
            self._enter(item, iteration, dead)
        elif item.kind is EXIT:
            self._exit(item, iteration, dead)
        elif not dead:
            self._next_iteration(item, iteration)

    # Values that arrive

    def _arrive(self, edge: Edge, iteration: Iteration, dead: bool, by_enter: bool = False) -> None:
        """Record the arrival of one edge at an item."""
        target = edge.target
        item = self.items[target]
        if item.waits == 1 and not dead and item.kind is not MERGE:  # the usual case needs no count
            iteration.outstanding += 1
            self.ready.append(Activation(item, iteration, False))
            return
        waits = iteration.waits.get(target)
        if waits is None:
            waits = item.waits
        if item.kind is MERGE:
            self._arrive_at_merge(item, edge, iteration, waits, dead, by_enter)
            return
        if dead and item.kind is not TRIGGER:
            if iteration.dead is _NO_ITEMS:
                iteration.dead = {}
            iteration.dead[target] = 1
        iteration.waits[target] = waits - 1
        if waits == 1:
            self._activate(item, iteration, target in iteration.dead)

    def _arrive_at_merge(
        self, item: Item, edge: Edge, iteration: Iteration, waits: int, dead: bool, by_enter: bool
    ) -> None:
        """Record an arrival at a Merge, which is activated once: `waits` is negative from then on."""
        target = item.index
        if edge.position < 0:
            waits -= 1
        elif not dead:
            if iteration.merged is _NO_ITEMS:
                iteration.merged = {}
            iteration.merged.setdefault(target, edge.position)
        else:
            if iteration.dead is _NO_ITEMS:
                iteration.dead = {}
            iteration.dead[target] = iteration.dead.get(target, 0) + 1
            if by_enter:  # the loop is not entered, so the other input of its Merge will never arrive
                iteration.dead[target] = len(item.node.inputs)
        iteration.waits[target] = waits
        if waits == 0:
            if target in iteration.merged:
                iteration.waits[target] = -1
                self._activate(item, iteration, False)
            elif iteration.dead.get(target, 0) == len(item.node.inputs):
                iteration.waits[target] = -1
                self._activate(item, iteration, True)

    def _activate(self, item: Item, iteration: Iteration, dead: bool) -> None:
        iteration.outstanding += 1
        self.ready.append(Activation(item, iteration, dead))

    # Frames

    def _enter(self, item: Item, outside: Iteration, dead: bool) -> None:
        value = DEAD if dead else input_value(item.instructions[0], 0, outside.values)
        frame = outside.children.get(item.enters)
        if frame is None:
            if outside.children is _NO_FRAMES:
                outside.children = {}
            frame = outside.children[item.enters] = LoopFrame(
                item.enters, self._partition.frames[item.enters], outside
            )
            self._new_iteration(frame)
        frame.missing_enters -= 1
        if item.node.op.attrs["is_constant"]:
            frame.constants.append((item, value, dead))
            for iteration in list(frame.iterations.values()):
                self._hand(item, value, iteration, dead)
        else:
            self._hand(item, value, frame.iterations[0], dead)
        self._clean(frame)

    def _hand(self, item: Item, value: Any, iteration: Iteration, dead: bool) -> None:
        """Deliver the output of an item into another iteration than its own."""
        iteration.values[item.instructions[0].outputs[0]] = value
        for edge in item.edges:
            self._arrive(edge, iteration, dead, by_enter=item.kind is ENTER)

    def _exit(self, item: Item, iteration: Iteration, dead: bool) -> None:
        frame = iteration.frame
        assert frame.parent is not None
        if not dead and item.index not in frame.exited:
            frame.exited.add(item.index)
            self._hand(item, input_value(item.instructions[0], 0, iteration.values), frame.parent, False)

    def _next_iteration(self, item: Item, iteration: Iteration) -> None:
        frame = iteration.frame
        value = input_value(item.instructions[0], 0, iteration.values)
        if iteration.number < frame.newest:
            self._hand(item, value, frame.iterations[iteration.number + 1], False)
        elif len(frame.iterations) >= self._partition.frames[frame.index].parallel_iterations:
            frame.put_off.append((item, value))
        else:
            self._hand(item, value, self._new_iteration(frame), False)

    def _new_iteration(self, frame: LoopFrame) -> Iteration:
        frame.newest += 1
        made = Iteration(frame, frame.newest, _LoopValues(self._partition.values))
        frame.iterations[frame.newest] = made
        for item, value, dead in frame.constants:
            self._hand(item, value, made, dead)
        return made

    def _clean(self, frame: LoopFrame) -> None:
        """Remove iterations that are done, oldest first; resume deferred NextIterations; end the frame if it is done."""
        while frame.iterations:
            oldest = next(iter(frame.iterations.values()))
            if oldest.outstanding or oldest.children or frame.missing_enters:
                return
            if frame.put_off and oldest.number == frame.newest:
                self._resume(frame)
            del frame.iterations[oldest.number]
            if frame.put_off:
                self._resume(frame)
        self._end(frame)

    def _resume(self, frame: LoopFrame) -> None:
        put_off, frame.put_off = frame.put_off, []
        made = self._new_iteration(frame)
        for item, value in put_off:
            self._hand(item, value, made, False)

    def _end(self, frame: LoopFrame) -> None:
        outside = frame.parent
        assert outside is not None
        del outside.children[frame.index]
        for index in self._partition.frames[frame.index].exits:
            if index not in frame.exited:
                self._hand(self.items[index], DEAD, outside, True)
        if outside.outstanding == 0 and outside.frame.parent is not None:
            self._clean(outside.frame)

    # For tests

    def forget_values(self) -> None:
        """Drop the values of all iterations, when the run is over."""
        iterations = [self.outermost]
        while iterations:
            iteration = iterations.pop()
            iteration.values.clear()
            for frame in iteration.children.values():
                iterations += frame.iterations.values()
                frame.constants.clear()
                frame.put_off.clear()

    def check_invariants(self) -> None:
        assert not _OUTERMOST.iterations
        self._check_iteration(self.outermost)

    def _check_frame(self, frame: LoopFrame) -> None:
        assert frame.missing_enters >= 0
        numbers = list(frame.iterations)
        assert numbers == list(range(frame.newest - len(numbers) + 1, frame.newest + 1))
        assert numbers, "a frame without iterations is done and gone"
        assert len(numbers) <= max(1, self._partition.frames[frame.index].parallel_iterations)
        for iteration in frame.iterations.values():
            self._check_iteration(iteration)

    def _check_iteration(self, iteration: Iteration) -> None:
        assert iteration.outstanding >= 0
        for target, waits in iteration.waits.items():
            assert waits >= (-1 if self.items[target].kind is MERGE else 0)
        for child in iteration.children.values():
            assert child.parent is iteration
            self._check_frame(child)


def input_value(instruction: Instruction, position: int, values: Values) -> Any:
    """An input; if the kernel takes the value of a reference, the variable's present value.

    Raises:
        FailedPreconditionError: the variable has none.
    """
    value = values[instruction.inputs[position]]
    return value.read() if position in instruction.dereferences and isinstance(value, Variable) else value


def initial_items(items: Sequence[Item]) -> list[Item]:
    """The items without inputs; a Merge may still wait for control edges."""
    return [
        item
        for item in items
        if item.frame == 0
        and item.kind is not FEED
        and (item.arrived if item.kind is MERGE else item.waits == 0)
    ]


def dead_outputs(item: Item, values: Values) -> None:
    """Mark all outputs of an item as dead.

    Except a NextIteration's: its output belongs to the next iteration. In its own iteration that place holds the value from
    the previous one, which a Merge may still have to take.
    """
    if item.kind is NEXT_ITERATION:
        return
    for instruction in item.instructions:
        for value in instruction.outputs:
            values[value] = DEAD
