"""The factory of sessions in this process: keeps the open ones and their names, and resets them."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Sequence

from aioexec.devices.device_set import LOCALHOST, DeviceMgr
from aioexec.devices.registry import DeviceFactory
from aioexec.errors import InvalidArgumentError, SessionClosedError
from aioexec.in_thread import in_thread
from aioexec.sessions import factory
from aioexec.sessions.direct import DirectSession
from aioexec.sessions.factory import SessionFactory
from aioexec.sessions.options import SessionMetadata, SessionOptions

RUNTIME_TYPE = "DIRECT_SESSION"


def register_direct_sessions() -> None:
    """Register the process's one factory of direct sessions, for sessions without a target; idempotent."""
    if not factory.is_registered(RUNTIME_TYPE):
        factory.register(RUNTIME_TYPE, DirectSessionFactory())


class DirectSessionFactory(SessionFactory):
    """Makes direct sessions.

    `_sessions` are the open ones: neither closing nor abandoned. `_lock` guards them, since several threads make sessions.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: weakref.WeakSet[DirectSession] = weakref.WeakSet()

    def accepts_options(self, options: SessionOptions) -> bool:
        return not options.target

    async def load(self, options: SessionOptions) -> None:
        for each in DeviceFactory.unloaded(options):
            await in_thread(each.load, options)

    def new_session(self, options: SessionOptions) -> DirectSession:
        """A new session of the running loop.

        Raises:
            InvalidArgumentError: its version is negative, or its name and version are taken.
            NotFoundError: there is no device.
        """
        with self._lock:
            self._check_metadata(options.session_metadata)
            devices = DeviceFactory.add_devices(options, LOCALHOST)
            session = DirectSession(
                options, DeviceMgr(devices), self.deregister, f"direct{os.urandom(8).hex()}"
            )
            self._sessions.add(session)
        return session

    def _check_metadata(self, metadata: SessionMetadata | None) -> None:
        if metadata is None:
            return
        if metadata.version < 0:
            raise InvalidArgumentError(f"Session version shouldn't be negative: {metadata}")
        if any(session.options.session_metadata == metadata for session in self._sessions):
            raise InvalidArgumentError(
                f"A session with the same name and version has already been created: {metadata}"
            )

    def deregister(self, session: DirectSession) -> None:
        """Remove a session that closes."""
        with self._lock:
            self._sessions.discard(session)

    def sessions(self) -> list[DirectSession]:
        """The open sessions."""
        with self._lock:
            return list(self._sessions)

    async def reset(self, options: SessionOptions, containers: Sequence[str]) -> None:
        """Abort all sessions of this process: cancel their steps, and drop the containers.

        Their other resources are released when their owners close them.
        """
        here = asyncio.get_running_loop()
        for session in self.sessions():
            if session.loop is here:
                self._abort(session, containers)
            elif not session.loop.is_closed():
                session.loop.call_soon_threadsafe(self._abort, session, containers)

    def _abort(self, session: DirectSession, containers: Sequence[str]) -> None:
        session.about_to_close()
        session.steps.cancel(SessionClosedError("Session has been closed: all sessions were reset"))
        session.device_mgr.clear_containers(containers)
