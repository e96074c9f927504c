"""The end of a piece of work of a GPU, the batches of work that end together, and the buffers that work writes.

Events and batches belong to one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import numpy as np

from aioexec.devices.cuda.driver import Handle
from aioexec.devices.threads.workers import held_time
from aioexec.errors import InternalError
from aioexec.resources.buffer import Event

Callback = Callable[[], object]
Finish = Callable[[Exception | None], object]
"""What the loop does when work has ended, with its error."""


class _Released(threading.local):
    """The callbacks of work of this thread that is held no longer.

    One of them may give a stream the work that another piece is held for, and so on: they run one after another, since calls
    inside of calls would be as deep as the chain is long.
    """

    def __init__(self) -> None:
        self.callbacks: deque[Callback] = deque()
        self._is_running = False

    def run(self) -> None:
        """Call all, unless this is called by one of them: then they are called later."""
        if self._is_running:
            return
        self._is_running = True
        try:
            while self.callbacks:
                self.callbacks.popleft()()
        finally:
            self._is_running = False


_released = _Released()


class CudaEvent:
    """The end of a piece of work.

    Work is first held, while something that the host does for it is missing (its module is being translated, an array is being
    copied to page-locked memory); then it is in a batch of a stream; then it ends.

    Attributes:
        batch: the batch it is in; None before and after.
        is_done, error: see `resources.buffer.Event`. Work that ends while it is held never has a batch.
    """

    __slots__ = ("_callbacks", "_on_enqueued", "batch", "error", "is_done")

    def __init__(self) -> None:
        self.batch: Batch | None = None
        self.is_done = False
        self.error: Exception | None = None
        self._on_enqueued: list[Callback] = []
        self._callbacks: list[Callback] = []

    @property
    def is_held(self) -> bool:
        """Whether no stream has the work yet."""
        return self.batch is None and not self.is_done

    def add_done_callback(self, callback: Callback) -> None:
        self._callbacks.append(callback)

    def add_enqueued_callback(self, callback: Callback) -> None:
        """Call this when the work is held no longer, which it is."""
        self._on_enqueued.append(callback)

    def enqueued(self, batch: Batch) -> None:
        """A stream has the work."""
        self.batch = batch
        self._release()

    def end(self, error: Exception | None = None) -> None:
        """The work has ended: have the loop call what waits for it."""
        self.is_done, self.error, self.batch = True, error, None
        loop = asyncio.get_running_loop()
        for callback in self._callbacks:
            loop.call_soon(callback)
        self._callbacks.clear()
        self._release()

    def _release(self) -> None:
        callbacks, self._on_enqueued = self._on_enqueued, []
        _released.callbacks += callbacks
        _released.run()


class Accepted:
    """The moment at which a stream has work that was held, as an event: from then on it fails only if the GPU is lost."""

    __slots__ = ("_work",)

    def __init__(self, work: CudaEvent) -> None:
        self._work = work

    @property
    def is_done(self) -> bool:
        return not self._work.is_held

    @property
    def error(self) -> Exception | None:
        return self._work.error

    def add_done_callback(self, callback: Callback) -> None:
        self._work.add_enqueued_callback(callback)


class Batch:
    """Work that a stream was given in one turn of the loop.

    Constant: `stream`, which has it; `number`, counted there; `loop`; `seal`, to call so that the stream adds
    no more work. Changing: `end`, the driver's event, once no more work is added; `has_ended`, on the loop; `_finish`, what the
    loop does at the end, in order; `_kept`, objects that the work uses.
    """

    __slots__ = ("_finish", "_hold", "_kept", "end", "has_ended", "loop", "number", "seal", "stream")

    def __init__(self, stream: object, number: int, seal: Callback) -> None:
        self.stream = stream
        self.number = number
        self.seal = seal
        self.loop = asyncio.get_running_loop()
        self.end: Handle = None
        self.has_ended = False
        self._finish: list[Finish] = []
        self._kept: list[Any] = []
        self._hold = contextlib.ExitStack()
        self._hold.enter_context(held_time(self.loop))

    def add(self, event: CudaEvent, finish: Finish, keep: tuple[Any, ...] = ()) -> None:
        """Add work; at its end `finish` is called, which ends the event."""
        self._finish.append(finish)
        self._kept += keep
        event.enqueued(self)

    def finish(self, error: Exception | None) -> None:
        """Report the end of all its work."""
        self.has_ended = True
        self._hold.close()
        self._kept.clear()
        finish, self._finish = self._finish, []
        for each in finish:
            each(error)


WRITTEN, UNWRITTEN = CudaEvent(), CudaEvent()
"""Events of buffers to which no work was given: empty ones, and others, which cannot be read."""
WRITTEN.is_done = UNWRITTEN.is_done = True
UNWRITTEN.error = InternalError("a buffer was read before work was given that writes it")


class CudaBuffer:
    """A value in the memory of a GPU; it is freed, after the work given so far, when nothing references it.

    `ready`: the work that writes it; before work was given, an error, unless it is empty.
    `stream`: the driver's stream in whose order it is freed: the one that allocated it, until its content is there.

    Args:
        pointer: where it is; 0 if it is empty.
        free: is called with the pointer, the size and the stream at its end, by any thread.
    """

    __slots__ = ("_free", "device", "dtype", "nbytes", "pointer", "ready", "shape", "stream")

    def __init__(
        self,
        device: str,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        nbytes: int,
        pointer: int,
        stream: Handle,
        free: Callable[[int, int, Handle], object],
    ) -> None:
        self.device = device
        self.dtype = dtype
        self.shape = shape
        self.nbytes = nbytes
        self.pointer = pointer
        self.ready = UNWRITTEN if nbytes else WRITTEN
        self.stream = stream
        self._free = free

    def __del__(self) -> None:
        self._free(self.pointer, self.nbytes, self.stream)

    def __array__(self, *arguments: Any, **options: Any) -> NoReturn:
        raise InternalError(f"a buffer of {self.device} was read as an array; it must be copied out")

    def __bool__(self) -> NoReturn:
        raise InternalError(f"a buffer of {self.device} was read as a truth value; it must be copied out")


def restore_if_refused(buffer: Any, before: Event, first: Event) -> None:
    """Keep the content of a buffer that work writes over, if the stream never has the first of that work.

    Args:
        before: the buffer's event until that work was given.
    """

    def decide() -> None:
        if first.error is not None:
            buffer.ready = before

    if isinstance(first, CudaEvent) and first.is_held:
        first.add_enqueued_callback(decide)
    else:
        decide()


def view_of(buffer: CudaBuffer, dtype: np.dtype[Any], shape: tuple[int, ...]) -> CudaBuffer:
    """The memory of a buffer, which lives as long as this, as a value of another dtype or shape."""
    view = CudaBuffer(
        buffer.device, dtype, shape, buffer.nbytes, buffer.pointer, buffer.stream, partial(_keep, buffer)
    )
    view.ready = buffer.ready
    return view


def _keep(buffer: CudaBuffer, *_: object) -> None:
    """What is done at the end of a view: nothing, but to this call its buffer was bound."""
