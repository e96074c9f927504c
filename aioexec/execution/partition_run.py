"""One partition in one step: takes what is ready, runs it or has it run, and tells the propagator when it is over.

Driven by events: `start`, feeds, values from other partitions, and the futures of what is awaited each call `_advance`, which
does everything that can be done at once, in slices the event loop can bear. What takes longer is a task; kernels that wait are
the futures they returned. Nothing is left behind: the run has ended when everything begun has finished.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from aioexec.errors import InvalidArgumentError, OpError
from aioexec.execution.budget import TICK_NS
from aioexec.execution.items_run import ItemsRun
from aioexec.execution.propagator import (
    DEAD,
    Activation,
    Propagator,
    dead_outputs,
    input_value,
)
from aioexec.execution.rendezvous import Received, check_received, transfer_key
from aioexec.execution.step import Step
from aioexec.execution.structures import inputs_of
from aioexec.planning.instruction import locate
from aioexec.planning.items import Kind
from aioexec.planning.plan import Item

if TYPE_CHECKING:
    from aioexec.execution.partition_executor import PartitionExecutor

PROGRAM, ASYNCHRONOUS, SEND, RECV = Kind.PROGRAM, Kind.ASYNCHRONOUS, Kind.SEND, Kind.RECV
SWITCH, MERGE = Kind.SWITCH, Kind.MERGE  # an enum's attribute costs as much as a dictionary


class _Arrival:
    """A Recv that waits."""

    __slots__ = ("_activation", "_run")

    def __init__(self, run: PartitionRun, activation: Activation) -> None:
        self._run = run
        self._activation = activation

    def done(self) -> bool:
        return self._run.step.error is not None

    def set_result(self, received: Received) -> None:
        self._run.received(self._activation, received)

    def set_exception(self, error: OpError) -> None:
        """The value will not come: the step fails, unless it has failed and that is why."""
        self._run.step.fail(error)


class PartitionRun(ItemsRun):
    """Runs one partition in one step.

    Changing: `_expected`, how many Recvs wait, and `_arrived`, what has come for them.
    """

    __slots__ = ("_arrived", "_expected", "_keys", "_propagator", "_received")

    def __init__(
        self,
        executor: PartitionExecutor,
        step: Step,
        values: list[Any] | None = None,
        fresh: set[int] | None = None,
        missing_feeds: int = 0,
    ) -> None:
        super().__init__(executor, step, values, fresh, missing_feeds)
        self._keys = executor.keys
        self._received = executor.received
        self._propagator = Propagator(self.partition, self.values)
        self._expected = 0
        self._arrived: deque[tuple[Activation, Received]] = deque()

    @property
    def receives(self) -> int:
        """How many values come from other partitions."""
        return len(self._received)

    # Life

    def start(self) -> None:
        """Begin: all that can be done at once has been done when this returns."""
        self._open()
        self._propagator.start(self._initial)
        self._advance()

    def _is_waiting(self) -> bool:
        return bool(self._propagator.ready or self._expected)

    # Events

    def _advance(self) -> None:
        step = self.step
        step.is_working = True
        try:
            self._work()
        except BaseException as error:
            step.fail(error)
        step.is_working = False
        self._check_end()

    def _work(self) -> None:
        if self._arrived:
            self._take_arrived()
        ready = self._propagator.ready
        budget = self.step.engine.budget
        while ready and self.step.error is None:
            if budget.spent > TICK_NS:
                self._put_off()
                return
            activation = ready.popleft()
            rest = self._begin(activation)
            if rest is not None:
                self._wait_for(rest, activation)

    def _advance_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._advance_now)

    def received(self, activation: Activation, received: Received) -> None:
        """What a Recv has waited for has come: from another partition here, which goes on first, or from elsewhere."""
        self._arrived.append((activation, received))
        step = self.step
        if step.woken is not None:
            if not self._is_due:
                self._is_due = True
                step.woken.append(self._advance_now)
        elif step.is_working:
            self._advance_soon()
        else:
            self._advance()

    def _take_arrived(self) -> None:
        while self._arrived:
            activation, (value, is_dead) = self._arrived.popleft()
            self._expected -= 1
            self._take(activation, value, is_dead)

    def feed(self, position: int, value: Any) -> None:
        """A feed of a partial run has come."""
        place = self.partition.feeds[position]
        self.values[place] = value
        self._missing_feeds -= 1
        index = self.partition.producers[place]
        self._propagator.arrived(self.partition.items[index])
        if self.on_finished is not None:
            self.on_finished(self, index)
        self._advance()

    # Items

    def _begin(self, activation: Activation) -> Awaitable[Any] | None:
        """Run an item, or begin it: then what is to be awaited comes back, and its result goes to `_end`."""
        item = activation.item
        if item.kind is PROGRAM and not activation.dead:
            runner = self._runners[item.index]
            assert runner is not None
            rest = runner.begin(activation.iteration.values, self.fresh, self.step)
            if rest is None:
                self._finished(activation)
            return rest
        self.step.engine.budget.decided()
        if item.kind is RECV:
            self._receive(activation)
            return None
        if activation.dead and item.kind is not SEND:
            dead_outputs(item, activation.iteration.values)
            self._finished(activation)
            return None
        if item.kind is ASYNCHRONOUS:
            rest = self._call(item.instructions[0], activation.iteration.values)
            if rest is None:
                self._finished(activation)
            return rest
        began = perf_counter_ns()
        live_port = 0
        if item.kind is SWITCH:
            live_port = self._switch(activation)
        elif item.kind is MERGE:
            self._merge(activation)
        elif item.kind is SEND:
            self._send(activation)
        self._record(item.instructions[0], activation.iteration.values, began)
        self._finished(activation, live_port)
        return None

    def _finished(self, activation: Activation, live_port: int = 0) -> None:
        self._propagator.finished(activation, live_port)
        if self.on_finished is not None:
            self.on_finished(self, activation.item.index)

    def _item(self, what: Activation) -> Item:
        return what.item

    def _end(self, what: Activation, result: Any) -> None:
        if what.item.kind is ASYNCHRONOUS:
            self._store(what.item.instructions[0], what.iteration.values, result)
        self._finished(what)

    def _inputs(self, activation: Activation) -> list[Any]:
        return inputs_of(activation.item.instructions[0], activation.iteration.values)

    def _input(self, activation: Activation, position: int) -> Any:
        instruction = activation.item.instructions[0]
        if not instruction.dereferences:
            return activation.iteration.values[instruction.inputs[position]]
        try:
            return input_value(instruction, position, activation.iteration.values)
        except OpError as error:
            raise locate(error, instruction, self.partition.device) from error

    # Control flow and transfer

    def _switch(self, activation: Activation) -> int:
        instruction = activation.item.instructions[0]
        values = activation.iteration.values
        data = self._input(activation, 0)
        pred = self._scalar(activation, 1)
        live = 1 if pred else 0
        values[instruction.outputs[live]] = data
        values[instruction.outputs[1 - live]] = DEAD
        return live

    def _scalar(self, activation: Activation, position: int) -> Any:
        instruction = activation.item.instructions[0]
        value = self._input(activation, position)
        if np.shape(value) != ():
            error = InvalidArgumentError(
                f"The second input must be a scalar, but it has shape {np.shape(value)}"
            )
            raise locate(error, instruction, self.partition.device)
        return value

    def _merge(self, activation: Activation) -> None:
        instruction = activation.item.instructions[0]
        values = activation.iteration.values
        position = activation.iteration.merged[activation.item.index]
        values[instruction.outputs[0]] = self._input(activation, position)
        values[instruction.outputs[1]] = np.array(position, np.int32)

    def _key(self, activation: Activation) -> str:
        item, iteration = activation.item, activation.iteration
        if iteration is self._propagator.outermost:
            return self._keys[item.index]
        return transfer_key(item.node.op.attrs, (iteration.frame.id, iteration.number))

    def _send(self, activation: Activation) -> None:
        value = DEAD if activation.dead else self._inputs(activation)[0]
        self.step.rendezvous.send(self._key(activation), value, activation.dead)

    def _receive(self, activation: Activation) -> None:
        """A dead Recv receives as well: its Send sends, dead."""
        key = self._key(activation)
        received = self.step.rendezvous.try_recv(key)
        if received is not None:
            self._take(activation, *received)
        else:
            self._expected += 1
            self.step.rendezvous.expect(key, _Arrival(self, activation))

    def _take(self, activation: Activation, value: Any, is_dead: bool) -> None:
        """What has come for a Recv."""
        item = activation.item
        activation.dead = activation.dead or is_dead
        if activation.dead:
            dead_outputs(item, activation.iteration.values)
        else:
            dtype = self._received[item.index]
            if type(value) is not np.ndarray or value.dtype is not dtype:
                check_received(value, item.node.output_dtype(0), f"_Recv {item.node.name!r}")
            activation.iteration.values[item.instructions[0].outputs[0]] = value
        self._record(item.instructions[0], activation.iteration.values, perf_counter_ns())
        self._finished(activation)
