"""The scheduler: runs the items of one partition in one step, each as soon as its inputs are available.

A `PartitionRun` takes ready items from its `Propagator`, runs or starts each one, and reports it finished, which makes its
consumers ready. An item that cannot end at once is a future: a program on a worker, or the awaitable of an asynchronous kernel.
`start`, `feed`, values received from other partitions and the callbacks of those futures all call `_advance`, which runs
everything that is ready, within the budget of the loop's tick.

The event loop's thread only. Invariant: a run has ended when no item is ready, awaited or expected; a step that failed starts
no further item, cancels the futures it awaits, and ends when these have finished.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter_ns
from typing import Any

import numpy as np

from aioexec.errors import CancelledError, InvalidArgumentError, OpError
from aioexec.execution.budget import TICK_NS
from aioexec.execution.memory.device_work import DeviceWork
from aioexec.execution.memory.list_copies import copy_list_out
from aioexec.execution.partition_executor import PartitionExecutor
from aioexec.execution.partition_group import Run
from aioexec.execution.programs.structures import inputs_of, store
from aioexec.execution.programs.trace import note_known, note_node
from aioexec.execution.propagator import (
    DEAD,
    Activation,
    Iteration,
    Propagator,
    Values,
    dead_outputs,
    input_value,
)
from aioexec.execution.rendezvous import Received, check_received, transfer_key
from aioexec.execution.step import Step
from aioexec.planning.instruction import Instruction, locate
from aioexec.planning.items import Kind

PROGRAM, ASYNCHRONOUS, SEND, RECV = Kind.PROGRAM, Kind.ASYNCHRONOUS, Kind.SEND, Kind.RECV
SWITCH, MERGE, COPY_TO_HOST = (
    Kind.SWITCH,
    Kind.MERGE,
    Kind.COPY_TO_HOST,
)  # an enum's attribute costs as much as a dictionary


class _Receiver:
    """A Recv whose value has not arrived; the rendezvous sets its result as it would a future's."""

    __slots__ = ("_activation", "_run")

    def __init__(self, run: PartitionRun, activation: Activation) -> None:
        self._run = run
        self._activation = activation

    def done(self) -> bool:
        return self._run.step.error is not None

    def set_result(self, received: Received) -> None:
        self._run.deliver(self._activation, received)

    def set_exception(self, error: OpError) -> None:
        """The value will not arrive: fail the step, unless its failure is the reason."""
        self._run.step.fail(error)


