"""The factory of sessions on servers: targets "grpc://host:port". It loads what they need only when one is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aioexec.sessions import factory
from aioexec.sessions.factory import SessionFactory
from aioexec.sessions.options import SessionOptions

if TYPE_CHECKING:
    from aioexec.distributed.grpc_session import GrpcSession

RUNTIME_TYPE = "GRPC_SESSION"
SCHEME = "grpc://"


def register_grpc_sessions() -> None:
    """Let sessions with a target "grpc://host:port" be made; again does no harm."""
    if not factory.is_registered(RUNTIME_TYPE):
        factory.register(RUNTIME_TYPE, GrpcSessionFactory())


class GrpcSessionFactory(SessionFactory):
    """Makes sessions on servers."""

    def accepts_options(self, options: SessionOptions) -> bool:
        return options.target.startswith(SCHEME)

    def new_session(self, options: SessionOptions) -> GrpcSession:
        """A new session; the server learns of it when there is something to run.

        Raises:
            InvalidArgumentError: the target is no address.
        """
        from aioexec.distributed.channels import address_of, channel_to
        from aioexec.distributed.grpc_session import GrpcSession

        return GrpcSession(options, channel_to(address_of(options.target, SCHEME)))

    async def reset(self, options: SessionOptions, containers: Sequence[str]) -> None:
        """Have a server end all its sessions, whoever made them, and drop these containers; waits for a server that is not there.

        Raises:
            InvalidArgumentError: the target is no address.
            DeadlineExceededError: the server did not do so within `operation_timeout_in_ms`.
        """
        from aioexec.distributed.channels import address_of, channel_to
        from aioexec.distributed.master_client import MasterClient

        channel = channel_to(address_of(options.target, SCHEME))
        try:
            await MasterClient(channel).reset(options, containers)
        finally:
            await channel.close()
