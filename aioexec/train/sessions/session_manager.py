"""SessionManager: creates sessions with a ready model, from a checkpoint, by initialisation, or by waiting for another process.

Operations are run in this order, each only if it is given:

    restore from a checkpoint, otherwise: init_op, init_fn
    ready_for_local_init_op, local_init_op
    ready_op

A session that does not get ready is closed before the error is raised. All waits use the loop's clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import numpy as np

from aioexec.errors import DeadlineExceededError, FailedPreconditionError, GraphValueError
from aioexec.graph.graph import Graph, get_default_graph
from aioexec.sessions.session import Session
from aioexec.train.callbacks import settle
from aioexec.train.checkpoints.checkpoint_state import get_checkpoint_state
from aioexec.train.errors import TrainingStateError, call_function
from aioexec.train.off_loop import off_loop

logger = logging.getLogger(__name__)

InitFunction = Callable[[Session], Awaitable[Any] | Any]


class SessionManager:
    """Creates sessions and makes their model ready.

    Args:
        local_init_op: run in each new session; usually initialises local variables and tables.
        ready_op: the names of uninitialised variables; an empty vector of strings means that the model is ready.
        ready_for_local_init_op: the names of uninitialised variables that local_init_op needs.
        graph: the graph to run, by default the default graph.
        recovery_wait_secs: the polling interval for a checkpoint or a ready model. With TensorFlow's default, 30, a worker is
            idle for half a minute after each restart of its chief.
        local_init_run_options: a RunOptions for local_init_op.
        local_init_feed_dict: the feeds of local_init_op.

    Raises:
        GraphValueError: a ready_for_local_init_op, but no local_init_op.
    """

    def __init__(
        self,
        local_init_op: Any = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        graph: Graph | None = None,
        recovery_wait_secs: float = 1,
        local_init_run_options: Any = None,
        local_init_feed_dict: Mapping[Any, Any] | None = None,
    ) -> None:
        if ready_for_local_init_op is not None and local_init_op is None:
            raise GraphValueError(
                f"If you pass a ready_for_local_init_op you must also pass a local_init_op, "
                f"ready_for_local_init_op [{ready_for_local_init_op}]"
            )
        self._local_init_op = local_init_op
        self._ready_op = ready_op
        self._ready_for_local_init_op = ready_for_local_init_op
        self._graph = get_default_graph() if graph is None else graph
        self._recovery_wait_secs = recovery_wait_secs
        self._local_init_run_options = local_init_run_options
        self._local_init_feed_dict = local_init_feed_dict

    async def prepare_session(
        self,
        master: str,
        init_op: Any = None,
        saver: Any = None,
        checkpoint_dir: str | None = None,
        checkpoint_filename_with_path: str | None = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        config: Any = None,
        init_feed_dict: Mapping[Any, Any] | None = None,
        init_fn: InitFunction | None = None,
    ) -> Session:
        """A session whose model was restored, or initialised if there is no checkpoint; and is ready.

        Args:
            checkpoint_dir: restore its latest checkpoint; or `checkpoint_filename_with_path`: restore this one.
            wait_for_checkpoint: wait for one in checkpoint_dir, at most max_wait_secs.
            init_fn: called with the session after init_op; plain or `async def`.

        Raises:
            TrainingStateError: there is no way to initialise the model, or it is not ready afterwards.
            GraphValueError: both checkpoint_dir and checkpoint_filename_with_path.
        """
        sess, is_restored = await self._restore_checkpoint(
            master,
            saver,
            checkpoint_dir,
            checkpoint_filename_with_path,
            wait_for_checkpoint,
            max_wait_secs,
            config,
        )
        async with _close_on_error(sess):
            if not is_restored:
                await self._initialize(sess, init_op, init_feed_dict, init_fn)
            await self._make_ready(sess, f"Init op: {_name_of(init_op)}, init fn: {init_fn}")
        return sess

    async def recover_session(
        self,
        master: str,
        saver: Any = None,
        checkpoint_dir: str | None = None,
        checkpoint_filename_with_path: str | None = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        config: Any = None,
    ) -> tuple[Session, bool]:
        """A session, and whether its model was restored and is ready; if not, the caller has to initialise it.

        Raises:
            GraphValueError: both checkpoint_dir and checkpoint_filename_with_path.
        """
        sess, is_restored = await self._restore_checkpoint(
            master,
            saver,
            checkpoint_dir,
            checkpoint_filename_with_path,
            wait_for_checkpoint,
            max_wait_secs,
            config,
        )
        async with _close_on_error(sess):
            missing = await self._try_run_local_init_op(sess)
            if not is_restored:
                return sess, False
            source, what = checkpoint_dir or checkpoint_filename_with_path, "ready for local init"
            if missing is None:
                missing, what = await self._model_ready(sess), "ready"
            if missing is not None:
                logger.info("Restoring model from %s did not make model %s: %s", source, what, missing)
                return sess, False
            logger.info("Restored model from %s", source)
            return sess, True

    async def wait_for_session(
        self, master: str, config: Any = None, max_wait_secs: float | None = math.inf
    ) -> Session:
        """A session whose model another process initialises; waits until it is ready.

        Raises:
            DeadlineExceededError: it was not ready after max_wait_secs.
        """
        loop = asyncio.get_running_loop()
        seconds = math.inf if max_wait_secs is None else max_wait_secs
        deadline = loop.time() + seconds
        while True:
            sess = Session(master, graph=self._graph, config=config)
            async with _close_on_error(sess):
                missing = await self._try_run_local_init_op(sess)
                if missing is None:
                    missing = await self._model_ready(sess)
            if missing is None:
                return sess
            await _close_quietly(sess)
            if deadline - loop.time() < self._recovery_wait_secs:
                raise DeadlineExceededError(
                    f"Session was not ready after waiting {seconds:g} secs.  {missing}"
                )
            logger.info("Waiting for model to be ready.  %s", missing)
            await asyncio.sleep(self._recovery_wait_secs)

    # Parts of the sequence

    async def _restore_checkpoint(
        self,
        master: str,
        saver: Any = None,
        checkpoint_dir: str | None = None,
        checkpoint_filename_with_path: str | None = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        config: Any = None,
    ) -> tuple[Session, bool]:
        """A session, and whether it was restored from a checkpoint; it is not if there is no saver or no checkpoint."""
        if checkpoint_dir and checkpoint_filename_with_path:
            raise GraphValueError("Can not provide both checkpoint_dir and checkpoint_filename_with_path.")
        sess = Session(master, graph=self._graph, config=config)
        if saver is None:
            return sess, False
        async with _close_on_error(sess):
            if checkpoint_filename_with_path:
                await settle(saver.restore(sess, checkpoint_filename_with_path))
                return sess, True
            if not checkpoint_dir:
                return sess, False
            state = await self._checkpoint_state(checkpoint_dir, max_wait_secs if wait_for_checkpoint else 0)
            if state is None:
                return sess, False
            await settle(saver.restore(sess, state.model_checkpoint_path))
            await off_loop(saver.recover_last_checkpoints, list(state.all_model_checkpoint_paths))
        return sess, True

    async def _checkpoint_state(self, checkpoint_dir: str, max_wait_secs: float) -> Any:
        """The checkpoint state of a directory; None if there is none after max_wait_secs."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max_wait_secs
        while True:
            state = await off_loop(get_checkpoint_state, checkpoint_dir)
            if state is not None and state.model_checkpoint_path:
                return state
            if loop.time() >= deadline:
                return None
            logger.info("Waiting for checkpoint to be available in %s.", checkpoint_dir)
            await asyncio.sleep(self._recovery_wait_secs)

    async def _initialize(
        self,
        sess: Session,
        init_op: Any,
        init_feed_dict: Mapping[Any, Any] | None,
        init_fn: InitFunction | None,
    ) -> None:
        if init_op is None and init_fn is None and self._local_init_op is None:
            raise TrainingStateError(
                "Model is not initialized and no init_op or init_fn or local_init_op was given"
            )
        if init_op is not None:
            await sess.run(init_op, init_feed_dict)
        if init_fn is not None:
            await call_function(init_fn, sess)

    async def _make_ready(self, sess: Session, made: str) -> None:
        """Run local_init_op; raise an error that names the init ops (`made`) if the model does not get ready."""
        missing = await self._try_run_local_init_op(sess)
        if missing is not None:
            raise TrainingStateError(
                f"Init operations did not make model ready for local_init.  {made}, error: {missing}"
            )
        missing = await self._model_ready(sess)
        if missing is not None:
            raise TrainingStateError(
                f"Init operations did not make model ready.  {made}, "
                f"local_init_op: {_name_of(self._local_init_op)}, error: {missing}"
            )

    async def _try_run_local_init_op(self, sess: Session) -> str | None:
        """Run local_init_op, if there is one and it may run; returns the reason if it must not."""
        if self._local_init_op is None:
            return None
        missing = await self._model_ready_for_local_init(sess)
        if missing is None:
            logger.info("Running local_init_op.")
            await sess.run(self._local_init_op, self._local_init_feed_dict, self._local_init_run_options)
            logger.info("Done running local_init_op.")
        return missing

    async def _model_ready(self, sess: Session) -> str | None:
        """The reason why the model is not ready; None if it is."""
        return await missing_variables(self._ready_op, sess, "Model not ready")

    async def _model_ready_for_local_init(self, sess: Session) -> str | None:
        """The reason why the model is not ready for local_init_op; None if it is."""
        return await missing_variables(self._ready_for_local_init_op, sess, "Model not ready for local init")


