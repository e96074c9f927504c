"""QueueRunner: tasks that fill a queue, one for each of its enqueue operations.

A runner's tasks are members of the coordinator, which receives their errors and joins them, and of the session: closing it ends
them. Without a coordinator their errors are in `exceptions_raised`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

from aioexec.errors import (
    GraphTypeError,
    GraphValueError,
    OpError,
    OutOfRangeError,
    error_code_from_exception_type,
    exception_type_from_error_code,
)
from aioexec.graph.defaults import get_default_session
from aioexec.graph.graph import get_default_graph
from aioexec.graph.io.proto_functions import register_proto_function
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Operation
from aioexec.graph.scope_names import prepend_name_scope, strip_name_scope
from aioexec.sessions.session import Session
from aioexec.train.coordination.coordinator import Coordinator
from aioexec.train.coordination.task_thread import TaskThread

logger = logging.getLogger(__name__)

ErrorTypes = tuple[type[OpError], ...]


_IN_A_ROW = 8
"""The enqueues of a task between two yields to the loop: an enqueue that finds room does not suspend."""


class QueueRunner:
    """The enqueue operations of a queue, each run repeatedly by a task; when all have ended the queue is closed.

    Args:
        queue: the queue.
        enqueue_ops: operations or tensors to run.
        close_op: closes the queue; enqueues that wait for room are kept. Made if there is none.
        cancel_op: closes the queue and cancels them. Made if there is none.
        queue_closed_exception_types: errors of an enqueue operation that mean the end of its input: OutOfRangeError by default.
        queue_runner_def: a QueueRunnerDef to make this from, instead of the arguments before.
        import_scope: the scope of the nodes that `queue_runner_def` names.

    Raises:
        GraphValueError: there is no queue or no enqueue operation, or both they and `queue_runner_def` are given.
        GraphTypeError: `queue_closed_exception_types` are no tuple of OpErrors.

    State: `_alive` counts the tasks of each session that have not ended; `_exceptions_raised`, errors without a coordinator.
    """

    def __init__(
        self,
        queue: Any = None,
        enqueue_ops: Sequence[Any] | None = None,
        close_op: Any = None,
        cancel_op: Any = None,
        queue_closed_exception_types: ErrorTypes | None = None,
        queue_runner_def: Any = None,
        import_scope: str | None = None,
    ) -> None:
        if queue_runner_def is not None:
            if queue is not None or enqueue_ops:
                raise GraphValueError("queue_runner_def and queue are mutually exclusive.")
            self._init_from_proto(queue_runner_def, import_scope)
        elif queue is None or not enqueue_ops:
            raise GraphValueError("Must provide queue and enqueue_ops.")
        else:
            self._closed_types = _check_types(queue_closed_exception_types)
            self._queue = queue
            self._enqueue_ops = list(enqueue_ops)
            self._close_op = queue.close() if close_op is None else close_op
            self._cancel_op = queue.close(cancel_pending_enqueues=True) if cancel_op is None else cancel_op
        self._alive: WeakKeyDictionary[Session, int] = WeakKeyDictionary()
        self._exceptions_raised: list[BaseException] = []

    def _init_from_proto(self, proto: Any, import_scope: str | None) -> None:
        graph = get_default_graph()

        def element(name: str) -> Any:
            return graph.as_graph_element(prepend_name_scope(name, import_scope))

        self._queue = element(proto.queue_name)
        self._enqueue_ops = [element(name) for name in proto.enqueue_op_name]
        self._close_op = element(proto.close_op_name)
        self._cancel_op = element(proto.cancel_op_name)
        codes = proto.queue_closed_exception_types
        self._closed_types = _check_types(
            tuple(exception_type_from_error_code(code) for code in codes) or None
        )

    @property
    def queue(self) -> Any:
        """The queue; the operation of its handle if this was made from a proto."""
        return self._queue

    @property
    def enqueue_ops(self) -> list[Any]:
        return self._enqueue_ops

    @property
    def close_op(self) -> Any:
        return self._close_op

    @property
    def cancel_op(self) -> Any:
        return self._cancel_op

    @property
    def queue_closed_exception_types(self) -> ErrorTypes:
        return self._closed_types

    @property
    def exceptions_raised(self) -> list[BaseException]:
        """Errors of tasks that were made without a coordinator."""
        return self._exceptions_raised

    @property
    def name(self) -> str:
        """The name of the queue."""
        name: str = self._queue.name
        return name

    # Running

    def create_threads(
        self, sess: Session, coord: Coordinator | None = None, daemon: bool = False, start: bool = False
    ) -> list[TaskThread]:
        """Make the tasks that run the enqueue operations; none if this runner's tasks for the session are alive.

        With a coordinator there is one more, which closes the queue when a stop is requested, to end waiting enqueues.

        Args:
            coord: receives the errors, and stops the tasks, which are registered with it.
            start: whether to start them, which requires a running loop; otherwise call their `start`.
        """
        if self._alive.get(sess, 0) > 0:
            return []
        self._alive[sess] = len(self._enqueue_ops)
        self._exceptions_raised = []
        work = [(op.name, partial(self._run, sess, op, coord)) for op in self._enqueue_ops]
        if coord is not None:
            work.append(("close_on_stop", partial(self._close_on_stop, sess, coord)))
        threads = [
            TaskThread(target, f"QueueRunnerThread-{self.name}-{name}", daemon, sess.own)
            for name, target in work
        ]
        for thread in threads:
            if coord is not None:
                coord.register_thread(thread)
            if start:
                thread.start()
        return threads

    async def _run(self, sess: Session, enqueue_op: Any, coord: Coordinator | None) -> None:
        """The body of a task: enqueue until the input ends, a stop is requested, or an error occurs."""
        is_at_end = False
        try:
            is_at_end = await self._enqueue(sess, enqueue_op, coord)
        except Exception as error:
            if coord is not None:
                coord.request_stop(error)
            else:
                logger.error("Exception in QueueRunner: %s", error)
                self._exceptions_raised.append(error)
        except asyncio.CancelledError:
            if coord is not None:
                coord.request_stop()
            raise
        finally:
            self._alive[sess] -= 1
        if is_at_end and self._alive[sess] == 0:
            await _run_ignoring_errors(sess, self._close_op)

    async def _enqueue(self, sess: Session, enqueue_op: Any, coord: Coordinator | None) -> bool:
        """Enqueue repeatedly; returns whether the input has ended."""
        enqueue = sess.make_callable(enqueue_op)
        for number in count(1):
            if coord is not None and coord.should_stop():
                break
            try:
                await enqueue()
            except self._closed_types:
                return True
            if number % _IN_A_ROW == 0:
                await asyncio.sleep(0)
        return False

    async def _close_on_stop(self, sess: Session, coord: Coordinator) -> None:
        await coord.wait_for_stop()
        await _run_ignoring_errors(sess, self._cancel_op)

    # Protos

    def to_proto(self, export_scope: str | None = None) -> Any:
        """A QueueRunnerDef; None if the queue is not in the scope.

        Args:
            export_scope: the scope that names are relative to.
        """
        from aioexec.formats.protos import QueueRunnerDef

        if export_scope is not None and not self.name.startswith(export_scope):
            return None
        codes: Any = [error_code_from_exception_type(kind) for kind in self._closed_types]
        return QueueRunnerDef(
            queue_name=strip_name_scope(self.name, export_scope),
            enqueue_op_name=[strip_name_scope(op.name, export_scope) for op in self._enqueue_ops],
            close_op_name=strip_name_scope(self._close_op.name, export_scope),
            cancel_op_name=strip_name_scope(self._cancel_op.name, export_scope),
            queue_closed_exception_types=codes,
        )

    @staticmethod
    def from_proto(queue_runner_def: Any, import_scope: str | None = None) -> QueueRunner:
        """The runner that a QueueRunnerDef describes, over nodes of the default graph."""
        return QueueRunner(queue_runner_def=queue_runner_def, import_scope=import_scope)


def add_queue_runner(qr: QueueRunner, collection: str = GraphKeys.QUEUE_RUNNERS) -> None:
    """Add a runner to a collection of the default graph; see `start_queue_runners`."""
    get_default_graph().add_to_collection(collection, qr)


def start_queue_runners(
    sess: Any = None,
    coord: Coordinator | None = None,
    daemon: bool = True,
    start: bool = True,
    collection: str = GraphKeys.QUEUE_RUNNERS,
) -> list[TaskThread]:
    """Make the tasks of all runners in a collection of the default graph.

    Args:
        sess: by default, the default session; a monitored session has started them itself.
        coord, start: see `QueueRunner.create_threads`.

    Raises:
        GraphValueError: there is no session.
        GraphTypeError: `sess` is no session.
    """
    if sess is None:
        sess = get_default_session()
        if sess is None:
            raise GraphValueError(
                "Cannot start queue runners: No default session is registered. Use `with sess.as_default()` or pass an "
                "explicit session to tf.start_queue_runners(sess=sess)"
            )
    if not isinstance(sess, Session):
        if type(sess).__name__ in ("MonitoredSession", "SingularMonitoredSession"):
            return []
        raise GraphTypeError(f"sess must be a `tf.Session` object. Given class: {type(sess)}")
    runners = get_default_graph().get_collection(collection)
    if not runners:
        logger.warning(
            "`tf.train.start_queue_runners()` was called when no queue runners were defined. "
            "You can safely remove the call to this deprecated function."
        )
    return [thread for runner in runners for thread in runner.create_threads(sess, coord, daemon, start)]


async def _run_ignoring_errors(sess: Session, op: Operation) -> None:
    """Run an operation that closes a queue; errors are ignored, as the queue may not exist any more."""
    try:
        await sess.run(op)
    except Exception as error:
        logger.debug("Ignored exception: %s", error)


def _check_types(types: Any) -> ErrorTypes:
    if types is None:
        return (OutOfRangeError,)
    if not isinstance(types, tuple) or not types or not all(_is_op_error(kind) for kind in types):
        raise GraphTypeError(
            f"queue_closed_exception_types, when provided, must be a tuple of tf.error types, but saw: {types!r}"
        )
    return types


def _is_op_error(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, OpError)


def _to_proto(runner: QueueRunner, export_scope: str | None = None) -> Any:
    return runner.to_proto(export_scope=export_scope)


register_proto_function(
    GraphKeys.QUEUE_RUNNERS,
    proto_type="QueueRunnerDef",
    to_proto=_to_proto,
    from_proto=QueueRunner.from_proto,
)
