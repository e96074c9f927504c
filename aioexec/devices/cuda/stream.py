"""One stream of a GPU, and the thread that waits for its work.

Work is given to the stream at once. What was given in one turn of the event loop is a batch: it ends with one event of the
driver, for which the stream's thread blocks, without the interpreter lock; then it has the loop call what waits for the work.
Rejected: a host function in the stream (cuLaunchHostFunc), because it runs Python, so needs the interpreter lock, while the
stream stands still.

All methods are for the thread of the event loop that runs the session of the device.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue

from aioexec.devices.cuda.driver import CudaError, Driver, Handle
from aioexec.devices.cuda.event import Batch, CudaEvent
from aioexec.devices.threads.workers import switch_interval
from aioexec.in_thread import NO_THREAD, in_thread, no_thread


class Stream:
    """See the module.

    Constant: `handle`; `_computing`; `_located`, which makes the error of work from that of the driver. Changing: `_batch`, the
    one that takes work now, if any, and `_last`, the last that was begun; `_count`, of batches; `_seen`, of each other stream,
    the number of the last batch that this one waits for; `_queue`, what the running thread takes batches from; `_threads`,
    those that have not been joined.

    Args:
        context: the GPU's.
        computing: the stream that runs kernels, unless this is it: it reports an error first that both see.
    """

    def __init__(
        self,
        name: str,
        driver: Driver,
        context: Handle,
        located: Callable[[CudaError], Exception],
        computing: Stream | None = None,
    ) -> None:
        self.name = name
        self.handle = driver.create_stream()
        self._driver = driver
        self._context = context
        self._located = located
        self._computing = computing
        self._batch: Batch | None = None
        self._last: Batch | None = None
        self._count = 0
        self._seen: dict[object, int] = {}
        self._queue: SimpleQueue[Batch | None] | None = None
        self._threads: list[threading.Thread] = []

    def batch(self) -> Batch:
        """The batch for work that the stream is given now.

        Raises:
            ResourceExhaustedError: the system starts no thread to wait for it.
        """
        if self._batch is None:
            self._start_thread()
            self._count += 1
            self._batch = self._last = Batch(self, self._count, self.seal)
            self._batch.loop.call_soon(self._seal, self._batch)
        return self._batch

    @property
    def unfinished(self) -> Batch | None:
        """The last batch, if it has not ended: more work may be added as if it had been given with that."""
        return None if self._last is None or self._last.has_ended else self._last

    def wait_for(self, event: CudaEvent) -> None:
        """Let work that this stream is given later wait for other work, which is not held."""
        batch = event.batch
        if event.is_done or batch is None or batch.stream is self:
            return
        source = batch.stream
        if self._seen.get(source, 0) < batch.number:
            if batch.end is None:
                batch.seal()
            if batch.end is not None:
                self._driver.wait(self.handle, batch.end)
            self._seen[source] = batch.number

    def seal(self) -> None:
        """Add no more work to the current batch, and have its end awaited."""
        if self._batch is not None:
            self._seal(self._batch)

    def _seal(self, batch: Batch) -> None:
        if self._batch is not batch:
            return
        self._batch = None
        try:
            with self._driver.inside(self._context):  # the caller may be about to use another
                batch.end = self._driver.create_event()
                self._driver.record(batch.end, self.handle)
        except CudaError as error:
            batch.loop.call_soon(self._ended, batch, error)
            return
        assert self._queue is not None
        self._queue.put(batch)

    # The thread

    def _start_thread(self) -> None:
        if self._queue is not None:
            return
        waiting: SimpleQueue[Batch | None] = SimpleQueue()
        thread = threading.Thread(target=self._run, args=(waiting,), name=self.name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            if NO_THREAD in str(error):
                raise no_thread(self.name) from error
            raise
        self._queue = waiting
        self._threads.append(thread)

    def _run(self, waiting: SimpleQueue[Batch | None]) -> None:
        with switch_interval:
            while (batch := waiting.get()) is not None:
                failed: CudaError | None = None
                try:
                    self._driver.enter(self._context)
                    self._driver.synchronize(batch.end)
                except CudaError as error:
                    failed = error
                with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                    batch.loop.call_soon_threadsafe(self._ended, batch, failed)
                del batch  # else this thread keeps the objects of the last batch

    def _ended(self, batch: Batch, error: CudaError | None) -> None:
        """Report the end of a batch; on the loop."""
        with contextlib.suppress(CudaError):  # the context may be unusable
            if batch.end is not None:
                self._driver.destroy_event(batch.end)
        batch.end = None
        blamed = None if self._computing is None else self._computing.unfinished
        if error is not None and error.is_sticky and blamed is not None:
            blamed.add(CudaEvent(), lambda _: batch.finish(self._located(error)))
        else:
            batch.finish(None if error is None else self._located(error))

    def dismiss(self) -> None:
        """Have the thread end after the work that was given so far; more work starts another."""
        self.seal()
        if self._queue is not None:
            self._queue.put(None)
            self._queue = None

    async def close(self) -> None:
        """End the threads and the stream, whose work has ended."""
        self.dismiss()
        for thread in self._threads:
            if thread.is_alive():
                await in_thread(thread.join)
        self._threads.clear()
        self._seen.clear()
        with contextlib.suppress(CudaError):
            self._driver.enter(self._context)
            self._driver.destroy_stream(self.handle)
