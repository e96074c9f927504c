"""Sockets of the fast path: a TCP port for all clients, and a Unix socket for the processes of this machine.

Between two processes of one machine a Unix socket costs about half of what TCP does. Its name is abstract: it has no file and
ends with the socket, and only processes in the same network namespace can connect to it.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from typing import Any, Final

from aioexec.distributed.security.peer_users import admits_local
from aioexec.errors import UnavailableError

_HAS_NAMES: Final = sys.platform == "linux"
_MOST_CONNECTING: Final = 128


def local_socket(number: int) -> socket.socket | None:
    """A listening Unix socket, named by this number; None if the system has no abstract sockets."""
    return _socket_here(lambda each: _listening(each, _name(number)))


def local_connection(number: int) -> socket.socket | None:
    """A socket connected to the Unix socket of a trusted user; None if there is none, or it accepts no connection now.

    The name is not protected: any process may listen at it. The system reports its owner (see `peer_users`).
    """
    made = _socket_here(lambda each: each.connect(_name(number)))
    if made is not None and not admits_local(made.fileno()):
        made.close()
        return None
    return made


def _name(number: int) -> str:
    return f"\0aioexec/{number:016x}"


def _socket_here(begin: Callable[[socket.socket], None]) -> socket.socket | None:
    if not _HAS_NAMES:
        return None
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.setblocking(False)
    try:
        begin(made)
    except OSError:
        made.close()
        return None
    return made


def _listening(made: socket.socket, address: Any) -> None:
    made.bind(address)
    made.listen(_MOST_CONNECTING)
    made.setblocking(False)


def listening_socket(host: str) -> socket.socket:
    """Open a listening socket at a free port of an interface.

    Raises:
        UnavailableError: cannot listen at the interface.
    """
    try:
        found: list[Any] = socket.getaddrinfo(
            host or None, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise UnavailableError(f"cannot listen at {host}: {error}") from error
    try:
        _listening(bound, address)
    except OSError as error:
        bound.close()
        raise UnavailableError(f"cannot listen at {host}: {error}") from error
    return bound
