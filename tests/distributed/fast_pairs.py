"""Listeners and channels of the fast path, over real sockets of the loopback interface."""

import asyncio
import contextlib
import struct

from aioexec.distributed.security.proofs import new_nonce
from aioexec.distributed.security.security import Security
from aioexec.distributed.transport.fast import frames
from aioexec.distributed.transport.negotiated_transport import NegotiatedTransport
from aioexec.distributed.transport.transport import Payload
from aioexec.formats.protos import RecvTensorResponse
from tests.distributed.grpc_pairs import Pairs, echo

RECV = "WorkerService/RecvTensor"
MIB = 1 << 20


class FastPairs(Pairs):
    """Pairs that negotiate. `gone` are the peers that listeners have lost."""

    def __init__(self):
        super().__init__()
        self.gone = []

    def transport(self, security=None, limits=None):
        return Telling(self.gone, security or Security(), limits)


class Telling(NegotiatedTransport):
    """Notes which peers its listeners have lost."""

    def __init__(self, gone, security, limits):
        super().__init__(security, limits)
        self._gone = gone

    def listener(self, address, handlers, on_peer_gone=None):
        return super().listener(address, handlers, self._gone.append)


class Peers:
    """A handler that echoes, and records its callers."""

    def __init__(self):
        self.peers = []

    async def __call__(self, request, call):
        self.peers.append(call.peer)
        return await echo(request, call)

    @property
    def ways(self):
        return [peer.partition(":")[0] for peer in self.peers]


def recv_of(array):
    async def recv(request, call):
        return Payload(RecvTensorResponse(), [array])

    return recv


def moved(listener, port):
    """Make a listener announce itself as another one, at this port of another machine."""
    listener._fast.port = port
    listener._fast.number ^= 1


@contextlib.asynccontextmanager
async def greeted(listener):
    """A bare socket that a listener without a token takes for a peer."""
    fast = listener._fast
    reader, writer = await asyncio.open_connection("127.0.0.1", fast.port)
    writer.write(frames.greeting(frames.VERSION, fast.number, new_nonce()))
    await reader.readexactly(len(frames.welcome()))
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


class Noting:
    """A transport that notes the kinds of the frames that leave together."""

    def __init__(self, transport):
        self.kinds = []
        self._transport = transport

    def write(self, data):
        self.kinds.append([])
        at = 0
        while at < len(data):
            length, kind = struct.unpack_from("<IB", data, at)
            self.kinds[-1].append(kind)
            at += 13 + length
        self._transport.write(data)

    def __getattr__(self, name):
        return getattr(self._transport, name)
