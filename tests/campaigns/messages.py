"""Hostile messages to a server: mutants of the serialized requests of every method of masters and workers.

One seed is a batch. A program with variables, feeds, a callable and a partial run on two tasks runs on a cluster in memory, and
the messages between its tasks are recorded. Mutants of these messages are decoded within bounds of time and memory
(`mutants.bounded`), and mutants of requests passed to the handlers of a task, in virtual time. A call may wait, or fail with a
canonical error; the program of the next batch must not be affected.

    python -m tests.campaigns.messages --count 10000
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError

import aioexec as ax
from aioexec.distributed.transport.memory.network import AS_USUAL, Fate, Message
from aioexec.distributed.transport.message_codec import decode, encode
from aioexec.distributed.transport.methods import METHODS
from aioexec.distributed.transport.settings import Limits
from aioexec.distributed.transport.transport import Call, Handler, Payload
from aioexec.distributed.transport.variant_codec import variant_from_proto, variant_to_proto
from aioexec.errors import (
    InternalError,
    InvalidArgumentError,
    OpError,
    ResourceExhaustedError,
    UnknownError,
)
from aioexec.formats.protos import CallableOptions, TensorProto
from aioexec.resources.tensor_list import list_of
from aioexec.testing.cluster import InMemoryCluster
from aioexec.testing.deterministic import DeterministicLoop
from tests.campaigns import campaign
from tests.campaigns.message_mutants import message_mutant
from tests.campaigns.mutants import bounded, mutant

DECODED: Final = 75  # mutants of one seed
VARIANTS_DECODED: Final = 5
HANDLED: Final = 20

_LIMITS: Final = Limits()
_MOST_BATCHES: Final = 100  # of one cluster
_SECONDS: Final = 5.0  # of virtual time, for one call


def case(seed: int) -> str | None:
    """Run one batch; return what was wrong with it."""
    return _target().batch(seed)


class Target:
    """A cluster of two tasks on a loop of its own."""

    def __init__(self) -> None:
        self._loop = DeterministicLoop()
        self._unhandled: list[str] = []
        self._loop.set_exception_handler(self._note)
        config = ax.ConfigProto()
        config.aioexec.jit = "off"
        self._cluster = InMemoryCluster({"worker": 2}, config, bits=Random(1).getrandbits)
        self._run(self._cluster.__aenter__())
        self._program = Program()
        self.batches = 0

    def _note(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._unhandled.append(f"{context['message']}: {context.get('exception')!r}")

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(work)

    def close(self) -> None:
        self._run(self._cluster.__aexit__(None, None, None))
        self._loop.close()

    def batch(self, seed: int) -> str | None:
        self.batches += 1
        return self._run(self._batch(Random(seed)))

    async def _batch(self, random: Random) -> str | None:
        session = self._cluster.session(graph=self._program.graph)
        said: list[Said] = []
        self._cluster.network.fate = partial(_keep, said)
        try:
            wrong = await self._program.run(session)
        except OpError as error:
            wrong = f"the program failed: {error!r}"
        finally:
            self._cluster.network.fate = None
        wrong = wrong or _decoded(random, said) or await self._handled(random, said)
        with suppress(OpError):  # a mutant may have closed it
            await session.close()
        if wrong is None and self._unhandled:
            wrong = self._unhandled.pop()
        return wrong

    async def _handled(self, random: Random, said: Sequence[Said]) -> str | None:
        """Hand mutants of requests to the handlers of the tasks they were for."""
        corpus: dict[str, list[Said]] = {}
        for each in [*(each for each in said if not each.is_reply), *_others(said)]:
            corpus.setdefault(each.method, []).append(each)
        methods = [*corpus, *[each for each in corpus if not each.endswith(_ENDING)] * 12]
        for _ in range(HANDLED):
            method = random.choice(methods)
            one = random.choice(corpus[method])
            server = self._cluster._servers[one.host]
            handlers = {**server.worker.handlers(), **server.master.handlers()}
            others = [each.message() for each in corpus[method]]
            data = message_mutant(random, one.message(), others)
            wrong = await _answered(method, handlers[method], data)
            if wrong is not None:
                return f"{method}: {wrong}: {data[:1000]!r}"
        return None


class Said(NamedTuple):
    """A message between two tasks."""

    method: str
    is_reply: bool
    host: str
    data: bytes

    def message(self) -> Any:
        """The parsed message."""
        described = METHODS[self.method]
        return (described.response if self.is_reply else described.request).FromString(self.data)


class Program:
    """The program that runs on the cluster in each batch."""

    def __init__(self) -> None:
        with ax.Graph().as_default() as self.graph:
            self._x = ax.placeholder(ax.float32, [None, 2], name="x")
            self._text = ax.placeholder(ax.string, name="text")
            with ax.device("/job:worker/task:1"):
                v = ax.Variable([[1.0, 2.0]], name="v")
                self._there = ax.matmul(self._x, v, transpose_b=True)
            with ax.device("/job:worker/task:0"):
                self._here = ax.reduce_sum(self._there * 2.0)
                self._joined = ax.string_join([self._text, self._text])
            self._added = v.assign_add([[1.0, 1.0]])
            self._initialize = ax.global_variables_initializer()

    async def run(self, session: ax.Session) -> str | None:
        """Run it; return what was wrong with its values."""
        feeds = {self._x: np.ones((3, 2), np.float32)}
        await session.run(self._initialize)
        metadata = ax.RunMetadata()
        values = [await session.run(self._here, feeds, ax.RunOptions(trace_level="FULL_TRACE"), metadata)]
        values.append((await session.run(self._joined, {self._text: np.array([b"a"], object)})).tolist())
        handle = await session.partial_run_setup([self._there, self._here], [self._x])
        await session.partial_run(handle, self._there, feeds)
        values.append(await session.partial_run(handle, self._here))
        options = CallableOptions(feed=[self._x.name], fetch=[self._here.name])
        function = await session._make_callable_from_options(options)
        values.append((await function(feeds[self._x]))[0])
        values.append((await session.run(self._added)).tolist())
        await session.list_devices()
        return None if values == [18, [b"aa"], 18, 18, [[2, 3]]] else f"the program came to {values}"


def _keep(said: list[Said], message: Message) -> Fate:
    """Record a message in transit, and let it pass."""
    if message.kind in ("request", "reply") and isinstance(message.content, Payload):
        described = METHODS[message.method]
        is_reply = message.kind == "reply"
        held = message.content.message
        if hasattr(held, "request_id"):
            held.request_id = 0  # the same id twice would be refused, whatever else is in the message
        data = encode(message.content, described.received if is_reply else described.sent)
        said.append(Said(message.method, is_reply, message.target, data))
    return AS_USUAL


def _others(said: Sequence[Said]) -> list[Said]:
    """Requests that the program has not made, for the session, graphs and steps that it has."""
    found = []
    fields: dict[str, Any] = {"graph_handle": "", "step_id": 1, "rendezvous_key": "", "container": [""]}
    for each in said:
        for field, value in each.message().ListFields():
            if field.name in ("session_handle", "graph_handle", "step_id", "rendezvous_key", "handle"):
                fields[field.name] = value
    for method, described in METHODS.items():
        if method.startswith(("MasterService/", "WorkerService/")):
            names = described.request.DESCRIPTOR.fields_by_name
            request = described.request(**{name: value for name, value in fields.items() if name in names})
            found.append(Said(method, False, "worker-0", request.SerializeToString()))
    return found


def _decoded(random: Random, said: Sequence[Said]) -> str | None:
    """Decode mutants of messages, as their receivers do."""
    for _ in range(DECODED):
        each = random.choice(said)
        is_message = random.random() < 0.5
        data = (
            message_mutant(random, each.message(), [each.message()])
            if is_message
            else mutant(random, [each.data])
        )
        described = METHODS[each.method]
        kind, field = (
            (described.response, described.received) if each.is_reply else (described.request, described.sent)
        )
        wrong = bounded(partial(decode, data, kind, field, _LIMITS, each.is_reply), _EXPECTED, len(data))
        if wrong is not None:
            return f"{kind.__name__}: {wrong}: {data[:500]!r}"
    variants = [TensorProto.FromString(each) for each in VARIANTS]
    for _ in range(VARIANTS_DECODED):
        is_message = random.random() < 0.5
        one = random.choice(variants)
        data = message_mutant(random, one, variants) if is_message else mutant(random, VARIANTS)
        wrong = bounded(partial(_variant, data), (DecodeError, *_EXPECTED), len(data))
        if wrong is not None:
            return f"a variant: {wrong}: {data[:500]!r}"
    return None


def _variant(data: bytes) -> None:
    variant_from_proto(TensorProto.FromString(data))


async def _answered(method: str, handler: Handler, data: bytes) -> str | None:
    """Have a handler answer a request; return what is wrong with the answer."""
    described = METHODS[method]
    try:
        payload = decode(data, described.request, described.sent, _LIMITS, False)
    except OpError:
        return None
    try:
        async with asyncio.timeout(_SECONDS):
            reply = await handler(payload, Call("hostile"))
        encode(reply, described.received)
    except TimeoutError:
        return None
    except (UnknownError, InternalError) as error:
        return None if error.message.startswith(_ALLOWED) else f"failed with {error!r}"
    except OpError:
        return None
    except Exception as error:
        return f"raised {error!r}"
    return None


def _variants() -> list[bytes]:
    """Lists of tensors, one of them of lists."""
    inner = list_of(ax.float32, (2,), [np.zeros(2, np.float32), None, np.ones(2, np.float32)])  # type: ignore[list-item]  # None: never set
    box = np.empty((), object)
    box[()] = inner
    boxes = np.empty(2, object)
    boxes[:] = [list_of(ax.variant, None, [box]), inner]
    return [variant_to_proto(each).SerializeToString() for each in (box, boxes)]


_ENDING: Final = (
    "Reset",
    "CloseSession",
    "DeleteWorkerSession",
    "CleanupAll",
    "Logging",
    "Tracing",
    "Status",
    "Finished",
)
_ALLOWED: Final = ("Unable to parse", "Output 0 of type")  # as in TensorFlow
_EXPECTED: Final = (InternalError, InvalidArgumentError, ResourceExhaustedError)
VARIANTS: Final = _variants()

_made_targets: list[Target] = []


def _target() -> Target:
    """The cluster of this process; a new one after some batches, for what mutants have made stays."""
    if _made_targets and _made_targets[0].batches == _MOST_BATCHES:
        _made_targets.pop().close()
    if not _made_targets:
        _made_targets.append(Target())
    return _made_targets[0]


if __name__ == "__main__":
    raise SystemExit(campaign.main(case))
