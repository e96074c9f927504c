"""The kernels of a device: one for each node of each session that holds the segment, made once.

So a stateful kernel (the counter of a random op, the queue of a node) is the same in every signature of a session.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import field

from aioexec.data_classes import dataclass
from aioexec.errors import NotFoundError
from aioexec.graph.kernels.kernel import Compute

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Held:
    """The kernels of one session by node name, and how often the session is held.

    The lock `making` is held while a kernel is made, so that two planners never make one node's kernel twice; it is reentrant,
    since a kernel may make others.
    """

    holds: int = 0
    kernels: dict[str, Compute] = field(default_factory=dict)
    making: threading.RLock = field(default_factory=threading.RLock)


class OpSegment:
    """Kernels by session handle and node name; thread-safe. `_lock` guards `_sessions` and the counts of holds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: dict[str, _Held] = {}

    def add_hold(self, session: str) -> None:
        """Increment the holds of a session; its kernels are kept while there are any."""
        with self._lock:
            self._sessions.setdefault(session, _Held()).holds += 1

    def remove_hold(self, session: str) -> None:
        """Decrement the holds of a session; the last one drops its kernels."""
        with self._lock:
            held = self._sessions.get(session)
            if held is None:
                logger.warning("session %s holds no kernels", session)
                return
            held.holds -= 1
            if held.holds == 0:
                del self._sessions[session]

    def find_or_create(self, session: str, node_name: str, create: Callable[[], Compute]) -> Compute:
        """The kernel of a node, made by `create` at its first use; a failure is not cached.

        Raises:
            NotFoundError: the session does not hold the segment.
        """
        held = self._sessions.get(session)
        if held is None:
            raise NotFoundError(f"Session {session} is not found: node {node_name!r} cannot have a kernel")
        kernel = held.kernels.get(node_name)
        if kernel is None:
            with held.making:
                kernel = held.kernels.get(node_name)
                if kernel is None:
                    kernel = held.kernels[node_name] = create()
        return kernel
