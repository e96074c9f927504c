"""Calls over gRPC, compatible with TensorFlow's servers and clients: unary, tensors inside the messages.

Calls and listeners raise gRPC's errors, so its own messages on stderr are switched off, unless GRPC_VERBOSITY is set. gRPC
reads that variable once, when it is imported.
"""

from __future__ import annotations

import os
from collections.abc import Callable

os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

from aioexec.distributed.security.security import Security
from aioexec.distributed.transport.grpc.channel import GrpcChannel
from aioexec.distributed.transport.grpc.listener import GrpcListener
from aioexec.distributed.transport.grpc.services import Services, services_of
from aioexec.distributed.transport.settings import Limits
from aioexec.distributed.transport.transport import Handlers, Transport


class GrpcTransport(Transport):
    """Channels and listeners of gRPC.

    Args:
        security: None: from the environment.
        limits: bounds on received messages.
    """

    def __init__(self, security: Security | None = None, limits: Limits | None = None) -> None:
        self.security = Security.from_environment() if security is None else security
        self.limits = limits or Limits()

    def channel(self, address: str) -> GrpcChannel:
        return GrpcChannel(address, self.security, self.limits)

    def listener(
        self, address: str, handlers: Handlers, on_peer_gone: Callable[[str], None] | None = None
    ) -> GrpcListener:
        self.security.check_listening(address)
        return GrpcListener(address, services_of(handlers, self.limits), self.security, self.limits)

    def service_listener(self, address: str, services: Services) -> GrpcListener:
        """A listener of other services than TensorFlow's, for processes of every user of this machine.

        Raises:
            UnavailableError, FailedPreconditionError: see `listener`.
        """
        self.security.check_listening(address)
        return GrpcListener(address, services, self.security, self.limits, admits_all_users=True)
