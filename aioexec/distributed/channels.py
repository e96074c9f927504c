"""How a session reaches its server: by a call where that is in the same loop, else by the fast path or by gRPC.

Each session has a channel of its own, which ends with it and notices a server that has frozen. gRPC itself lets channels to
one address share a connection.
"""

from __future__ import annotations

from aioexec.distributed.liveness import watched
from aioexec.distributed.local import local_channel
from aioexec.distributed.settings import Liveness
from aioexec.distributed.transport import Channel


def channel_to(address: str) -> Channel:
    """A channel to the server at an address; whoever asked closes it."""
    local = local_channel(address)
    if local is not None:
        return local
    from aioexec.distributed.negotiated_transport import NegotiatedTransport  # loads grpc

    return watched(NegotiatedTransport().channel(address), Liveness())
