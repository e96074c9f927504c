"""Hooks that log the progress of a training: values of tensors, steps per second."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from aioexec.errors import GraphValueError, UnknownNameError
from aioexec.formats.protos import Summary
from aioexec.graph.graph import get_default_graph
from aioexec.train.callbacks import settle
from aioexec.train.global_steps import get_global_step
from aioexec.train.hooks.file_writer_cache import FileWriterCache
from aioexec.train.hooks.global_step_read import required_global_step_read
from aioexec.train.hooks.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from aioexec.train.hooks.timers import HookTimer, NeverTriggerTimer, SecondOrStepTimer
from aioexec.train.off_loop import off_loop

if TYPE_CHECKING:
    from aioexec.sessions.session import Session

logger = logging.getLogger(__name__)

Formatter = Callable[[dict[Any, Any]], Any]

MOST_WARNINGS = 5
"""The most warnings of a hook that the global step does not advance."""


class LoggingTensorHook(SessionRunHook):
    """Logs the values of tensors at level INFO.

    Args:
        tensors: tag -> tensor or its name, or tensors or names, each its own tag.
        every_n_iter: log at the first step and every N steps of this session.
        every_n_secs: log every N seconds instead.
        at_end: also, or only, log at the end, in a separate run.
        formatter: from tag -> value to the line; may be `async def`.

    Raises:
        GraphValueError: not one of `every_n_iter` and `every_n_secs`, except with `at_end`; or not a positive `every_n_iter`.
    """

    def __init__(
        self,
        tensors: Any,
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
        formatter: Formatter | None = None,
    ) -> None:
        only_at_end = at_end and every_n_iter is None and every_n_secs is None
        if not only_at_end and (every_n_iter is None) == (every_n_secs is None):
            raise GraphValueError(
                "either at_end and/or exactly one of every_n_iter and every_n_secs must be provided"
            )
        if every_n_iter is not None and every_n_iter <= 0:
            raise GraphValueError(f"invalid every_n_iter={every_n_iter}")
        if isinstance(tensors, Mapping):
            self._tag_order = sorted(tensors)
            self._tensors = dict(tensors)
        else:
            self._tag_order = list(tensors)
            self._tensors = {each: each for each in self._tag_order}
        self._formatter = formatter
        self._timer: HookTimer = (
            NeverTriggerTimer()
            if only_at_end
            else SecondOrStepTimer(every_secs=every_n_secs, every_steps=every_n_iter)
        )
        self._log_at_end = at_end

    def begin(self) -> None:
        self._timer.reset()
        self._iter_count = 0
        self._should_trigger = False
        self._current_tensors = {tag: the_tensor(each) for tag, each in self._tensors.items()}
        self._request = SessionRunArgs(self._current_tensors)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        self._should_trigger = self._timer.should_trigger_for_step(self._iter_count)
        return self._request if self._should_trigger else None

    def after_run(
        self, run_context: SessionRunContext, run_values: SessionRunValues
    ) -> Awaitable[None] | None:
        step = self._iter_count
        self._iter_count = step + 1
        return self._log(run_values.results, step) if self._should_trigger else None

    async def end(self, session: Session) -> None:
        if self._log_at_end:
            await self._log(await session.run(self._current_tensors), self._iter_count)

    async def _log(self, values: dict[Any, Any], step: int) -> None:
        elapsed, _ = self._timer.update_last_triggered_step(step)
        if self._formatter is not None:
            logger.info("%s", await settle(self._formatter(values)))
            return
        with np.printoptions(suppress=True):
            line = ", ".join(f"{tag} = {values[tag]!s}" for tag in self._tag_order)
        if elapsed is None:
            logger.info("%s", line)
        else:
            logger.info("%s (%.3f sec)", line, elapsed)


class StepCounterHook(SessionRunHook):
    """Logs and records the rate of the global step, in steps per second, as the scalar "global_step/sec".

    Args:
        output_dir: the directory of its event file, unless there is a `summary_writer`.

    Raises:
        GraphValueError: not exactly one of `every_n_steps` and `every_n_secs`.
    """

    def __init__(
        self,
        every_n_steps: int | None = 100,
        every_n_secs: float | None = None,
        output_dir: str | None = None,
        summary_writer: Any = None,
    ) -> None:
        if (every_n_steps is None) == (every_n_secs is None):
            raise GraphValueError("exactly one of every_n_steps and every_n_secs should be provided")
        self._timer = SecondOrStepTimer(every_steps=every_n_steps, every_secs=every_n_secs)
        self._summary_writer = summary_writer
        self._output_dir = output_dir
        self._last_global_step: int | None = None
        self._warned = 0

    async def begin(self) -> None:
        if self._summary_writer is None and self._output_dir:
            self._summary_writer = await off_loop(FileWriterCache.get, self._output_dir)
        self._global_step_tensor = required_global_step_read("StepCounterHook")
        self._summary_tag = f"{get_global_step().op.name}/sec"
        self._request = SessionRunArgs(self._global_step_tensor)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return self._request

    def after_run(
        self, run_context: SessionRunContext, run_values: SessionRunValues
    ) -> Awaitable[None] | None:
        stale = int(run_values.results)
        if stale == self._last_global_step:
            self._warn(stale)
        self._last_global_step = stale
        if self._timer.should_trigger_for_step(stale + 1):
            return self._count(run_context)
        return None

    async def _count(self, run_context: SessionRunContext) -> None:
        global_step = int(await run_context.session.run(self._global_step_tensor))
        if not self._timer.should_trigger_for_step(global_step):
            return
        elapsed_time, elapsed_steps = self._timer.update_last_triggered_step(global_step)
        if elapsed_time:  # no rate at the first time, nor if no time has passed
            await settle(self._log_and_record(elapsed_steps, elapsed_time, global_step))

    def _log_and_record(
        self, elapsed_steps: int, elapsed_time: float, global_step: int
    ) -> Awaitable[None] | None:
        """Log and record the rate; subclasses may override it."""
        rate = elapsed_steps / elapsed_time
        if self._summary_writer is not None:
            values = [Summary.Value(tag=self._summary_tag, simple_value=rate)]
            self._summary_writer.add_summary(Summary(value=values), global_step)
        logger.info("%s: %g", self._summary_tag, rate)
        return None

    def _warn(self, stale: int) -> None:
        """Warn a few times only: some optimizers do not count every step by design."""
        if self._warned < MOST_WARNINGS:
            self._warned += 1
            logger.warning(
                "It seems that global step (tf.train.get_global_step) has not been increased. Current value: %s. "
                "Pass tf.train.get_global_step() to Optimizer.apply_gradients or Optimizer.minimize.",
                stale,
            )


def the_tensor(wanted: Any) -> Any:
    """A tensor of the default graph, given by itself, its name or the name of an op with one output.

    Raises:
        GraphValueError: of another graph, or the op has several outputs.
        UnknownNameError: no such name.
    """
    graph = get_default_graph()
    if not isinstance(wanted, str):
        if getattr(wanted, "graph", None) is not graph:
            raise GraphValueError(
                f"Passed {wanted!r} should have graph attribute that is equal to current graph {graph!r}"
            )
        return wanted
    if ":" in wanted:
        return graph.as_graph_element(wanted)
    tensor = graph.as_graph_element(f"{wanted}:0")
    try:
        graph.as_graph_element(f"{wanted}:1")
    except UnknownNameError:
        return tensor
    raise GraphValueError(
        f"Name {wanted} is ambiguous, as this `Operation` has multiple outputs (at least 2)"
    )
