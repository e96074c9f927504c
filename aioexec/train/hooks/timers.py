"""Timers of hooks: every N steps, or every N seconds of the loop's clock."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Protocol

from aioexec.errors import GraphValueError


class HookTimer(Protocol):
    """The interface of a timer."""

    def reset(self) -> None:
        """Forget the last trigger."""

    def should_trigger_for_step(self, step: Any) -> bool:
        """Whether the timer triggers at this step."""

    def update_last_triggered_step(self, step: Any) -> tuple[float | None, Any]:
        """Record a trigger at this step; returns the seconds and steps since the last one, None the first time."""

    def last_triggered_step(self) -> Any:
        """The step of the last trigger, None before the first."""


class SecondOrStepTimer:
    """Triggers at the first step it is called for, then whenever `every_secs` seconds or `every_steps` steps have passed.

    Never twice for one step.

    Raises:
        GraphValueError: both or neither of the two are given.
    """

    def __init__(self, every_secs: float | None = None, every_steps: int | None = None) -> None:
        if every_secs is None and every_steps is None:
            raise GraphValueError("Either every_secs or every_steps should be provided")
        if every_secs is not None and every_steps is not None:
            raise GraphValueError("Can not provide both every_secs and every_steps")
        self._every_secs = every_secs
        self._every_steps = every_steps
        self.reset()

    def reset(self) -> None:
        self._last_triggered_step: Any = None
        self._last_triggered_time: float | None = None

    def should_trigger_for_step(self, step: Any) -> bool:
        last = self._last_triggered_step
        if last is None:
            return True
        if step == last:
            return False
        if self._every_steps is not None:
            return bool(step >= last + self._every_steps)
        assert self._every_secs is not None
        assert self._last_triggered_time is not None
        return _now() >= self._last_triggered_time + self._every_secs

    def update_last_triggered_step(self, step: Any) -> tuple[float | None, Any]:
        now = _now()
        since: tuple[float | None, Any] = (None, None)
        if self._last_triggered_time is not None:
            since = (now - self._last_triggered_time, step - self._last_triggered_step)
        self._last_triggered_time = now
        self._last_triggered_step = step
        return since

    def last_triggered_step(self) -> Any:
        return self._last_triggered_step


class NeverTriggerTimer:
    """Never triggers."""

    def reset(self) -> None:
        pass

    def should_trigger_for_step(self, step: Any) -> bool:
        return False

    def update_last_triggered_step(self, step: Any) -> tuple[float | None, Any]:
        return None, None

    def last_triggered_step(self) -> Any:
        return None


def _now() -> float:
    """The time of the running loop; outside a loop, of the clock that loops use."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return time.monotonic()
