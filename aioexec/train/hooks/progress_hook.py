"""Live progress of a training: on a terminal a line that is redrawn, elsewhere a log line at intervals."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Awaitable, Mapping
from typing import IO, TYPE_CHECKING, Any, Protocol

import numpy as np

from aioexec.train.hooks.global_step_read import required_global_step_read
from aioexec.train.hooks.logging_hooks import the_tensor
from aioexec.train.hooks.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from aioexec.train.hooks.timers import SecondOrStepTimer
from aioexec.train.off_loop import off_loop

if TYPE_CHECKING:
    from aioexec.sessions.session import Session
    from aioexec.train.coordination.coordinator import Coordinator

logger = logging.getLogger(__name__)

_OBSERVATIONS = 32
"""The number of latest observations over which the rate is computed."""

_BAR = 12
"""The width of the bar in characters."""


class Rate:
    """The rate of the global step over its latest observations."""

    def __init__(self) -> None:
        self._observations: deque[tuple[float, int]] = deque(maxlen=_OBSERVATIONS)

    def add(self, time: float, step: int) -> None:
        self._observations.append((time, step))

    def forget(self) -> None:
        self._observations.clear()

    @property
    def per_second(self) -> float | None:
        """Steps per second, None while it is unknown."""
        if not self._observations:
            return None
        (first_time, first), (last_time, last) = self._observations[0], self._observations[-1]
        return (last - first) / (last_time - first_time) if last_time > first_time else None

    def seconds_for(self, steps: int) -> float | None:
        """The estimated seconds for so many steps, None while it is unknown."""
        rate = self.per_second
        return steps / rate if rate else None


def progress_line(step: int, last_step: int | None, rate: Rate, values: Mapping[str, Any]) -> str:
    """Progress in one line: a bar if the last step is known, the values, the rate, and the remaining time."""
    parts = [f"step {step:,}"]
    if last_step is not None:
        done = min(1.0, step / last_step) if last_step > 0 else 1.0
        full = round(_BAR * done)
        parts = ["━" * full + "╌" * (_BAR - full), f"step {step:,} of {last_step:,} ({done:.0%})"]
    parts += [f"{tag} {_short(value)}" for tag, value in values.items()]
    if rate.per_second is not None:
        parts.append(f"{rate.per_second:,.1f} steps/s")
    left = None if last_step is None else rate.seconds_for(max(0, last_step - step))
    if left is not None:
        minutes, seconds = divmod(round(left), 60)
        parts.append(f"{minutes // 60}:{minutes % 60:02}:{seconds:02} left")
    return "  ".join(parts)


def _short(value: Any) -> str:
    array = np.asarray(value)
    if array.ndim == 0:
        return f"{array[()]:.4g}" if array.dtype.kind in "fiu" else str(array[()])
    return " ".join(np.array2string(array, precision=4, threshold=6, edgeitems=2).split())


class Display(Protocol):
    """Shows a line of progress; both calls may block."""

    def show(self, line: str) -> None: ...

    def close(self) -> None: ...


class LogDisplay:
    """Logs lines at level INFO."""

    def show(self, line: str) -> None:
        logger.info("%s", line)

    def close(self) -> None:
        pass


class TerminalDisplay:
    """A line at the bottom of a terminal; other output scrolls above it, and the last line stays."""

    def __init__(self, file: IO[str]) -> None:
        from rich.console import Console  # loaded at first use
        from rich.live import Live

        console = Console(file=file)
        self._live = Live(console=console, auto_refresh=False)
        self._live.start()
        console.show_cursor()  # a killed process could not restore it

    def show(self, line: str) -> None:
        from rich.text import Text

        self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)

    def close(self) -> None:
        self._live.stop()


class ProgressHook(SessionRunHook):
    """Shows the progress of a training: steps, rate, remaining time, and the values of tensors.

    Args:
        tensors: tag -> tensor or its name, or names of tensors.
        last_step: the step at which the training ends, if known; the hook does not end it.
        every_secs: the interval of redrawing on a terminal.
        log_every_secs: the interval of log lines if `file` is no terminal.
        file: standard error by default.

    State: `_request` is the fetches of a step whose values are shown, `_due`: the running step is one; `_display` is None until
    something is shown, and after the end.
    """

    def __init__(
        self,
        tensors: Any = (),
        last_step: int | None = None,
        every_secs: float = 0.25,
        log_every_secs: float = 10.0,
        file: IO[str] | None = None,
    ) -> None:
        self._tensors = dict(tensors) if isinstance(tensors, Mapping) else {each: each for each in tensors}
        self._last_step = last_step
        self._file = sys.stderr if file is None else file
        self._timer = SecondOrStepTimer(every_secs=every_secs if self._file.isatty() else log_every_secs)
        self._rate = Rate()
        self._display: Display | None = None

    def begin(self) -> None:
        self._timer.reset()
        self._runs = 0
        self._due = False
        self._global_step_tensor = required_global_step_read("ProgressHook")
        self._shown = {_tag(tag): the_tensor(each) for tag, each in self._tensors.items()}
        self._request = SessionRunArgs(self._shown)
        self._values: Mapping[str, Any] = {}

    def after_create_session(self, session: Session, coord: Coordinator) -> None:
        self._rate.forget()  # a new session may have restored an earlier checkpoint

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        self._due = self._timer.should_trigger_for_step(self._runs)
        return self._request if self._due and self._shown else None

    def after_run(
        self, run_context: SessionRunContext, run_values: SessionRunValues
    ) -> Awaitable[None] | None:
        self._runs += 1
        if not self._due:
            return None
        self._timer.update_last_triggered_step(self._runs - 1)
        self._values = run_values.results or {}
        return self._show(run_context.session)

    async def end(self, session: Session) -> None:
        try:
            await self._show(session)
        finally:
            await self._close()

    async def on_error(self, session: Session, error: BaseException) -> None:
        """Restore the terminal."""
        await self._close()

    async def _show(self, session: Session) -> None:
        step = int(await session.run(self._global_step_tensor))
        self._rate.add(asyncio.get_running_loop().time(), step)
        line = progress_line(step, self._last_step, self._rate, self._values)
        await off_loop(self._draw, line)

    async def _close(self) -> None:
        display, self._display = self._display, None
        if display is not None:
            await off_loop(display.close)

    def _draw(self, line: str) -> None:
        if self._display is None:
            self._display = TerminalDisplay(self._file) if self._file.isatty() else LogDisplay()
        self._display.show(line)


def _tag(tag: Any) -> str:
    return tag if isinstance(tag, str) else str(getattr(tag, "name", tag)).removesuffix(":0")
