"""Hooks that write summaries to an event file: every N steps or seconds, or once at the end."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any

from aioexec.errors import GraphValueError
from aioexec.formats.protos import SessionLog
from aioexec.graph.graph import get_default_graph
from aioexec.ops.io.summary_functions import merge_all
from aioexec.train.callbacks import settle
from aioexec.train.global_steps import get_or_create_global_step
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
    from aioexec.train.coordination.coordinator import Coordinator


class SummarySaverHook(SessionRunHook):
    """Writes summaries at the first step, then every `save_steps` steps or `save_secs` seconds.

    Args:
        output_dir: the directory of its event file, unless there is a `summary_writer`; without either nothing is written.
        scaffold: supplies the `summary_op`, unless that is given, as one op or a list.

    Raises:
        GraphValueError: not exactly one of `save_steps` and `save_secs`, or of `scaffold` and `summary_op`.

    State: `_next_step` is the expected global step after the next run, None before the first; `_due`: the running step fetches
    summaries.
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str | None = None,
        summary_writer: Any = None,
        scaffold: Any = None,
        summary_op: Any = None,
    ) -> None:
        if (scaffold is None) == (summary_op is None):
            raise GraphValueError("Exactly one of scaffold or summary_op must be provided")
        self._summary_op = summary_op
        self._summary_writer = summary_writer
        self._output_dir = output_dir
        self._scaffold = scaffold
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)

    async def begin(self) -> None:
        if self._summary_writer is None and self._output_dir:
            self._summary_writer = await off_loop(FileWriterCache.get, self._output_dir)
        self._next_step: int | None = None
        self._due = False
        self._global_step_tensor = required_global_step_read("SummarySaverHook")
        self._request = SessionRunArgs(self._global_step_tensor)
        self._request_with_summary: SessionRunArgs | None = None

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        self._due = self._next_step is None or self._timer.should_trigger_for_step(self._next_step)
        if not self._due:
            return self._request
        if (
            self._request_with_summary is None
        ):  # a scaffold's summary_op is final only when all hooks have begun
            self._request_with_summary = self._with_summary()
        return self._request_with_summary

    def after_run(
        self, run_context: SessionRunContext, run_values: SessionRunValues
    ) -> Awaitable[None] | None:
        if self._summary_writer is None:
            return None
        if self._due:
            return self._write(run_context.session, run_values.results)
        self._next_step = int(run_values.results) + 2
        return None

    async def end(self, session: Session | None = None) -> None:
        if self._summary_writer is not None:
            await settle(self._summary_writer.flush())

    async def _write(self, session: Session, summaries: Any) -> None:
        global_step = int(await session.run(self._global_step_tensor))
        if self._next_step is None:
            self._summary_writer.add_session_log(SessionLog(status=SessionLog.START), global_step)
        self._timer.update_last_triggered_step(global_step)
        for summary in summaries:
            self._summary_writer.add_summary(summary, global_step)
        self._next_step = global_step + 1

    def _with_summary(self) -> SessionRunArgs:
        summaries = self._summary_op if self._scaffold is None else self._scaffold.summary_op
        if summaries is None:
            summaries = []
        return SessionRunArgs(summaries if isinstance(summaries, list) else [summaries])


class SummaryAtEndHook(SessionRunHook):
    """Writes summaries once, at the end, for example of an evaluation.

    Args:
        log_dir: the directory of its event file, unless there is a `summary_writer`.
        summary_op: the op to run; all summaries of the graph by default.

    Raises:
        GraphValueError: neither a `log_dir` nor a `summary_writer`.
    """

    def __init__(
        self,
        log_dir: str | None = None,
        summary_writer: Any = None,
        summary_op: Any = None,
        feed_dict: Mapping[Any, Any] | None = None,
    ) -> None:
        if log_dir is None and summary_writer is None:
            raise GraphValueError("One of log_dir or summary_writer should be used")
        self._log_dir = log_dir
        self._summary_writer = summary_writer
        self._summary_op = summary_op
        self._merges_all = summary_op is None
        self._feed_dict = feed_dict

    def begin(self) -> None:
        if self._merges_all and getattr(self._summary_op, "graph", None) is not get_default_graph():
            self._summary_op = merge_all()  # None if there are none
        self._global_step = get_or_create_global_step()

    async def after_create_session(self, session: Session, coord: Coordinator) -> None:
        if self._summary_writer is None and self._log_dir is not None:
            self._summary_writer = await off_loop(FileWriterCache.get, self._log_dir)

    async def end(self, session: Session) -> None:
        if self._summary_op is not None:
            step = await session.run(self._global_step)
            summary = await session.run(self._summary_op, self._feed_dict)
            self._summary_writer.add_summary(summary, int(step))
        await settle(self._summary_writer.flush())
