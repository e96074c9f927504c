"""Session creators: create the session of a monitored session, at first and after each loss.

A user's creator is any object with a method `create_session`, plain or `async def`.
"""

from __future__ import annotations

import abc
from collections.abc import Awaitable
from typing import Any

from aioexec.graph.graph import get_default_graph
from aioexec.sessions.session import Session
from aioexec.train.off_loop import off_loop
from aioexec.train.sessions.scaffold import Scaffold
from aioexec.train.sessions.session_manager import SessionManager


class SessionCreator(abc.ABC):
    """Creates sessions with a ready model."""

    @abc.abstractmethod
    def create_session(self) -> Awaitable[Session] | Session:
        """Create a session with a ready model; the monitored session's graph is the default graph meanwhile."""


class _ManagedSessionCreator(SessionCreator):
    """Creates sessions with a SessionManager, made from its scaffold at first use."""

    def __init__(self, scaffold: Scaffold | None, master: str, config: Any) -> None:
        self._scaffold = Scaffold() if scaffold is None else scaffold
        self._master = master
        self._config = config
        self._session_manager: SessionManager | None = None

    async def _get_session_manager(self) -> SessionManager:
        await off_loop(self._scaffold.finalize)  # a saver's nodes take time proportional to the model
        if self._session_manager is None:
            self._session_manager = SessionManager(
                local_init_op=self._scaffold.local_init_op,
                local_init_feed_dict=self._scaffold.local_init_feed_dict,
                ready_op=self._scaffold.ready_op,
                ready_for_local_init_op=self._scaffold.ready_for_local_init_op,
                graph=get_default_graph(),
            )
        return self._session_manager


class ChiefSessionCreator(_ManagedSessionCreator):
    """Restores the model from a checkpoint, or initialises it.

    Args:
        scaffold: the scaffold; by default one without arguments.
        checkpoint_dir: restore its latest checkpoint, if there is one; or `checkpoint_filename_with_path`: restore this one.
    """

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Any = None,
        checkpoint_dir: str | None = None,
        checkpoint_filename_with_path: str | None = None,
    ) -> None:
        super().__init__(scaffold, master, config)
        self._checkpoint_dir = checkpoint_dir
        self._checkpoint_filename_with_path = checkpoint_filename_with_path

    async def create_session(self) -> Session:
        manager = await self._get_session_manager()
        return await manager.prepare_session(
            self._master,
            saver=self._scaffold.saver,
            checkpoint_dir=self._checkpoint_dir,
            checkpoint_filename_with_path=self._checkpoint_filename_with_path,
            config=self._config,
            init_op=self._scaffold.init_op,
            init_feed_dict=self._scaffold.init_feed_dict,
            init_fn=self._scaffold.init_fn,
        )


class WorkerSessionCreator(_ManagedSessionCreator):
    """Waits until a chief has made the model ready.

    Args:
        scaffold: the scaffold; by default one without arguments.
        max_wait_secs: the most seconds to wait; DeadlineExceededError then.
    """

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Any = None,
        max_wait_secs: float = 30 * 60,
    ) -> None:
        super().__init__(scaffold, master, config)
        self._max_wait_secs = max_wait_secs

    async def create_session(self) -> Session:
        manager = await self._get_session_manager()
        return await manager.wait_for_session(
            self._master, config=self._config, max_wait_secs=self._max_wait_secs
        )
