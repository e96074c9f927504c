"""One partition in one step: takes what is ready, runs it or has it run, and tells the propagator when it is over.

What can be done at once is done at once, in slices the event loop can bear. What takes longer is awaited in place while it is
the only thing to do, and is a task of its own otherwise; kernels that wait are the futures they returned. Nothing is left
behind: when `run` returns or raises, everything begun has finished.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from time import perf_counter_ns
from typing import Any

import numpy as np

from aioexec.errors import CancelledError, InvalidArgumentError, OpError
from aioexec.execution.budget import TICK_NS
from aioexec.execution.engine import Engine
from aioexec.execution.item_runner import ItemRunner
from aioexec.execution.program import locate
from aioexec.execution.propagator import DEAD, Activation, Propagator, dead_outputs
from aioexec.execution.reference import store
from aioexec.execution.rendezvous import Received, check_received, transfer_key
from aioexec.execution.step import Step
from aioexec.execution.trace import note_known, note_node
from aioexec.planning.items import Kind
from aioexec.planning.plan import Partition
from aioexec.resources.variable import Variable

PROGRAM, ASYNCHRONOUS, SEND, RECV = Kind.PROGRAM, Kind.ASYNCHRONOUS, Kind.SEND, Kind.RECV
SWITCH, MERGE = Kind.SWITCH, Kind.MERGE  # an enum's attribute costs as much as a dictionary
_LOOK_AT_CLOCK = 64  # items that are decisions only, between two looks at the clock


class PartitionExecutor:
    """What outlives the steps of one partition: the runners of its programs and the keys of its transfers, by item."""

    def __init__(self, partition: Partition, engine: Engine) -> None:
        self.partition = partition
        self.runners = [
            ItemRunner(item, partition, engine) if item.kind is PROGRAM else None for item in partition.items
        ]
        self.keys = {
            item.index: transfer_key(item.node.op.attrs)
            for item in partition.items
            if item.kind is SEND or item.kind is RECV
        }


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
        """The step has failed: the run is told so itself."""


class PartitionRun:
    """Runs one partition in one step.

    Constant: partition, step. Changing: `values`, of the outermost frame; `fresh`, those nobody else holds; `_running`, what is
    awaited, with its activation; `_completed`, what has come of it; `_expected`, how many Recvs wait, and `_arrived`, what has
    come for them; `_waiter`, set while there is nothing to do; `_missing_feeds`, of a partial run, how many are still to come;
    `_decided`, a count of items that are decisions only.
    """

    __slots__ = (
        "_arrived",
        "_completed",
        "_decided",
        "_expected",
        "_keys",
        "_missing_feeds",
        "_propagator",
        "_runners",
        "_running",
        "_waiter",
        "fresh",
        "on_finished",
        "partition",
        "step",
        "values",
    )

    def __init__(self, executor: PartitionExecutor, step: Step, missing_feeds: int = 0) -> None:
        self.partition = executor.partition
        self.step = step
        self.values: list[Any] = list(self.partition.values)
        self.fresh: set[int] = set()
        self.on_finished: Callable[[int], None] | None = None
        self._runners = executor.runners
        self._keys = executor.keys
        self._propagator = Propagator(self.partition, self.values)
        self._running: dict[asyncio.Future[Any], Activation] = {}
        self._completed: deque[asyncio.Future[Any]] = deque()
        self._expected = 0
        self._arrived: deque[tuple[Activation, Received]] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._missing_feeds = missing_feeds
        self._decided = 0

    # The loop

    async def run(self) -> None:
        """Run until nothing is left to do.

        Raises:
            OpError: of the node that failed first.
        """
        try:
            if self.step.collector is not None:
                nodes = self.partition.subgraph.nodes
                note_known(self.step.collector, nodes, self.partition.device, perf_counter_ns())
            self._propagator.start()
            while True:
                await self._work()
                if not self._running and not self._expected and not self._missing_feeds:
                    return
                await self._wait()
                self._check_step()
                self._collect()
        except BaseException as error:
            self.step.fail(error)
            await self._drain()
            raise

    async def _work(self) -> None:
        """Begin everything that is ready."""
        ready = self._propagator.ready
        budget = self.step.engine.budget
        while ready:
            if budget.spent > TICK_NS:
                await budget.turn()
                self._check_step()
                self._collect()
            activation = ready.popleft()
            rest = self._begin(activation)
            if rest is None:
                continue
            if self._may_await_in_place(rest):
                self._end(activation, await rest)
            else:
                future = asyncio.ensure_future(rest)
                self._running[future] = activation
                future.add_done_callback(self._done)

    def _may_await_in_place(self, rest: Awaitable[Any]) -> bool:
        """Whether nothing else is there to do, and nobody but the awaiting task may want to stop it."""
        return (
            not self._propagator.ready
            and not self._running
            and not self._missing_feeds
            and len(self.step.engine.devices) == 1
            and not isinstance(rest, asyncio.Future)
        )

    def _check_step(self) -> None:
        """Raise what has ended the step elsewhere."""
        if self.step.error is not None:
            raise self.step.error

    def stop(self) -> None:
        """The step has failed elsewhere: cancel what is awaited; `run` comes to its end."""
        for future in self._running:
            future.cancel()
        self._wake()

    def _done(self, future: asyncio.Future[Any]) -> None:
        self._completed.append(future)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait(self) -> None:
        if not self._completed and not self._arrived and not self._propagator.ready:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    def _collect(self) -> None:
        """Go on behind what has completed or arrived; raises what a kernel raised."""
        while self._arrived:
            activation, (value, is_dead) = self._arrived.popleft()
            self._expected -= 1
            began = perf_counter_ns()
            self._take(activation, value, is_dead)
            self._record(activation, began)
            self._finished(activation)
        while self._completed:
            future = self._completed.popleft()
            activation = self._running.pop(future)
            try:
                result = future.result()
            except (Exception, asyncio.CancelledError) as error:
                raise self._located(activation, error) from error
            self._end(activation, result)

    def _located(self, activation: Activation, error: Exception | asyncio.CancelledError) -> BaseException:
        if isinstance(error, asyncio.CancelledError):  # by itself: nobody has cancelled the step
            error = CancelledError(f"{activation.item.node.name!r} was cancelled")
        if activation.item.kind is PROGRAM:
            return error
        return locate(error, activation.item.instructions[0], self.partition.device)

    async def _drain(self) -> None:
        """Cancel what is awaited and wait until it has ended, however often we are cancelled ourselves."""
        for future in self._running:
            future.cancel()
        while pending := [future for future in self._running if not future.done()]:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait(pending)
        for future in self._running:
            if not future.cancelled():
                future.exception()  # it is known that it failed: asyncio need not complain
        self._running.clear()

    def received(self, activation: Activation, received: Received) -> None:
        """What a Recv has waited for has come."""
        self._arrived.append((activation, received))
        self._wake()

    def feed(self, position: int, value: Any) -> None:
        """A feed of a partial run has come."""
        place = self.partition.feeds[position]
        self.values[place] = value
        self._missing_feeds -= 1
        item = self.partition.items[self.partition.producers[place]]
        self._propagator.arrived(item)
        self._wake()

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
        self._look_at_clock()
        if item.kind is RECV:
            self._receive(activation)
            return None
        if activation.dead and item.kind is not SEND:
            dead_outputs(item, activation.iteration.values)
            self._finished(activation)
            return None
        if item.kind is ASYNCHRONOUS:
            return self._call(activation)
        began = perf_counter_ns()
        live_port = 0
        if item.kind is SWITCH:
            live_port = self._switch(activation)
        elif item.kind is MERGE:
            self._merge(activation)
        elif item.kind is SEND:
            self._send(activation)
        self._record(activation, began)
        self._finished(activation, live_port)
        return None

    def _finished(self, activation: Activation, live_port: int = 0) -> None:
        self._propagator.finished(activation, live_port)
        if self.on_finished is not None:
            self.on_finished(activation.item.index)

    def _end(self, activation: Activation, result: Any) -> None:
        """What was awaited is over."""
        if activation.item.kind is ASYNCHRONOUS:
            self._store(activation, result)
        self._finished(activation)

    def _look_at_clock(self) -> None:
        """Items that only decide are cheap, but a loop of them must let others in."""
        self._decided += 1
        if self._decided % _LOOK_AT_CLOCK == 0:
            now = perf_counter_ns()
            self.step.engine.budget.charge(now, now)

    def _inputs(self, activation: Activation) -> list[Any]:
        instruction = activation.item.instructions[0]
        values = activation.iteration.values
        inputs = [values[value] for value in instruction.inputs]
        for k in instruction.dereferences:
            if isinstance(inputs[k], Variable):
                inputs[k] = inputs[k].read()
        return inputs

    def _call(self, activation: Activation) -> Awaitable[Any] | None:
        """An asynchronous kernel: it may be done at once."""
        instruction = activation.item.instructions[0]
        began = perf_counter_ns()
        try:
            result = instruction.compute(self.step, *self._inputs(activation))
        except Exception as error:
            raise locate(error, instruction, self.partition.device) from error
        if hasattr(result, "__await__"):
            return self._timed(activation, result, began) if self.step.collector is not None else result
        self._store(activation, result)
        self._record(activation, began)
        self._finished(activation)
        return None

    async def _timed(self, activation: Activation, result: Awaitable[Any], began: int) -> Any:
        value = await result
        self._record(activation, began)
        return value

    def _store(self, activation: Activation, result: Any) -> None:
        instruction = activation.item.instructions[0]
        try:
            store(activation.iteration.values, instruction, result)
        except Exception as error:
            raise locate(error, instruction, self.partition.device) from error

    # Control flow and transfer

    def _switch(self, activation: Activation) -> int:
        instruction = activation.item.instructions[0]
        values = activation.iteration.values
        data = values[instruction.inputs[0]]
        pred = self._scalar(activation, 1)
        live = 1 if pred else 0
        values[instruction.outputs[live]] = data
        values[instruction.outputs[1 - live]] = DEAD
        return live

    def _scalar(self, activation: Activation, position: int) -> Any:
        instruction = activation.item.instructions[0]
        value = self._inputs(activation)[position]
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
        values[instruction.outputs[0]] = values[instruction.inputs[position]]
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
            began = perf_counter_ns()
            self._take(activation, *received)
            self._record(activation, began)
            self._finished(activation)
        else:
            self._expected += 1
            self.step.rendezvous.expect(key, _Arrival(self, activation))

    def _take(self, activation: Activation, value: Any, is_dead: bool) -> None:
        instruction = activation.item.instructions[0]
        if is_dead:
            activation.dead = True
        if activation.dead:
            dead_outputs(activation.item, activation.iteration.values)
            return
        node = instruction.node
        check_received(value, node.output_dtypes()[0], f"_Recv {node.name!r}")
        activation.iteration.values[instruction.outputs[0]] = value

    def _record(self, activation: Activation, began: int) -> None:
        collector = self.step.collector
        if collector is not None:
            instruction, values = activation.item.instructions[0], activation.iteration.values
            outputs = [values[value] for value in instruction.outputs]
            now = perf_counter_ns()
            note_node(collector, instruction.node, self.partition.device, began, began, now, outputs)
