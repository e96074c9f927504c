"""Supervisor: manages the session of a training program, its services and its end; the predecessor of monitored sessions.

    supervisor = Supervisor(logdir="/tmp/mydir")
    async with supervisor.managed_session() as session:
        while not supervisor.should_stop():
            await session.run(train_op)

An error of the block or of a service stops everything; the first error is raised when the block is left, after the session was
closed. OutOfRangeError and StopIteration end the block without an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final

from aioexec.errors import GraphValueError
from aioexec.graph.graph import Graph, get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.observability.summary_writer import FileWriter
from aioexec.ops.control_flow.dependencies import group
from aioexec.ops.io.summary_functions import merge_all
from aioexec.ops.lookup.lookup_tables import tables_initializer
from aioexec.ops.state.initialization import (
    global_variables,
    global_variables_initializer,
    local_variables_initializer,
    report_uninitialized_variables,
)
from aioexec.sessions.session import Session
from aioexec.train.checkpoints.saver import Saver
from aioexec.train.coordination.coordinator import Coordinator, Member
from aioexec.train.coordination.looper import LooperThread
from aioexec.train.coordination.task_thread import TaskThread
from aioexec.train.errors import TrainingStateError
from aioexec.train.global_steps import global_step as value_of
from aioexec.train.input.queue_runner import QueueRunner
from aioexec.train.off_loop import off_loop
from aioexec.train.sessions.session_manager import InitFunction, SessionManager
from aioexec.train.sessions.supervisor_services import (
    SVStepCounterThread,
    SVSummaryThread,
    SVTimerCheckpointThread,
)

logger = logging.getLogger(__name__)

_VARIABLES: Final = ("Variable", "VariableV2")


class Supervisor:
    """Prepares a session, saves checkpoints and summaries during the training, and stops everything together.

    Arguments that are `USE_DEFAULT` are found in the graph's collections, or made; None disables them. The constructor makes
    the graph read-only.

    Args:
        graph: the default graph by default.
        ready_op: the names of uninitialised variables, as a vector of strings.
        ready_for_local_init_op: the names of uninitialised variables that local_init_op needs.
        is_chief: whether this process initialises or restores the model; the others wait for it.
        init_op: initialises variables; it is fed init_feed_dict.
        local_init_op: initialises the state of this process.
        logdir: the directory of checkpoints and events; the services of a chief need it.
        summary_op: a serialised Summary of all values to record.
        save_summaries_secs, save_model_secs: the intervals in seconds; 0 for never.
        recovery_wait_secs: see SessionManager.
        stop_grace_secs: the grace period of tasks and threads in `stop`.
        checkpoint_basename: the prefix of the names of checkpoints.
        summary_writer: by default a FileWriter for logdir.
        init_fn: called with the session after init_op; plain or `async def`.
        local_init_run_options: a RunOptions for local_init_op.

    Raises:
        GraphValueError: this is no chief, and a variable has no device.

    State: `_wrote_graph`: the present event file contains the graph; all else is constant.
    """

    USE_DEFAULT: Final = 0

    def __init__(
        self,
        graph: Graph | None = None,
        ready_op: Any = USE_DEFAULT,
        ready_for_local_init_op: Any = USE_DEFAULT,
        is_chief: bool = True,
        init_op: Any = USE_DEFAULT,
        init_feed_dict: Mapping[Any, Any] | None = None,
        local_init_op: Any = USE_DEFAULT,
        logdir: str | None = None,
        summary_op: Any = USE_DEFAULT,
        saver: Any = USE_DEFAULT,
        global_step: Any = USE_DEFAULT,
        save_summaries_secs: float = 120,
        save_model_secs: float = 600,
        recovery_wait_secs: float = 1,
        stop_grace_secs: float = 120,
        checkpoint_basename: str = "model.ckpt",
        session_manager: SessionManager | None = None,
        summary_writer: Any = USE_DEFAULT,
        init_fn: InitFunction | None = None,
        local_init_run_options: Any = None,
    ) -> None:
        self._graph = get_default_graph() if graph is None else graph
        with self._graph.as_default():
            self.ready_op = _given(ready_op, GraphKeys.READY_OP, report_uninitialized_variables)
            self.ready_for_local_init_op = _given(
                ready_for_local_init_op, GraphKeys.READY_FOR_LOCAL_INIT_OP, lambda: None
            )
            self.init_op = _given(init_op, GraphKeys.INIT_OP, global_variables_initializer)
            self.local_init_op = _given(local_init_op, GraphKeys.LOCAL_INIT_OP, _local_init_op)
            self.saver = _given(saver, GraphKeys.SAVERS, _saver)
            self.summary_op = _given(summary_op, GraphKeys.SUMMARY_OP, merge_all)
            self.global_step = _given(global_step, GraphKeys.GLOBAL_STEP, _global_step)
        self.init_feed_dict = init_feed_dict
        self.is_chief = is_chief
        self.coord = Coordinator()
        self._stop_grace_secs = stop_grace_secs
        self._init_fn = init_fn
        self._logdir = logdir if is_chief else None
        self.save_summaries_secs = save_summaries_secs if is_chief else None
        self.save_model_secs = save_model_secs if is_chief else None
        self.save_path = os.path.join(self._logdir, checkpoint_basename) if self._logdir else None
        if summary_writer is Supervisor.USE_DEFAULT:
            summary_writer = FileWriter(self._logdir) if self._logdir else None
        self.summary_writer: Any = summary_writer if is_chief else None
        self._wrote_graph = False
        self.session_manager = session_manager or SessionManager(
            local_init_op=self.local_init_op,
            ready_op=self.ready_op,
            ready_for_local_init_op=self.ready_for_local_init_op,
            graph=self._graph,
            recovery_wait_secs=recovery_wait_secs,
            local_init_run_options=local_init_run_options,
        )
        self._check_devices()
        self._graph.finalize()

    def _check_devices(self) -> None:
        """Check that variables have devices: otherwise each replica would have its own."""
        for op in () if self.is_chief else self._graph.get_operations():
            if op.type in _VARIABLES and not op.device:
                raise GraphValueError(
                    f"When using replicas, all Variables must have their device set: {op!r}"
                )

    # Sessions

    async def prepare_or_wait_for_session(
        self,
        master: str = "",
        config: Any = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        start_standard_services: bool = True,
    ) -> Session:
        """A session with a ready model: restored or initialised by the chief, and awaited by the others.

        Args:
            master: the target of the session.
            wait_for_checkpoint: wait for a checkpoint in logdir.
            start_standard_services: whether to start the services (of a chief) and the queue runners.

        Raises:
            OpError: the model does not get ready, or not in time.
        """
        self.coord.clear_stop()
        if self.summary_writer is not None:
            self.summary_writer.reopen()
        if self.is_chief:
            sess = await self._prepare_session(master, config, wait_for_checkpoint, max_wait_secs)
        else:
            sess = await self.session_manager.wait_for_session(master, config, max_wait_secs)
        try:
            await self._begin(sess, start_standard_services)
        except BaseException:
            await sess.close()
            raise
        return sess

    async def _prepare_session(
        self, master: str, config: Any, wait_for_checkpoint: bool, max_wait_secs: float
    ) -> Session:
        return await self.session_manager.prepare_session(
            master,
            init_op=self.init_op,
            saver=self.saver,
            checkpoint_dir=self._logdir,
            wait_for_checkpoint=wait_for_checkpoint,
            max_wait_secs=max_wait_secs,
            config=config,
            init_feed_dict=self.init_feed_dict,
            init_fn=self._init_fn,
        )

    async def _begin(self, sess: Session, start_standard_services: bool) -> None:
        if self.is_chief:
            await self._write_graph()
        if not start_standard_services:
            return
        if self.is_chief:
            logger.info("Starting standard services.")
            await self.start_standard_services(sess)
        logger.info("Starting queue runners.")
        self.start_queue_runners(sess)

    async def _write_graph(self) -> None:
        """Write the graph to logdir as text, and to the event file."""
        from aioexec.graph.io.metagraph_export import create_meta_graph_def
        from aioexec.train.checkpoints.graph_files import write_graph

        if self._logdir:
            graph_def = self._graph.as_graph_def(add_shapes=True)
            await off_loop(write_graph, graph_def, self._logdir, "graph.pbtxt")
        if self.summary_writer is not None and not self._wrote_graph:
            self.summary_writer.add_graph(self._graph)
            saver_def = None if self.saver is None else self.saver.as_saver_def()
            self.summary_writer.add_meta_graph(create_meta_graph_def(graph=self._graph, saver_def=saver_def))
            self._wrote_graph = True

    @contextlib.asynccontextmanager
    async def managed_session(
        self,
        master: str = "",
        config: Any = None,
        start_standard_services: bool = True,
        close_summary_writer: bool = True,
    ) -> AsyncIterator[Session]:
        """A session for a block; leaving stops everything and closes it.

        Raises:
            BaseException: the first error of the block or of a service, unless it only ends the input.
            RuntimeError: a task or thread did not stop in time.
        """
        sess = None
        try:
            sess = await self.prepare_or_wait_for_session(
                master, config, start_standard_services=start_standard_services
            )
            yield sess
        except Exception as error:
            self.request_stop(error)
        finally:
            try:
                await self.stop(close_summary_writer=close_summary_writer)
            finally:
                if sess is not None:
                    await sess.close()

    # Services

    async def start_standard_services(self, sess: Session) -> list[TaskThread] | None:
        """Start the services for summaries, the step rate and checkpoints; None if there is no logdir.

        Raises:
            TrainingStateError: this is no chief.
        """
        from aioexec.formats.protos import SessionLog

        if not self.is_chief:
            raise TrainingStateError(
                "Only chief supervisor can start standard services. Because only chief supervisors can write events."
            )
        if not self._logdir:
            logger.warning("Standard services need a 'logdir' passed to the SessionManager")
            return None
        if self.global_step is not None and self.summary_writer is not None:
            step = await value_of(sess, self.global_step)
            self.summary_writer.add_session_log(SessionLog(status=SessionLog.START), step)
        threads: list[TaskThread] = []
        if self.save_summaries_secs and self.summary_writer is not None:
            if self.summary_op is not None:
                threads.append(SVSummaryThread(self, sess))
            if self.global_step is not None:
                threads.append(SVStepCounterThread(self, sess))
        if self.saver is not None and self.save_model_secs:
            threads.append(SVTimerCheckpointThread(self, sess))
        for thread in threads:
            thread.start()
        return threads

    def start_queue_runners(
        self, sess: Session, queue_runners: Sequence[QueueRunner] | None = None
    ) -> list[TaskThread]:
        """Start the tasks of queue runners, by default those in the graph's collection."""
        if queue_runners is None:
            queue_runners = self._graph.get_collection(GraphKeys.QUEUE_RUNNERS)
        return [
            thread
            for runner in queue_runners
            for thread in runner.create_threads(sess, coord=self.coord, daemon=True, start=True)
        ]

    def loop(
        self,
        timer_interval_secs: float | None,
        target: Callable[..., Any],
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> LooperThread:
        """Call a function, plain or `async def`, repeatedly until a stop is requested; see `LooperThread`."""
        return LooperThread.loop(self.coord, timer_interval_secs, target, args, kwargs)

    async def summary_computed(self, sess: Session, summary: Any, global_step: int | None = None) -> None:
        """Write a summary.

        Args:
            summary: a proto, or its bytes.
            global_step: by default the present step.

        Raises:
            TrainingStateError: there is no summary writer.
        """
        if self.summary_writer is None:
            raise TrainingStateError("Writing a summary requires a summary writer.")
        if global_step is None and self.global_step is not None:
            global_step = await value_of(sess, self.global_step)
        self.summary_writer.add_summary(summary, global_step)

    # Stopping

    async def stop(
        self,
        threads: Sequence[Member] | None = None,
        close_summary_writer: bool = True,
        ignore_live_threads: bool = False,
    ) -> None:
        """Stop all tasks and services, and wait for them; the session stays open. A cancelled call ends the grace period.

        Args:
            threads: further ones to wait for.

        Raises:
            BaseException: the error of the stop request.
            RuntimeError: a member did not stop in time, and live threads are not ignored.
        """
        from aioexec.formats.protos import SessionLog

        self.coord.request_stop()
        try:
            await self.coord.join(
                threads, stop_grace_period_secs=self._stop_grace_secs, ignore_live_threads=ignore_live_threads
            )
        except asyncio.CancelledError:
            with contextlib.suppress(Exception):  # the caller gets the cancellation
                await self.coord.join(threads, stop_grace_period_secs=0, ignore_live_threads=True)
            raise
        finally:
            if close_summary_writer and self.summary_writer is not None:
                self.summary_writer.add_session_log(SessionLog(status=SessionLog.STOP))
                await self.summary_writer.close()
                self._wrote_graph = False

    def request_stop(self, ex: Any = None) -> None:
        """See `Coordinator.request_stop`."""
        self.coord.request_stop(ex)

    def should_stop(self) -> bool:
        """Whether a stop was requested."""
        return self.coord.should_stop()

    def stop_on_exception(self) -> contextlib.AbstractContextManager[None]:
        """See `Coordinator.stop_on_exception`."""
        return self.coord.stop_on_exception()

    async def wait_for_stop(self) -> None:
        """Wait until a stop is requested."""
        await self.coord.wait_for_stop()

    # Names before TensorFlow 1.0

    PrepareSession = prepare_or_wait_for_session
    StartQueueRunners = start_queue_runners
    StartStandardServices = start_standard_services
    Stop = stop
    RequestStop = request_stop
    Loop = loop
    ShouldStop = should_stop
    StopOnException = stop_on_exception
    WaitForStop = wait_for_stop
    SummaryComputed = summary_computed


def _given(value: Any, collection: str, make: Callable[[], Any]) -> Any:
    """The argument, or by default the first item of a collection of the default graph, or a new one that is added there."""
    if value is not Supervisor.USE_DEFAULT:
        return value
    graph = get_default_graph()
    held = graph.get_collection(collection)
    if held:
        if len(held) > 1:
            logger.info("Found %d %s operations. Returning the first one.", len(held), collection)
        return held[0]
    made = make()
    if made is not None:
        graph.add_to_collection(collection, made)
    return made


def _local_init_op() -> Any:
    return group(local_variables_initializer(), tables_initializer())


def _saver() -> Saver | None:
    return Saver() if global_variables() else None


def _global_step() -> Any:
    """The tensor "global_step:0", if it is one of integers."""
    op = {each.name: each for each in get_default_graph().get_operations()}.get("global_step")
    if op is None or not op.outputs:
        return None
    found = op.outputs[0]
    if found.dtype.base_dtype.name not in ("int32", "int64"):
        logger.warning("Found 'global_step' is not an int type: %s", found.dtype)
        return None
    return found
