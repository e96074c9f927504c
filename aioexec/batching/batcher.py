"""`Batcher`: joins concurrent requests to a model to batches. Its shell in an event loop; `scheduler` decides.

A request costs a future, and a copy of its rows in and out; tasks and timers exist per batch. A batcher belongs to one
event loop. No library is used: `batched` and `async-batcher` collect calls, but have no buckets, fair queue, bound of
rows, or cancellation of steps.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Collection, Coroutine, Hashable, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, NoReturn, Self

from aioexec.batching.batched_models import (
    Array,
    Function,
    GroupKey,
    Layout,
    Model,
    Signature,
    batched_model,
    layout_of,
)
from aioexec.batching.joining import (
    LARGE,
    Outputs,
    Pieces,
    assemble,
    bytes_of,
    check_outputs,
    join,
    split,
)
from aioexec.batching.options import bucket_sizes, check_limits
from aioexec.batching.request_errors import closed_error, error_of_request
from aioexec.batching.requests import Batch, Request
from aioexec.batching.scheduler import BatchScheduler
from aioexec.errors import FailedPreconditionError
from aioexec.in_thread import in_thread
from aioexec.plain_with import refuse_plain_with


class _Call(Request):
    """A request with its values, the outputs of its parts, with the first row of each, and the future of all of them."""

    __slots__ = ("answer", "pieces", "values")

    def __init__(
        self,
        key: GroupKey,
        caller: Hashable,
        values: list[Array],
        admitted: float,
        answer: asyncio.Future[Pieces],
    ) -> None:
        super().__init__(key, caller, len(values[0]), admitted)
        self.values = values
        self.answer = answer
        self.pieces: Pieces = []


class Batcher:
    """Runs a model for many callers at a time: their rows are joined to batches.

        async with ax.batching.Batcher(model, max_batch_size=64, max_delay=0.001, max_queue=1024) as batched:
            outputs = await batched(images=images)

    The first dimension of every input and output is the batch. Requests are in one batch if they ask for the same outputs and
    their inputs have the same dtypes and further dimensions. A request may have more rows than a batch; its rows are
    then computed by several steps. Steps of at most two batches run at a time.

    A request is withdrawn when its task is cancelled, by `asyncio.timeout` for instance: rows that wait leave the queue, the
    results of those in a step are dropped, and the step is cancelled when all its requests have gone. Arrays must not
    be written to before their request has ended.

    Args:
        model: a loaded model, whose default signature is run, a signature, or a coroutine function that takes arrays
            by name and returns a mapping of arrays by name.
        max_batch_size: the most rows of a step.
        max_delay: seconds that a request waits for others while its batch is not full; 0: until the event loop has run the
            tasks that are ready.
        max_queue: the most rows that wait, those in steps not counted.
        buckets: the numbers of rows that steps may have; a batch is padded to the next one with copies of its first row. The
            largest one is `max_batch_size`. By default the powers of two.

    Raises:
        GraphTypeError, GraphValueError: a limit is out of range, or the model has an input without batch.

    Constant: `_model`, `_scheduler`, `_loop`, `_context` (steps run in copies of the context in which the batcher was made).
    State: `_layout` is that of the last request whose values were checked; `_tasks` has the task of each running batch;
    `_timer` calls `_wake` at `_armed`, the scheduler's alarm when it was set.
    """

    def __init__(
        self,
        model: Signature | Model | Function,
        *,
        max_batch_size: int,
        max_delay: float,
        max_queue: int,
        buckets: Iterable[int] | None = None,
    ) -> None:
        check_limits(max_batch_size, max_delay, max_queue)
        sizes = bucket_sizes(max_batch_size, buckets)
        self._model = batched_model(model)
        self._scheduler = BatchScheduler(max_batch_size, max_delay, max_queue, sizes)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context = contextvars.copy_context()
        self._tasks: dict[Batch, asyncio.Task[list[Outputs]]] = {}
        self._layout: Layout | None = None
        self._timer: asyncio.Handle | None = None
        self._armed: float | None = None

    # Requests

    def __call__(self, **inputs: Any) -> Coroutine[Any, Any, Outputs]:
        """Run the model with these inputs and return all outputs; see `run`."""
        return self.run(inputs)

    async def run(
        self,
        inputs: Mapping[str, Any],
        outputs: Collection[str] | None = None,
        *,
        caller: Hashable = None,
    ) -> Outputs:
        """Run the model with rows for its inputs; return the outputs of these names, all by default.

        Args:
            inputs: for each name an array or nested lists; all of the same number of rows, at least one.
            outputs: names of outputs.
            caller: who makes the request: the rows of batches are divided equally among the callers that wait.

        Raises:
            InvalidArgumentError: names, dtypes or shapes are wrong, or there are more rows than may wait.
            ResourceExhaustedError: too many rows wait already.
            UnavailableError: the batcher is closed.
            CancelledError: the batcher was closed before the request was answered.
            OpError: the step of a batch failed; all its requests raise this.
            UnknownError: likewise, for another exception than an OpError, its cause.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._check_loop(loop)
        requested = None if outputs is None else tuple(outputs)
        layout = self._layout
        values = None if layout is None or layout.key[0] != requested else layout.values_of(inputs)
        if layout is not None and values is not None:
            key = layout.key
        else:
            key, values = await self._checked(inputs, requested)
        answer: asyncio.Future[Pieces] = loop.create_future()
        call = _Call(key, caller, values, loop.time(), answer)
        scheduler = self._scheduler
        started = scheduler.admit(call, call.admitted)
        if started:
            self._start(started)
        if scheduler.alarm != self._armed:
            self._arm()
        try:
            pieces = await answer
        except asyncio.CancelledError:
            self._cancel(scheduler.withdraw(call))
            self._arm()
            raise
        if len(pieces) == 1:
            return pieces[0][1]
        if sum(bytes_of(part.values()) for _, part in pieces) > LARGE:
            return await in_thread(assemble, pieces)
        return assemble(pieces)

    async def _checked(
        self, inputs: Mapping[str, Any], outputs: tuple[str, ...] | None
    ) -> tuple[GroupKey, list[Array]]:
        """The group and the values of a request, unless they are wrong."""
        if self._model.is_slow(inputs):
            key, values = await in_thread(self._model.values_of, inputs, outputs)
        else:
            key, values = self._model.values_of(inputs, outputs)
        self._layout = layout_of(inputs, key, values)
        return key, values

    def _check_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make this the event loop of the batcher at the first request; refuse another one later."""
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise FailedPreconditionError(
                f"Batcher: it belongs to the event loop {self._loop!r}, used from {loop!r}; make one a loop"
            )

    # Batches

    def _start(self, batches: Sequence[Batch]) -> None:
        """Run batches that the scheduler has started."""
        assert self._loop is not None
        for batch in batches:
            task = self._loop.create_task(self._compute(batch), context=self._context.copy())
            self._tasks[batch] = task
            task.add_done_callback(partial(self._ended, batch))

    def _start_due(self, now: float) -> None:
        """Run the batches that are due."""
        self._start(self._scheduler.start(now))
        self._arm()

    async def _compute(self, batch: Batch) -> list[Outputs]:
        """Run the step of a batch; return the outputs of each of its parts."""
        key: Any = batch.key
        first: Any = batch.parts[0][0]
        if bytes_of(first.values) // first.rows * batch.size > LARGE:
            values = await in_thread(_joined, batch)
        else:
            values = _joined(batch)
        outputs = await self._model.run(key, values)
        check_outputs(outputs, batch.size)
        counts = [rows for _, _, rows in batch.parts]
        if bytes_of(outputs.values()) > LARGE:
            return await in_thread(split, outputs, counts, batch.size)
        return split(outputs, counts, batch.size)

    def _ended(self, batch: Batch, task: asyncio.Task[list[Outputs]]) -> None:
        """Answer the requests of a batch whose task has ended; run what is due next."""
        assert self._loop is not None
        del self._tasks[batch]
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None:
            self._answer(batch, task.result())
        else:
            self._fail(batch, error)
        self._start_due(self._loop.time())

    def _answer(self, batch: Batch, parts: list[Outputs]) -> None:
        call: Any
        for (call, start, _), outputs in zip(batch.parts, parts, strict=True):
            call.pieces.append((start, outputs))
        for call in self._scheduler.finish(batch):
            if not call.answer.done():  # cancelled in this turn of the loop
                call.answer.set_result(call.pieces)

    def _fail(self, batch: Batch, error: BaseException) -> None:
        failed, useless = self._scheduler.fail(batch)
        call: Any
        for call in failed:
            if not call.answer.done():
                call.answer.set_exception(error_of_request(error, len(batch.parts)))
        self._cancel(useless)

    def _cancel(self, batches: Iterable[Batch]) -> None:
        """Cancel the steps of batches; they end later."""
        for batch in batches:
            self._tasks[batch].cancel()

    # Time

    def _arm(self) -> None:
        """Set the timer to the scheduler's alarm."""
        alarm = self._scheduler.alarm
        if alarm == self._armed:
            return
        assert self._loop is not None
        if self._timer is not None:
            self._timer.cancel()
        self._armed = alarm
        if alarm is None:
            self._timer = None
        elif alarm <= self._loop.time():
            self._timer = self._loop.call_soon(self._wake, alarm)
        else:
            self._timer = self._loop.call_at(alarm, self._wake, alarm)

    def _wake(self, alarm: float) -> None:
        assert self._loop is not None
        self._timer = self._armed = None
        self._start_due(max(alarm, self._loop.time()))  # a timer may run a clock tick early

    # Life

    async def close(self, grace: float | None = None) -> None:
        """Refuse further requests, run those that wait without delay, and return when all have ended.

        If this is cancelled, requests that are not answered are cancelled too.

        Args:
            grace: seconds after which requests that are not answered are cancelled and raise CancelledError; None for no limit.
        """
        self._scheduler.close()
        if self._loop is None:
            return
        self._check_loop(asyncio.get_running_loop())
        self._start_due(self._loop.time())
        try:
            async with asyncio.timeout(grace):
                await self._tasks_ended()
        except TimeoutError:
            pass
        finally:
            self._abandon()
            await self._tasks_ended()

    async def _tasks_ended(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks.values())

    def _abandon(self) -> None:
        """Cancel all requests that are not over."""
        call: Any
        for call in self._scheduler.unanswered():
            self._cancel(self._scheduler.withdraw(call))
            if not call.answer.done():
                call.answer.set_exception(closed_error())
        self._arm()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; after an exception requests that are not answered are cancelled."""
        await self.close(None if error is None else 0)

    def __enter__(self) -> NoReturn:
        refuse_plain_with(self)

    def __exit__(self, *error: object) -> None:
        """Never called: a `with` statement needs it to call `__enter__`, which raises."""


def _joined(batch: Batch) -> list[Array]:
    """The values of a batch: for each input the rows of its parts."""
    parts: Any = batch.parts
    return [
        join(
            [
                call.values[i] if rows == call.rows else call.values[i][start : start + rows]
                for call, start, rows in parts
            ],
            batch.rows,
            batch.size,
        )
        for i in range(len(parts[0][0].values))
    ]