async def missing_variables(ready_op: Any, sess: Session, what: str) -> str | None:
    """The names that a ready op reports as not initialised; None if there are none."""
    if ready_op is None:
        return None
    try:
        value = await sess.run(ready_op)
    except FailedPreconditionError as error:
        if "uninitialized" not in error.message:
            logger.warning("%s : error [%s]", what, error)
            raise
        return error.message
    # an op without a value, and the int32 of TensorFlow's older ready ops, do not name variables
    if value is None or np.asarray(value).dtype == np.int32 or np.size(value) == 0:
        return None
    names = [
        name.decode(errors="replace") if isinstance(name, bytes) else str(name) for name in np.ravel(value)
    ]
    return "Variables not initialized: " + ", ".join(names)


def _name_of(op: Any) -> str:
    return "None" if op is None else str(getattr(op, "name", f"<no name for {type(op)}>"))


@contextlib.asynccontextmanager
async def _close_on_error(sess: Session) -> AsyncIterator[None]:
    """Close a session if the block, which makes it ready, fails or is cancelled."""
    try:
        yield
    except BaseException:
        await _close_quietly(sess)
        raise


async def _close_quietly(sess: Session) -> None:
    """Close a session that was not returned yet; errors are dropped, since another one is being raised."""
    with contextlib.suppress(Exception):
        await sess.close(grace=0)
