"""Virtual time for asyncio: a loop whose clock jumps to the next timer instead of waiting for it.

The loop calls its selector with the time until the next timer. This selector polls once for I/O; if there is none, it advances
the clock by that time and returns. So `asyncio.sleep(3600)` takes microseconds, timers fire in the order of their deadlines,
and code between two timers takes no virtual time.

The clock must not jump while work outside the loop will call back, because timeouts would fire too early. It is held by: jobs
of `loop.run_in_executor` and `asyncio.to_thread` (counted by the loop itself), awaited jobs of workers, `with clock.hold():`,
and predicates given to `clock.add_busy`. While it is held, the loop waits in real time, and virtual time stands still. I/O of
other processes or the kernel is not detected; hold the clock around it.

uvloop waits inside libuv, where the selector cannot be replaced. Tests in virtual time therefore run on the standard library's
loop whatever `--aioexec-loop` says; nothing that depends on uvloop can be tested in virtual time.
"""

import asyncio
import selectors
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

HELD_POLL_SECONDS = 0.0005
"""The real-time interval at which a held clock evaluates its predicates; a callback from a thread wakes it at once."""


class VirtualClock:
    """A clock that stands still until the loop is idle, then jumps to the next timer.

    Attributes:
        autojump: if False, only `advance` moves the clock.
    """

    def __init__(self, start: float = 0.0, *, autojump: bool = True) -> None:
        self.autojump = autojump
        self._now = start
        self._holds = 0  # open `hold` blocks and executor jobs
        self._busy: list[Callable[[], bool]] = []

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move time forward; timers due by then fire in the loop's next iteration."""
        if seconds < 0:
            raise ValueError(f"VirtualClock.advance: seconds must not be negative, got {seconds!r}")
        self._now += seconds

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep time from jumping in the block."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1

    def add_busy(self, is_busy: Callable[[], bool]) -> Callable[[], None]:
        """Keep time from jumping while `is_busy()` is true; return a function that removes the predicate."""
        self._busy.append(is_busy)
        return lambda: self._busy.remove(is_busy)

    @property
    def is_held(self) -> bool:
        """Whether work outside the loop is outstanding."""
        return self._holds > 0 or any(is_busy() for is_busy in self._busy)


class VirtualSelector(selectors.BaseSelector):
    """A selector that advances the clock instead of waiting."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._real = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return self._real.select(0)
        ready = self._real.select(0)
        if ready:
            return ready
        if self._clock.is_held:
            return self._real.select(HELD_POLL_SECONDS)
        if timeout is None or not self._clock.autojump:
            # No timer to jump to, or jumps are disabled: only I/O or another thread can make progress.
            return self._real.select(timeout if timeout is None else HELD_POLL_SECONDS)
        self._clock.advance(timeout)
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.get_key(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


class VirtualClockLoop(asyncio.SelectorEventLoop):
    """The standard library's loop on a `VirtualClock`, its attribute `clock`."""

    def __init__(self, clock: VirtualClock | None = None) -> None:
        self.clock = VirtualClock() if clock is None else clock
        super().__init__(VirtualSelector(self.clock))

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self.clock.time()

    def hold_time(self) -> AbstractContextManager[None]:
        """Keep time from jumping in the block; the engine uses it while it awaits a worker (see `devices.workers`)."""
        return self.clock.hold()

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run `func` in an executor; time stands still until it is done."""
        hold = self.clock.hold()
        hold.__enter__()
        try:
            future = super().run_in_executor(executor, func, *args)
        except BaseException:
            hold.__exit__(None, None, None)
            raise
        # A cancelled future does not stop the thread, but it is not awaited any more.
        future.add_done_callback(lambda _: hold.__exit__(None, None, None))
        return future

    async def shutdown_default_executor(self, *args: Any, **options: Any) -> None:
        """Wait for the executor's threads in real time: the standard library does so in a separate thread."""
        with self.clock.hold():
            await super().shutdown_default_executor(*args, **options)
