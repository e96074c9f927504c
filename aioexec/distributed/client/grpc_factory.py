"""The session factory for targets "grpc://host:port"; the modules of these sessions are imported at first use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aioexec.errors import InvalidArgumentError
from aioexec.sessions import factory
from aioexec.sessions.factory import SessionFactory
from aioexec.sessions.options import SessionOptions

if TYPE_CHECKING:
    from aioexec.distributed.client.grpc_session import GrpcSession

RUNTIME_TYPE = "GRPC_SESSION"
SCHEME = "grpc://"


def register_grpc_sessions() -> None:
    """Register the factory; repeated calls have no effect."""
    if not factory.is_registered(RUNTIME_TYPE):
        factory.register(RUNTIME_TYPE, GrpcSessionFactory())


class GrpcSessionFactory(SessionFactory):
    """The session factory for targets "grpc://host:port"."""

    def accepts_options(self, options: SessionOptions) -> bool:
        """Whether the target begins with "grpc://".

        Raises:
            InvalidArgumentError: the target begins with it, but has no address.
        """
        return options.target.startswith(SCHEME) and bool(address_of(options.target))

    def new_session(self, options: SessionOptions) -> GrpcSession:
        """A new session; the server creates its session at the first run."""
        from aioexec.distributed.client.grpc_session import GrpcSession
        from aioexec.distributed.transport.channels import channel_to

        return GrpcSession(options, channel_to(address_of(options.target)))

    async def reset(self, options: SessionOptions, containers: Sequence[str]) -> None:
        """Close all sessions of all clients of a server and clear these containers; waits until the server is reachable.

        Raises:
            DeadlineExceededError: no reply within `operation_timeout_in_ms`.
        """
        from aioexec.distributed.client.master_client import MasterClient
        from aioexec.distributed.transport.channels import channel_to

        channel = channel_to(address_of(options.target))
        try:
            await MasterClient(channel).reset(options, containers)
        finally:
            await channel.close()


def address_of(target: str) -> str:
    """The "host:port" of a target.

    Raises:
        InvalidArgumentError: the target has no address.
    """
    address = target.removeprefix(SCHEME)
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise InvalidArgumentError(f"expected a target {SCHEME}host:port, got {target!r}")
    return address
