"""The hook that traces steps at intervals."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aioexec.formats.file_errors import canonical
from aioexec.formats.protos import RunOptions
from aioexec.observability.timeline import Timeline
from aioexec.train.hooks.file_writer_cache import FileWriterCache
from aioexec.train.hooks.global_step_read import required_global_step_read
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

logger = logging.getLogger(__name__)


class ProfilerHook(SessionRunHook):
    """Traces one step every `save_steps` steps or `save_secs` seconds, to `timeline-<step>.json` and an event file.

    Perfetto and chrome://tracing open the timelines, TensorBoard the run metadata in the event file.

    Args:
        output_dir: the directory of the files; the current directory by default.
        show_dataflow: draw arrows from the producers of tensors to their consumers.
        show_memory: show the lifetimes of tensors.

    State: `_next_step` is the expected global step after the next run, None before the first; `_due`: the running step is
    traced.
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str = "",
        show_dataflow: bool = True,
        show_memory: bool = False,
    ) -> None:
        self._output_dir = output_dir
        self._show_dataflow = show_dataflow
        self._show_memory = show_memory
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)

    async def begin(self) -> None:
        self._file_writer = await off_loop(FileWriterCache.get, self._output_dir)
        self._next_step: int | None = None
        self._due = False
        self._global_step_tensor = required_global_step_read("ProfilerHook")
        self._request = SessionRunArgs(self._global_step_tensor)
        traced = RunOptions(trace_level=RunOptions.FULL_TRACE)
        self._request_traced = SessionRunArgs(self._global_step_tensor, options=traced)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        self._due = self._next_step is not None and self._timer.should_trigger_for_step(self._next_step)
        return self._request_traced if self._due else self._request

    def after_run(
        self, run_context: SessionRunContext, run_values: SessionRunValues
    ) -> Awaitable[None] | None:
        stale = int(run_values.results)
        if self._due:
            return self._save(run_context.session, run_values.run_metadata)
        if self._next_step is None:  # the first trace comes after the first interval
            self._timer.update_last_triggered_step(stale)
        self._next_step = stale + 2
        return None

    async def _save(self, session: Session, run_metadata: Any) -> None:
        global_step = int(await session.run(self._global_step_tensor))
        self._timer.update_last_triggered_step(global_step)
        path = os.path.join(self._output_dir, f"timeline-{global_step}.json")
        logger.info("Saving timeline for %d into '%s'.", global_step, path)
        await off_loop(self._draw, path, run_metadata.step_stats)
        self._file_writer.add_run_metadata(run_metadata, f"step_{global_step}")
        self._next_step = global_step + 1

    def _draw(self, path: str, step_stats: Any) -> None:
        trace = Timeline(step_stats).generate_chrome_trace_format(self._show_dataflow, self._show_memory)
        try:
            Path(path).write_text(trace, encoding="utf-8")
        except OSError as error:
            raise canonical(path, error) from error
