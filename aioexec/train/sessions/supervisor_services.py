"""The services of a Supervisor: summaries, step rate, checkpoints, each on a timer."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Protocol

from aioexec.train.coordination.coordinator import Coordinator
from aioexec.train.coordination.looper import LooperThread
from aioexec.train.global_steps import global_step

if TYPE_CHECKING:
    from aioexec.sessions.session import Session

logger = logging.getLogger(__name__)


class Supervisor(Protocol):
    """The interface of `supervisor.Supervisor` to its services."""

    coord: Coordinator
    global_step: Any
    saver: Any
    save_model_secs: float | None
    save_path: str | None
    save_summaries_secs: float | None
    summary_op: Any
    summary_writer: Any


class SVSummaryThread(LooperThread):
    """Runs the summary operation and writes its result."""

    def __init__(self, sv: Supervisor, sess: Session) -> None:
        super().__init__(sv.coord, sv.save_summaries_secs)
        self._sv = sv
        self._sess = sess

    async def run_loop(self) -> None:
        step = None
        if self._sv.global_step is None:
            summary = await self._sess.run(self._sv.summary_op)
        else:
            summary, step = await self._sess.run([self._sv.summary_op, self._sv.global_step])
        if self._sv.summary_writer is not None:
            logger.info("Recording summary at step %s.", step)
            self._sv.summary_writer.add_summary(summary, step)


class SVStepCounterThread(LooperThread):
    """Writes the rate of the global step, in steps per second of the loop's clock.

    State: `_last_step` is the step at the last call, at `_last_time`.
    """

    def __init__(self, sv: Supervisor, sess: Session, step_counter: Any = None) -> None:
        super().__init__(sv.coord, sv.save_summaries_secs)
        self._sv = sv
        self._sess = sess
        self._step_counter = sv.global_step if step_counter is None else step_counter
        self._summary_tag = f"{self._step_counter.op.name}/sec"
        self._last_time = 0.0
        self._last_step = 0

    async def start_loop(self) -> None:
        self._last_time = asyncio.get_running_loop().time()
        self._last_step = await global_step(self._sess, self._step_counter)

    async def run_loop(self) -> None:
        from aioexec.formats.protos import Summary

        step, now = await global_step(self._sess, self._step_counter), asyncio.get_running_loop().time()
        steps, elapsed = step - self._last_step, now - self._last_time
        self._last_step, self._last_time = step, now
        rate = steps / elapsed if elapsed > 0 else float("inf")
        if self._sv.summary_writer is not None:
            value = Summary.Value(tag=self._summary_tag, simple_value=rate)
            self._sv.summary_writer.add_summary(Summary(value=[value]), step)
        logger.info("%s: %g", self._summary_tag, rate)


class SVTimerCheckpointThread(LooperThread):
    """Saves the model."""

    def __init__(self, sv: Supervisor, sess: Session) -> None:
        super().__init__(sv.coord, sv.save_model_secs)
        self._sv = sv
        self._sess = sess

    async def run_loop(self) -> None:
        from aioexec.formats.protos import SessionLog

        sv = self._sv
        logger.info("Saving checkpoint to path %s", sv.save_path)
        await sv.saver.save(self._sess, sv.save_path, global_step=sv.global_step)
        if sv.summary_writer is not None and sv.global_step is not None:
            step = await global_step(self._sess, sv.global_step)
            log = SessionLog(status=SessionLog.CHECKPOINT, checkpoint_path=sv.save_path)
            sv.summary_writer.add_session_log(log, step)
