"""The sessions of a master, by handle, and the collection of abandoned ones.

A client that vanishes sends nothing. Its steps end with its connection; its session is kept long enough for the client to
reconnect, and is then collected. A session without a step for very long is collected too, like TensorFlow's
`session_gc_seconds`, since not every transport reports the end of a connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aioexec.data_classes import dataclass
from aioexec.distributed.master.master_session import MasterSession
from aioexec.distributed.transport.settings import Collection


@dataclass(slots=True)
class _Entry:
    """One session. `peer` made the last call, at `used_at`; `is_orphan`: its connection has ended."""

    session: MasterSession
    peer: str
    used_at: float
    is_orphan: bool = False


class SessionTable:
    """Sessions by handle.

    Args:
        collection: when a session is collected.
        collect: called with each collected session, after it was removed from the table.

    `_timer` is set while there is a session that may have to be collected.
    """

    def __init__(self, collection: Collection, collect: Callable[[MasterSession], None]) -> None:
        self._collection = collection
        self._collect = collect
        self._entries: dict[str, _Entry] = {}  # by session handle
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, session: MasterSession, peer: str) -> None:
        """Add a session created by `peer`."""
        now = asyncio.get_running_loop().time()
        self._entries[session.session_handle] = _Entry(session, peer, now)
        self._watch()

    def find(self, handle: str, peer: str) -> MasterSession | None:
        """The session of a handle, and record its use by `peer`."""
        entry = self._entries.get(handle)
        if entry is None:
            return None
        entry.peer = peer
        entry.is_orphan = False
        entry.used_at = asyncio.get_running_loop().time()
        return entry.session

    def pop(self, handle: str) -> MasterSession | None:
        """Remove a session that ends."""
        entry = self._entries.pop(handle, None)
        if not self._entries:
            self._watch()
        return None if entry is None else entry.session

    def pop_all(self) -> list[MasterSession]:
        """Remove all sessions."""
        entries, self._entries = self._entries, {}
        self._watch()
        return [entry.session for entry in entries.values()]

    def on_peer_gone(self, peer: str) -> None:
        """Record that a connection has ended: sessions last used over it become orphans."""
        now = asyncio.get_running_loop().time()
        for entry in self._entries.values():
            if entry.peer == peer and not entry.is_orphan:
                entry.is_orphan = True
                entry.used_at = now
        self._watch()

    def _expiry(self, entry: _Entry) -> float | None:
        kept = self._collection.orphaned if entry.is_orphan else self._collection.idle
        return None if kept is None else entry.used_at + kept

    def _watch(self) -> None:
        """Set the timer to the time when the next session may expire."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        times = [at for entry in self._entries.values() if (at := self._expiry(entry)) is not None]
        if times:
            self._timer = asyncio.get_running_loop().call_at(min(times), self._collect_expired)

    def _collect_expired(self) -> None:
        now = asyncio.get_running_loop().time()
        for handle, entry in list(self._entries.items()):
            at = self._expiry(entry)
            if at is None or at > now:
                continue
            if entry.session.steps.life.under_way:
                entry.used_at = now
            else:
                del self._entries[handle]
                self._collect(entry.session)
        self._watch()
