"""CheckpointSaverHook, which saves checkpoints, and its listeners."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any

from aioexec.errors import GraphValueError
from aioexec.formats.protos import SessionLog
from aioexec.graph.graph import Graph, get_default_graph
from aioexec.graph.io.metagraph_export import create_meta_graph_def
from aioexec.graph.keys import GraphKeys
from aioexec.train.callbacks import settle
from aioexec.train.checkpoints.graph_files import write_graph
from aioexec.train.errors import TrainingStateError
from aioexec.train.hooks.file_writer_cache import FileWriterCache
from aioexec.train.hooks.global_step_read import StepForecast, required_global_step_read
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


class CheckpointSaverListener:
    """Callbacks of a CheckpointSaverHook for each checkpoint; each may be plain or `async def`."""

    def begin(self) -> Awaitable[None] | None:
        """Called once before the session is created; the graph may still be changed."""

    def before_save(self, session: Session, global_step_value: int) -> Awaitable[None] | None:
        """Called before a checkpoint is written."""

    def after_save(self, session: Session, global_step_value: int) -> Awaitable[bool | None] | bool | None:
        """Called after a checkpoint was written; true ends the loop."""

    def end(self, session: Session, global_step_value: int) -> Awaitable[None] | None:
        """Called at the end, after the last checkpoint."""


class CheckpointSaverHook(SessionRunHook):
    """Saves a checkpoint after a session was created, every `save_secs` seconds or `save_steps` steps, and at the end.

    Args:
        checkpoint_dir: the folder of checkpoints, `graph.pbtxt` and an event file.
        saver: writes the checkpoints; None: the scaffold's, else the only one in the collection SAVERS.
        listeners: are called for each checkpoint.
        save_graph_def: write `graph.pbtxt`, and a meta graph beside each checkpoint.

    Raises:
        GraphValueError: not exactly one of `save_secs` and `save_steps`, or both a saver and a scaffold.

    State: `_saved_step` is the step of the last complete checkpoint; a later save may have been cancelled.
    """

    def __init__(
        self,
        checkpoint_dir: str,
        save_secs: float | None = None,
        save_steps: int | None = None,
        saver: Any = None,
        checkpoint_basename: str = "model.ckpt",
        scaffold: Any = None,
        listeners: Sequence[CheckpointSaverListener] | None = None,
        save_graph_def: bool = True,
    ) -> None:
        if saver is not None and scaffold is not None:
            raise GraphValueError("You cannot provide both saver and scaffold")
        self._saver = saver
        self._checkpoint_dir = checkpoint_dir
        self._save_path = os.path.join(checkpoint_dir, checkpoint_basename)
        self._scaffold = scaffold
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)
        self._listeners = list(listeners or [])
        self._save_graph_def = save_graph_def
        self._summary_writer: Any = None
        self._forecast = StepForecast()
        self._saved_step: int | None = None

    def add_listener(self, listener: CheckpointSaverListener) -> None:
        """Add a listener, once."""
        if listener not in self._listeners:
            self._listeners.append(listener)

    async def begin(self) -> None:
        self._summary_writer = await off_loop(FileWriterCache.get, self._checkpoint_dir)
        self._global_step_tensor = required_global_step_read("CheckpointSaverHook")
        self._request = SessionRunArgs(self._global_step_tensor)
        for listener in self._listeners:
            await settle(listener.begin())

    async def after_create_session(self, session: Session, coord: Coordinator) -> None:
        global_step = int(await session.run(self._global_step_tensor))
        await off_loop(self._describe, session.graph)
        await self._save(session, global_step)
        self._saved_step = global_step
        self._timer.update_last_triggered_step(global_step)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return self._request

    def after_run(
        self, run_context: SessionRunContext, run_values: SessionRunValues
    ) -> Awaitable[None] | None:
        stale = int(run_values.results)
        if self._timer.should_trigger_for_step(self._forecast.reached(stale)):
            return self._save_if_due(run_context)
        return None

    async def end(self, session: Session) -> None:
        last_step = int(await session.run(self._global_step_tensor))
        if last_step != self._saved_step:
            await self._save(session, last_step)
        for listener in self._listeners:
            await settle(listener.end(session, last_step))

    async def _save_if_due(self, run_context: SessionRunContext) -> None:
        session = run_context.session
        global_step = int(await session.run(self._global_step_tensor))
        if self._timer.should_trigger_for_step(global_step):
            self._timer.update_last_triggered_step(global_step)
            if await self._save(session, global_step):
                run_context.request_stop()
            self._saved_step = global_step

    def _describe(self, graph: Graph) -> None:
        """Write the graph, which is final now, to `graph.pbtxt` and the event file. Blocks."""
        graph_def = graph.as_graph_def(add_shapes=True)
        if self._save_graph_def:
            write_graph(graph_def, self._checkpoint_dir, "graph.pbtxt")
        saver = self._get_saver()
        saver_def = None if saver is None else saver.saver_def
        self._summary_writer.add_graph(graph)
        self._summary_writer.add_meta_graph(
            create_meta_graph_def(graph_def=graph_def, saver_def=saver_def, graph=graph)
        )

    async def _save(self, session: Session, step: int) -> bool:
        """Save a checkpoint; returns whether a listener requests a stop."""
        logger.info("Calling checkpoint listeners before saving checkpoint %d...", step)
        for listener in self._listeners:
            await settle(listener.before_save(session, step))
        logger.info("Saving checkpoints for %d into %s.", step, self._save_path)
        saver = self._get_saver()
        await saver.save(session, self._save_path, global_step=step, write_meta_graph=self._save_graph_def)
        saved = SessionLog(status=SessionLog.CHECKPOINT, checkpoint_path=self._save_path)
        self._summary_writer.add_session_log(saved, step)
        logger.info("Calling checkpoint listeners after saving checkpoint %d...", step)
        should_stop = False
        for listener in self._listeners:
            if await settle(listener.after_save(session, step)):
                logger.info(
                    "A CheckpointSaverListener requested that training be stopped. listener: %s", listener
                )
                should_stop = True
        return should_stop

    def _get_saver(self) -> Any:
        if self._saver is None and self._scaffold is not None:
            return self._scaffold.saver
        if self._saver is None:
            savers = get_default_graph().get_collection(GraphKeys.SAVERS)
            if not savers:
                raise TrainingStateError(
                    f"No items in collection {GraphKeys.SAVERS}. Please add a saver to the collection "
                    "or provide a saver or scaffold"
                )
            if len(savers) > 1:
                raise TrainingStateError(
                    f"More than one item in collection {GraphKeys.SAVERS}. "
                    "Please indicate which one to use by passing it to the constructor"
                )
            self._saver = savers[0]
        return self._saver
