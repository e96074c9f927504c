"""Hostile bytes on the fast path: mutants of what its clients and servers send.

One seed is a batch. Most mutants are parsed as frames, within bounds of time and memory (`mutants.bounded`), and the events are
converted to payloads, as in a connection. Others are sent to a whole connection of either side, in memory: a call may only fail
with a canonical error, no handler may run before the other side has proved the token, and a valid connection must be served
afterwards. Occasionally one is sent to a listener over a socket, and a valid channel must be served then.

    python -m tests.campaigns.frames --count 10000
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, NamedTuple

import numpy as np

from aioexec.distributed.security.proofs import CLIENT, SERVER, prove
from aioexec.distributed.security.security import Security
from aioexec.distributed.transport.answers import Answer
from aioexec.distributed.transport.fast import frames
from aioexec.distributed.transport.fast.answering import AnsweringConnection
from aioexec.distributed.transport.fast.calling import CallingConnection
from aioexec.distributed.transport.fast.connection import payload_of
from aioexec.distributed.transport.fast.events import Failure, Parts
from aioexec.distributed.transport.fast.frames import Reader
from aioexec.distributed.transport.fast.outbox import Outbox
from aioexec.distributed.transport.fast.tensors import write
from aioexec.distributed.transport.methods import METHODS
from aioexec.distributed.transport.negotiated_transport import NegotiatedTransport
from aioexec.distributed.transport.settings import Limits
from aioexec.distributed.transport.status import error_from
from aioexec.distributed.transport.transport import Call, Payload
from aioexec.errors import DataLossError, OpError
from aioexec.formats.protos import RunStepRequest, RunStepResponse
from aioexec.formats.tensor_codec import encode_tensor
from tests.campaigns import campaign
from tests.campaigns.mutants import NUMBERS, bounded, mutant
from tests.distributed.memory_stream import MemoryStream

READ: Final = 80  # mutants of one seed
ANSWERED: Final = 10
CALLED: Final = 10
SOCKET_EVERY: Final = 50  # seeds

RUN_STEP: Final = "MasterService/RunStep"
_TOKEN: Final = "a token"
_LIMITS: Final = Limits()
_CALLS: Final = range(1, 8)  # whose replies a client awaits


def case(seed: int) -> str | None:
    """Run one batch; return what was wrong with it."""
    return _target().batch(seed)


class Target:
    """Connections in memory, and a listener at a port, on a loop of their own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(self._note)
        self._unhandled: list[str] = []
        self._transport = NegotiatedTransport(Security())
        self._listener: Any = self._loop.run_until_complete(self._listen())

    def _note(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._unhandled.append(f"{context['message']}: {context.get('exception')!r}")

    async def _listen(self) -> Any:
        listener = self._transport.listener("127.0.0.1:0", {RUN_STEP: echo})
        await listener.start()
        return listener

    def close(self) -> None:
        self._loop.run_until_complete(self._listener.stop())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def batch(self, seed: int) -> str | None:
        random = Random(seed)
        for count, check in ((READ, _read), (ANSWERED, self._answered), (CALLED, self._called)):
            for _ in range(count):
                wrong = check(random)
                if wrong is not None:
                    return wrong
        if seed % SOCKET_EVERY == 0:
            return self._loop.run_until_complete(self._over_a_socket(random))
        return None

    def _answered(self, random: Random) -> str | None:
        token = random.choice((None, _TOKEN))
        data = _hostile(random, CLIENT_FRAMES if random.random() < 0.8 else GREETINGS)
        return self._within(lambda: self._answer(random, token, data), data)

    def _called(self, random: Random) -> str | None:
        token = random.choice((None, _TOKEN))
        data = _hostile(random, SERVER_FRAMES if random.random() < 0.8 else WELCOMES)
        return self._within(lambda: self._call(random, token, data), data)

    def _within(self, begin: Callable[[], Any], data: bytes) -> str | None:
        found: list[str | None] = []
        wrong = bounded(lambda: found.append(self._loop.run_until_complete(begin())), (), len(data))
        wrong = wrong or found[-1] or (self._unhandled.pop() if self._unhandled else None)
        return wrong and f"{wrong}: {data[:300]!r}"

    async def _answer(self, random: Random, token: str | None, data: bytes) -> str | None:
        """Send bytes to the side that answers, as a client that may know the token."""
        is_admitted = token is None or random.random() < 0.7
        ran: list[str] = []
        hostile = _Answering(token, ran)
        if is_admitted:
            hostile.admit()
        hostile.stream.send(data, _most(random, data))
        await _turns()
        if ran and not hostile.is_known:
            return f"{ran} ran before the other side was known"
        hostile.stream.leave()
        good = _Answering(token, ran)
        good.admit()
        ran.clear()
        good.stream.send(GOOD_REQUEST)
        await _turns()
        good.stream.leave()
        await _turns()
        if ran != [RUN_STEP] or hostile.left:
            return f"a good request ran {ran}, {hostile.left} left"
        return None

    async def _call(self, random: Random, token: str | None, data: bytes) -> str | None:
        """Send bytes to the side that calls, as a server that may know the token."""
        connection = CallingConnection("nowhere:1", _LIMITS, token)
        stream = MemoryStream(connection)
        greeted = asyncio.ensure_future(connection.greet(7))
        await asyncio.sleep(0)
        is_proved = token is None or random.random() < 0.8
        if is_proved:
            stream.send(_welcome(token, bytes(stream.written)))
            await greeted
        reported: list[Any] = []
        under_way = [
            asyncio.ensure_future(
                connection.call(method, payload, None, reported.append if follows else None)
            )
            for method, payload, follows in CALLS
        ]
        posted: asyncio.Future[Any] = self._loop.create_future()
        connection.post(*CALLS[0][:2], posted.set_result)
        await asyncio.sleep(0)
        stream.send(data, _most(random, data))
        await _turns()
        stream.leave()
        if not is_proved and not await _failed(greeted):
            return "a server that does not know the token was believed"
        for each in under_way:
            try:
                await each
            except OpError:
                pass
            except Exception as error:
                return f"a call raised {error!r}"
        if not isinstance(came := await posted, OpError | Payload):
            return f"what was posted came to {came}"
        return None

    async def _over_a_socket(self, random: Random) -> str | None:
        """Send a listener bytes over a socket; then a channel must be served."""
        fast = self._listener._fast
        reader, writer = await asyncio.open_connection("127.0.0.1", fast.port)
        writer.write(frames.greeting(frames.VERSION, fast.number, bytes(32)))
        await reader.readexactly(len(frames.welcome()))
        writer.write(_hostile(random, CLIENT_FRAMES))
        try:
            await asyncio.wait_for(writer.drain(), 1)
            writer.write_eof()
        except OSError:
            pass  # it was closed already
        writer.transport.abort()
        channel = self._transport.channel(self._listener.address)
        try:
            reply = await channel.call(RUN_STEP, _step(np.arange(3.0)))
        except OpError as error:
            return f"a good call failed: {error!r}"
        finally:
            await channel.close()
        return None if reply.tensors[0].tolist() == [0, 1, 2] else f"a good call came to {reply.tensors}"


def _read(random: Random) -> str | None:
    """Have a reader read mutants, and make of them what connections do."""
    is_client = random.random() < 0.5
    data = _hostile(random, CLIENT_FRAMES if is_client else SERVER_FRAMES)
    most = _most(random, data)

    def read() -> None:
        reader = Reader(_LIMITS.message_bytes, _LIMITS.tensor_bytes, _CALLS)
        reader.kinds = frames.BY_CLIENT if is_client else frames.BY_SERVER
        view = memoryview(data)
        while view:
            buffer = reader.buffer()
            count = min(len(buffer), len(view), most)
            buffer[:count] = view[:count]
            view = view[count:]
            for event in reader.parse(count):
                if isinstance(event, Failure):
                    error_from(event.code, event.message, event.payloads)
                elif isinstance(event, Parts) and event.refused is None:
                    _made(event)

    wrong = bounded(read, (DataLossError,), len(data))
    return wrong and f"{'client' if is_client else 'server'}: {wrong}: {data[:300]!r}"


def _made(parts: Parts) -> None:
    described = METHODS.get(parts.method or RUN_STEP)
    if described is None:
        return
    kind, field = (
        (described.request, described.sent) if parts.method else (described.response, described.received)
    )
    try:
        payload_of(parts.values(), parts, kind, field, _LIMITS)
    except OpError as error:
        if isinstance(error, DataLossError) and "out of memory" in error.message:
            raise


class _Answering:
    """A connection of the side that answers, with a client in memory."""

    def __init__(self, token: str | None, ran: list[str]) -> None:
        self.is_known = False
        self._token = token
        self._tasks: set[asyncio.Task[None]] = set()
        self._answers: set[Answer] = set()
        handlers = {method: _noting(method, ran) for method in METHODS}
        connection = AnsweringConnection(
            "peer",
            handlers,
            _LIMITS,
            lambda *_: None,
            token,
            self._tasks,
            self._answers,
            lambda _: None,
            self._know,
            lambda _: None,
        )
        self.stream = MemoryStream(connection)

    def _know(self, connection: AnsweringConnection) -> None:
        self.is_known = True

    @property
    def left(self) -> int:
        """How many calls are under way."""
        return len(self._tasks) + len(self._answers)

    def admit(self) -> None:
        """Behave as a client that has the token."""
        nonce = bytes(32)
        self.stream.send(frames.greeting(frames.VERSION, 7, nonce))
        if self._token is not None:
            theirs = bytes(self.stream.written)[13:45]
            self.stream.send(frames.proof(prove(self._token, CLIENT, nonce, theirs)))
        assert self.is_known


def _welcome(token: str | None, greeting: bytes) -> bytes:
    """The reply to a greeting of a server that has the token, except the proof it waits for."""
    if token is None:
        return frames.welcome()
    nonce, theirs = bytes(32), greeting[-32:]
    return frames.challenge(nonce, prove(token, SERVER, theirs, nonce)) + frames.welcome()


async def _failed(greeted: asyncio.Future[None]) -> bool:
    try:
        await greeted
    except OpError:
        return True
    return False


async def _turns() -> None:
    """Let what has begun go on, as far as it goes without more bytes."""
    for _ in range(8):
        await asyncio.sleep(0)


def _noting(method: str, ran: list[str]) -> Any:
    async def handle(request: Payload, call: Call) -> Payload:
        ran.append(method)
        if method == RUN_STEP:
            return await echo(request, call)
        if call.notify is not None:
            call.notify(Payload(METHODS[method].response()))
        return Payload(METHODS[method].response())

    return handle


async def echo(request: Payload, call: Call) -> Payload:
    """Fetch what was fed, as far as there are tensors for it."""
    reply = RunStepResponse()
    for feed in request.message.feed[: len(request.tensors)]:
        reply.tensor.add(name=feed.name)
    return Payload(reply, [each for each in request.tensors if each is not None])


def _step(*arrays: Any) -> Payload:
    request = RunStepRequest(session_handle="handle", fetch=["y:0"])
    for index in range(len(arrays)):
        request.feed.add(name=f"x{index}:0")
    return Payload(request, arrays)


class _Calling(NamedTuple):
    method: str
    payload: Payload
    follows: bool


CALLS: Final = (
    _Calling(RUN_STEP, _step(np.arange(3.0)), False),
    _Calling("Peer/Push", Payload(METHODS["Peer/Push"].request()), True),
    _Calling("WorkerService/RecvTensor", Payload(METHODS["WorkerService/RecvTensor"].request()), False),
    _Calling("MasterService/RunCallable", Payload(METHODS["MasterService/RunCallable"].request()), False),
)


def _hostile(random: Random, corpus: Sequence[bytes]) -> bytes:
    """Return a few frames, of which one or all are mutants; or one whose numbers are far from what they count."""
    kind = random.random()
    if kind < 0.6:
        data = mutant(random, corpus)
    elif kind < 0.9:
        data = b"".join(random.choices(corpus, k=random.choice((1, 3, 20)))) + mutant(random, corpus)
    else:
        data = _many(random)
    return data + random.choice(corpus) if random.random() < 0.3 else data


def _most(random: Random, data: bytes) -> int:
    """Return how many bytes arrive at once; not too few of much."""
    return max(random.choice((1 << 20, 1 << 20, 700, 13)), len(data) // 1000)


def _many(random: Random) -> bytes:
    """A frame with very many tensors, of few bytes each, or one whose tensor has a shape of hostile numbers."""
    call, kind = random.choice(_CALLS), random.choice((frames.REQUEST, frames.REPLY, frames.NOTIFICATION))
    first = (
        b"" if kind != frames.REQUEST else frames._REQUEST.pack(math.inf, len(RUN_STEP)) + RUN_STEP.encode()
    )
    if random.random() < 0.1:
        count = random.choice((1000, 20_000, 800_000))
        header = random.choice((write(None)[0], b"".join(map(bytes, write(np.zeros(0, np.int8))))))
        body = (
            first + frames._PARTS.pack(0, count) + header * min(count, frames.MOST_FRAME // len(header) - 10)
        )
    else:
        dims = [random.choice(NUMBERS) % (1 << 63) for _ in range(random.choice((0, 1, 2, 3, 64, 65)))]
        length = random.choice((math.prod(dims) * 4, math.prod(dims), random.choice(NUMBERS))) % (1 << 64)
        number = random.choice((1, 3, 7, 7, 9, 10, 20, 21, 200))
        header = bytes((number, len(dims))) + length.to_bytes(8, "little")
        header += b"".join(each.to_bytes(8, "little") for each in dims)
        body = first + frames._PARTS.pack(0, random.choice((1, 2, 2**32 - 1))) + header + random.randbytes(16)
    return frames._HEAD.pack(len(body), kind, call) + body


def _sent(call: int, frame_and_stream: tuple[bytes, frames.Stream]) -> bytes:
    """The bytes of a frame and the chunks that follow it."""
    frame, stream = frame_and_stream
    outbox = Outbox()
    if stream:
        outbox.add(call, stream)
    pieces = [frame]
    while outbox:
        head, chunk = outbox.next()
        pieces += (head, bytes(chunk))
    return b"".join(pieces)


def _values() -> list[list[Any]]:
    """Tensors of one message, of each kind that travels in its own way."""
    strings = np.array([b"", b"abc", b"x" * 200], object)
    return [
        [],
        [np.arange(3.0, dtype=np.float32)],
        [np.array([True, False]), strings],
        [np.zeros((2, 0, 3), np.int64), np.complex128(1j)],
        [None, np.arange(5, dtype=np.uint8)],
        [np.zeros(70_000, np.uint8)],
        [np.array([b"y" * 70_000], object), np.zeros((300, 300), np.float64)],
    ]


def _client_frames() -> list[bytes]:
    made = [frames.cancel(1), frames.closing("bye"), frames.cancel(99)]
    for call, tensors in enumerate(_values(), 1):
        message = _step(*tensors).message.SerializeToString()
        timeout = math.inf if call % 2 else 1.5
        made.append(_sent(call, frames.request(call, timeout, RUN_STEP, message, [*map(write, tensors)])))
    inside = RunStepRequest()
    inside.feed.add(name="x:0").tensor.CopyFrom(encode_tensor(np.arange(4)))
    made.append(_sent(9, frames.request(9, math.inf, RUN_STEP, inside.SerializeToString(), [])))
    for call, method in enumerate(METHODS, 20):
        made.append(_sent(call, frames.request(call, math.inf, method, b"", [])))
    made.append(_sent(50, frames.request(50, math.inf, RUN_STEP, b"\x0a\x03abc" * 20_000, [])))
    return made


def _server_frames() -> list[bytes]:
    made = [frames.closing("bye"), frames.failure(1, 3, "bad", {"type.googleapis.com/x": b"payload"})]
    made += [frames.failure(2, 99, "ä" * 100, {}), frames.welcome()]
    for call, tensors in enumerate(_values(), 1):
        reply = RunStepResponse()
        for _ in tensors:
            reply.tensor.add(name="y:0")
        made.append(_sent(call, frames.reply(call, reply.SerializeToString(), [*map(write, tensors)])))
        if call < 5:
            made.append(frames.notification(2, b"", [*map(write, tensors)]))
    return made


CLIENT_FRAMES: Final = _client_frames()
SERVER_FRAMES: Final = _server_frames()
GREETINGS: Final = [
    frames.greeting(frames.VERSION, 7, bytes(32)),
    frames.proof(bytes(32)),
    *CLIENT_FRAMES[:4],
]
WELCOMES: Final = [frames.welcome(), frames.challenge(bytes(32), bytes(32)), *SERVER_FRAMES[:4]]
GOOD_REQUEST: Final = CLIENT_FRAMES[4]

_made_targets: list[Target] = []


def _target() -> Target:
    """The target of this process, made at its first use."""
    if not _made_targets:
        _made_targets.append(Target())
    return _made_targets[0]


if __name__ == "__main__":
    raise SystemExit(campaign.main(case))
