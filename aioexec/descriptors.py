"""The limit on open connections of a server: each takes one of the process's file descriptors."""

from __future__ import annotations

import resource
from typing import Final

MOST_CONNECTIONS: Final = 4096


def most_connections() -> int:
    """MOST_CONNECTIONS, or half of the process's limit on descriptors if that is less."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return min(MOST_CONNECTIONS, descriptors // 2)
