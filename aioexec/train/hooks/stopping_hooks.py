"""Hooks that end or delay the loop: at a step, at a NaN loss, until a step is reached."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

import numpy as np

from aioexec.errors import GraphValueError
from aioexec.train.hooks.global_step_read import required_global_step_read
from aioexec.train.hooks.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)

if TYPE_CHECKING:
    from aioexec.sessions.session import Session
    from aioexec.train.coordination.coordinator import Coordinator

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.5
"""Seconds between two reads of the global step while waiting for other processes."""

LOG_EVERY_STEPS = 1000
"""The number of steps of other processes between two log lines."""


class StopAtStepHook(SessionRunHook):
    """Stops after `num_steps` steps, counted from the start of the first session, or when the global step is `last_step`.

    Raises:
        GraphValueError: both or neither of the two are given.
    """

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        check_stop(num_steps, last_step)
        self._num_steps = num_steps
        self._last_step = last_step

    def begin(self) -> None:
        self._global_step_tensor = required_global_step_read("StopAtStepHook")
        self._request = SessionRunArgs(self._global_step_tensor)

    async def after_create_session(self, session: Session, coord: Coordinator) -> None:
        if self._last_step is None:
            assert self._num_steps is not None
            self._last_step = int(await session.run(self._global_step_tensor)) + self._num_steps

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return self._request

    def after_run(
        self, run_context: SessionRunContext, run_values: SessionRunValues
    ) -> Awaitable[None] | None:
        assert self._last_step is not None
        if int(run_values.results) + 1 >= self._last_step:
            return self._stop_if_reached(run_context, self._last_step)
        return None

    async def _stop_if_reached(self, run_context: SessionRunContext, last_step: int) -> None:
        """Read the step again: other processes may have advanced it, and this run may not have counted."""
        if await run_context.session.run(self._global_step_tensor) >= last_step:
            run_context.request_stop()


class NanLossDuringTrainingError(RuntimeError):
    """The loss became NaN."""

    def __str__(self) -> str:
        return "NaN loss during training."


class NanTensorHook(SessionRunHook):
    """Raises NanLossDuringTrainingError if the loss is NaN, or without `fail_on_nan_loss` stops without an error."""

    def __init__(self, loss_tensor: Any, fail_on_nan_loss: bool = True) -> None:
        self._fail_on_nan_loss = fail_on_nan_loss
        self._request = SessionRunArgs(loss_tensor)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return self._request

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if not _has_nan(run_values.results):
            return
        message = "Model diverged with loss = NaN."
        if self._fail_on_nan_loss:
            logger.error(message)
            raise NanLossDuringTrainingError
        logger.warning(message)
        run_context.request_stop()


class GlobalStepWaiterHook(SessionRunHook):
    """Delays the first step until other processes have advanced the global step to `wait_until_step`."""

    def __init__(self, wait_until_step: int) -> None:
        self._wait_until_step = wait_until_step

    def begin(self) -> None:
        self._worker_is_started = False
        self._global_step_tensor = required_global_step_read("GlobalStepWaiterHook")

    def before_run(self, run_context: SessionRunContext) -> Awaitable[None] | None:
        return None if self._worker_is_started else self._wait(run_context.session)

    async def _wait(self, session: Session) -> None:
        if self._wait_until_step > 0:
            logger.info("Waiting for global step %d before starting training.", self._wait_until_step)
            last_logged = 0
            while (step := int(await session.run(self._global_step_tensor))) < self._wait_until_step:
                if step - last_logged > LOG_EVERY_STEPS:
                    logger.info(
                        "Waiting for global step %d before starting training. Current step is %d.",
                        self._wait_until_step,
                        step,
                    )
                    last_logged = step
                await asyncio.sleep(POLL_SECONDS)
        self._worker_is_started = True


def _has_nan(loss: Any) -> bool:
    return bool(np.isnan(loss).any()) if getattr(loss, "ndim", 0) else math.isnan(loss)


def check_stop(num_steps: int | None, last_step: int | None) -> None:
    """Check that a hook has either a number of steps or a last step."""
    if num_steps is None and last_step is None:
        raise GraphValueError("One of num_steps or last_step must be specified")
    if num_steps is not None and last_step is not None:
        raise GraphValueError("Only one of num_steps or last_step can be specified")
