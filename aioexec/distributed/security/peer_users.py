"""The user that owns the other end of a connection within this machine.

A listener on the loopback interface without a token admits processes of its own user and of root only. A Unix socket reports
the user of the process at its other end (SO_PEERCRED). For a TCP connection on loopback, Linux reports it through
NETLINK_SOCK_DIAG, by the four numbers that identify the connection, in about 10 µs. Other systems cannot distinguish users;
there all users of the machine are admitted, and the listener logs it once.

All functions are synchronous and do not block; any thread may call them.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
import struct
import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

_log = logging.getLogger(__name__)

_ROOT: Final = 0
_PEER_CREDENTIALS: Final = struct.Struct("=iII")  # struct ucred: process, user, group

# From linux/netlink.h, linux/sock_diag.h and linux/inet_diag.h
_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_NLM_F_REQUEST: Final = 1
_NLMSG_HEADER: Final = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_REQUEST: Final = struct.Struct("=BBBxI")  # family, protocol, extensions, states
_PORTS: Final = struct.Struct(">HH")  # source, destination; big-endian as on the wire
_ANY_INTERFACE: Final = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)  # interface, cookie: any
_ADDRESS_BYTES: Final = 16
_ALL_STATES: Final = 0xFFFFFFFF
_ESTABLISHED: Final = 1
"""Only sockets in this state count: for a socket that its process has closed, user 0 is reported."""
_STATE_AT: Final = _NLMSG_HEADER.size + 1
_USER_AT: Final = _NLMSG_HEADER.size + 4 + 48 + 12  # after four bytes, the identity and three counters

Address = tuple[str, int]
"""A numeric IP address and a port."""


def is_trusted(user: int) -> bool:
    """Whether processes of a user have the rights of this process: its own user and root."""
    return user in (os.geteuid(), _ROOT)


def admits_local(descriptor: int) -> bool:
    """Whether the process at the other end of a Unix socket belongs to a trusted user; False if the system cannot report it."""
    if not hasattr(socket, "SO_PEERCRED"):
        return False
    with socket.socket(fileno=os.dup(descriptor)) as local:
        credentials = local.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
    return is_trusted(_PEER_CREDENTIALS.unpack(credentials)[1])


def admits_tcp(peer: Address, hosts: Iterable[str], port: int) -> bool:
    """Whether the end `peer` of a TCP connection to a port of one of these loopback addresses belongs to a trusted user.

    False also if the connection does not exist any more, or if another user owns one of several that `peer` has to these
    addresses. True if the system cannot distinguish users.
    """
    caller = _normal(peer[0]), peer[1]
    try:
        users = [_user_of_tcp(caller, (_normal(host), port)) for host in hosts]
    except _UnknownUserError:
        _warn_once()
        return True
    found = [user for user in users if user is not None]
    return bool(found) and all(map(is_trusted, found))


class _UnknownUserError(Exception):
    """The system has no NETLINK_SOCK_DIAG."""


@lru_cache(1)
def _warn_once() -> None:
    _log.warning("this system does not distinguish users: every user of this machine is admitted on loopback")


def _normal(host: str) -> str:
    """An address in its own family: an IPv4-mapped IPv6 address as IPv4."""
    found = ipaddress.ip_address(host.partition("%")[0])
    return str(getattr(found, "ipv4_mapped", None) or found)


def _user_of_tcp(peer: Address, own: Address) -> int | None:
    """The user of the open socket that is bound to `peer` and connected to `own`; None if there is none.

    Raises:
        _UnknownUserError: the system does not support the query.
    """
    if sys.platform != "linux":
        raise _UnknownUserError
    if (":" in peer[0]) != (":" in own[0]):
        return None
    family = socket.AF_INET6 if ":" in peer[0] else socket.AF_INET
    identity = (
        _PORTS.pack(peer[1], own[1])
        + socket.inet_pton(family, peer[0]).ljust(_ADDRESS_BYTES, b"\0")
        + socket.inet_pton(family, own[0]).ljust(_ADDRESS_BYTES, b"\0")
    )
    request = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, _ALL_STATES) + identity + _ANY_INTERFACE
    header = _NLMSG_HEADER.pack(_NLMSG_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 0, 0)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as asking:
            asking.setblocking(False)  # the kernel has queued the reply when `send` returns
            asking.send(header + request)
            answer = asking.recv(4096)
    except OSError as error:
        raise _UnknownUserError from error
    _, kind, *_ = _NLMSG_HEADER.unpack_from(answer)
    if kind != _SOCK_DIAG_BY_FAMILY or answer[_STATE_AT] != _ESTABLISHED:
        return None
    user: int = struct.unpack_from("=I", answer, _USER_AT)[0]
    return user


def is_own_address(host: str) -> bool:
    """Whether a numeric address is one of this machine's: tested by binding a socket."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as trying:
            trying.bind((host, 0))
    except OSError:
        return False
    return True