class PartitionRun(Run):
    """Runs one partition in one step; not started yet when it is made.

    Constant: `partition`. Changing: `values`, those of the outermost frame; `fresh`, the values that nothing else references;
    `on_finished`, a callback for each finished item; `_awaited`, the activation of each pending future; `_missing_feeds`, how
    many feeds of a partial run are missing; `_expected`, how many Recvs wait, and `_arrived`, the values received for them;
    `_held`, how often iterations are held for the work of a device;
    `_is_scheduled`, whether a callback of the loop will call `_advance`; `_work`, what a device with memory of its own
    was given, else None.

    Args:
        values: the values of the partition when the step begins, which become those of this run; None: its constants.
        fresh: collects the values that nothing else references.
        missing_feeds: how many feeds of a partial run are still to come.
        done: how many of the first items have run already.
    """

    __slots__ = (
        "_arrived",
        "_awaited",
        "_executor",
        "_expected",
        "_held",
        "_is_scheduled",
        "_missing_feeds",
        "_propagator",
        "_runners",
        "_work",
        "fresh",
        "on_finished",
        "partition",
        "values",
    )

    def __init__(
        self,
        executor: PartitionExecutor,
        step: Step,
        values: list[Any] | None = None,
        fresh: set[int] | None = None,
        missing_feeds: int = 0,
        done: int = 0,
    ) -> None:
        super().__init__(step)
        executor.upload()
        self.partition = executor.partition
        self.values = list(self.partition.values) if values is None else values
        self.fresh = set() if fresh is None else fresh
        self.on_finished: Callable[[PartitionRun, int], None] | None = None
        self._executor = executor
        self._runners = executor.runners
        self._propagator = Propagator(self.partition, self.values, done)
        self._awaited: dict[asyncio.Future[Any], Activation] = {}
        self._missing_feeds = missing_feeds
        self._expected = 0
        self._held = 0
        self._arrived: list[tuple[Activation, Received]] = []
        self._is_scheduled = False
        memory = executor.memory
        self._work = None if memory is None else DeviceWork(memory, step, self._check_end)

    @property
    def receives(self) -> int:
        """How many values it receives from other partitions."""
        return len(self._executor.received)

    # Events

    def start(self) -> None:
        """Begin: when this returns, all items that need no waiting have run."""
        self.step.stops.append(self.stop)
        if self.step.collector is not None:
            nodes = self.partition.subgraph.nodes
            note_known(self.step.collector, nodes, self.partition.device, perf_counter_ns())
        if self._work is not None:
            self._executor.watch_uploads(self._work)
        self._propagator.start(self._executor.initial)
        self._advance()

    def feed(self, position: int, value: Any) -> None:
        """Set a feed of a partial run."""
        place = self.partition.feeds[position]
        self.values[place] = value
        self._missing_feeds -= 1
        index = self.partition.producers[place]
        self._propagator.on_feed_arrived(self.partition.items[index])
        if self.on_finished is not None:
            self.on_finished(self, index)
        self._advance()

    def deliver(self, activation: Activation, received: Received) -> None:
        """Deliver the value of a waiting Recv; a sending partition in this process continues first."""
        self._arrived.append((activation, received))
        if not self.step.is_busy:
            self._advance()
        elif not self._is_scheduled:
            self._is_scheduled = True
            self.step.defer(self._advance_now)

    def stop(self) -> None:
        """Cancel the awaited futures, since the step has failed."""
        for future in self._awaited:
            future.cancel()
        self._check_end()

    # The loop over ready items

    def _advance(self) -> None:
        """Run ready items; those that do not fit into this tick of the loop run in a later one.

        An exception fails the step, which raises it in the caller; raised here, in a callback of the loop, it would be lost.
        """
        step, ready = self.step, self._propagator.ready
        budget = step.engine.budget
        step.is_working = True
        try:
            if self._arrived:
                self._take_arrived()
            while ready and step.error is None:
                if budget.spent > TICK_NS:
                    if not self._is_scheduled:
                        self._is_scheduled = True
                        budget.call_in_turn(self._advance_now)
                    break
                activation = ready.popleft()
                runner = self._runners[activation.item.index]
                if runner is None or activation.dead:
                    rest = self._begin(activation)
                else:
                    rest = runner.begin(activation.iteration.values, self.fresh, step)
                    if rest is None:
                        self._record_finished(activation)
                if rest is not None:
                    future = asyncio.ensure_future(rest)
                    self._awaited[future] = activation
                    future.add_done_callback(self._future_done)
        except BaseException as error:
            step.fail(error)
        step.is_working = False
        self._check_end()

    def _advance_now(self) -> None:
        self._is_scheduled = False
        self._advance()

    def _future_done(self, future: asyncio.Future[Any]) -> None:
        activation = self._awaited.pop(future)
        step = self.step
        try:
            result = future.result()
        except BaseException as error:
            step.fail(self._locate(activation, error))
        else:
            if step.error is None:
                try:
                    if activation.item.kind is ASYNCHRONOUS or activation.item.kind is COPY_TO_HOST:
                        self._store(activation.item.instructions[0], activation.iteration.values, result)
                    elif activation.item.kind is SEND:
                        self.step.rendezvous.send(self._key(activation), result)
                    self._record_finished(activation)
                except Exception as error:
                    step.fail(error)
        del activation  # an error in what follows keeps this frame, and must not keep an iteration's values
        self._advance()

    def _locate(self, activation: Activation, error: BaseException) -> BaseException:
        item = activation.item
        if isinstance(error, asyncio.CancelledError):  # the kernel's own, unless the step has been cancelled
            error = CancelledError(f"{item.node.name!r} was cancelled")
        if item.kind is PROGRAM or not isinstance(error, Exception):
            return error
        return locate(error, item.instructions[0], self.partition.device)

    def _check_end(self) -> None:
        """End, if nothing runs and nothing more is expected."""
        if self._awaited or self.has_ended:
            return
        if self.step.error is None and (
            self._missing_feeds
            or self._is_scheduled
            or self._propagator.ready
            or self._expected
            or self._held
        ):
            return
        if self._work is not None:
            if self._work.pending:
                return
            self._work = None
            self._arrived = []
            self._propagator.forget_values()  # an error, or another cycle of references, would keep the device's memory
        self._mark_ended()

    # Items

    def _begin(self, activation: Activation) -> Awaitable[Any] | None:
        """Run an item that is not a live program, or start it and return its awaitable."""
        item = activation.item
        self.step.engine.budget.count_decision()
        if item.kind is RECV:
            self._receive(activation)
            return None
        if activation.dead and item.kind is not SEND:
            dead_outputs(item, activation.iteration.values)
            self._record_finished(activation)
            return None
        if item.kind is ASYNCHRONOUS:
            rest = self._call(item.instructions[0], activation.iteration.values)
            if rest is None:
                self._record_finished(activation)
            return rest
        if self._work is not None:
            if item.kind is PROGRAM:
                self._run_on_device(activation, self._work)
                return None
            rest = self._copy_out(activation, self._work)
            if rest is not None:
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
        self._record_finished(activation, live_port)
        return None

    def _run_on_device(self, activation: Activation, work: DeviceWork) -> None:
        """Give the device a program's work; an iteration of a loop is not done before that."""
        iteration = activation.iteration
        self._executor.device_runners[activation.item.index].begin(iteration.values, work)
        last = work.take_last()
        if last is not None and iteration.frame.parent is not None:
            self._held += 1
            self._propagator.hold(iteration)
            last.add_done_callback(partial(self._release, iteration))
        self._record_finished(activation)

    def _release(self, iteration: Iteration) -> None:
        self._held -= 1
        if not self.has_ended:
            self._propagator.release(iteration)
            self._advance()

    def _copy_out(self, activation: Activation, work: DeviceWork) -> Awaitable[Any] | None:
        """What copies a value from the device to main memory; None if the item copies none."""
        item = activation.item
        is_sent = item.kind is SEND and not activation.dead
        if item.kind is not COPY_TO_HOST and not is_sent:
            return None
        value = self._inputs(activation)[0]
        try:
            if isinstance(value, np.ndarray):
                return copy_list_out(value, work, item.node) if value.dtype.hasobject else None
            if is_sent and self._executor.goes_to_device[item.index]:
                return None
            return work.launcher(item.node).copy_out(value)
        except Exception as error:
            del value  # the frames that the error keeps must not keep it
            error.__traceback__ = None
            raise locate(error, item.instructions[0], self.partition.device) from error

    def _record_finished(self, activation: Activation, live_port: int = 0) -> None:
        self._propagator.on_finished(activation, live_port)
        if self.on_finished is not None:
            self.on_finished(self, activation.item.index)

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

    # Asynchronous kernels

    def _call(self, instruction: Instruction, values: Values) -> Awaitable[Any] | None:
        """Call a kernel: returns an awaitable, whose result the caller stores, or None if all is done."""
        began = perf_counter_ns()
        try:
            result = instruction.compute(self.step, *inputs_of(instruction, values))
        except Exception as error:
            raise locate(error, instruction, self.partition.device) from error
        if hasattr(result, "__await__"):
            return (
                result
                if self.step.collector is None
                else self._record_when_done(instruction, values, result, began)
            )
        self._store(instruction, values, result)
        self._record(instruction, values, began)
        return None

    def _record_when_done(
        self, instruction: Instruction, values: Values, result: Awaitable[Any], began: int
    ) -> asyncio.Future[Any]:
        future = asyncio.ensure_future(
            result
        )  # not one more coroutine: cancelled early, it would forget this one
        future.add_done_callback(lambda done: self._record(instruction, values, began))
        return future

    def _store(self, instruction: Instruction, values: Values, result: Any) -> None:
        try:
            store(values, instruction, result)
        except Exception as error:
            raise locate(error, instruction, self.partition.device) from error

    def _record(self, instruction: Instruction, values: Values, began: int) -> None:
        collector = self.step.collector
        if collector is not None:
            outputs = [values[value] for value in instruction.outputs]
            now = perf_counter_ns()
            note_node(collector, instruction.node, self.partition.device, began, began, now, outputs)

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
            return self._executor.keys[item.index]
        return transfer_key(item.node.op.attrs, (iteration.frame.id, iteration.number))

    def _send(self, activation: Activation) -> None:
        value = DEAD if activation.dead else self._inputs(activation)[0]
        self.step.rendezvous.send(self._key(activation), value, activation.dead)

    def _receive(self, activation: Activation) -> None:
        """Receive; a dead Recv does so as well, since its Send sends a dead value."""
        key = self._key(activation)
        received = self.step.rendezvous.try_recv(key)
        if received is not None:
            self._take(activation, *received)
        else:
            self._expected += 1
            self.step.rendezvous.expect(key, _Receiver(self, activation))

    def _take_arrived(self) -> None:
        arrived, self._arrived = self._arrived, []
        self._expected -= len(arrived)
        for activation, (value, is_dead) in arrived:
            if self.step.error is None:
                self._take(activation, value, is_dead)

    def _take(self, activation: Activation, value: Any, is_dead: bool) -> None:
        """Store the value received for a Recv."""
        item = activation.item
        activation.dead = activation.dead or is_dead
        if activation.dead:
            dead_outputs(item, activation.iteration.values)
        else:
            dtype = self._executor.received[item.index]
            if type(value) is not np.ndarray or value.dtype is not dtype:
                check_received(value, item.node.output_dtype(0), f"_Recv {item.node.name!r}")
            if self._work is not None and not item.node.computes("_HostRecv"):
                brought = self._work.bring(value, item.node)
                if brought is not None:
                    activation.iteration.values[item.instructions[0].outputs[0]] = brought
                    self._record_finished(activation)
                return
            activation.iteration.values[item.instructions[0].outputs[0]] = value
        self._record(item.instructions[0], activation.iteration.values, perf_counter_ns())
        self._record_finished(activation)
