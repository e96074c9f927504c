"""Mutants of GraphDefs and MetaGraphDefs: each is refused canonically, or imported, exported and imported again, within bounds.

    python -m tests.campaigns.graphs --first 0 --count 100000

The first seeds are extreme graphs, each of the others is one mutant, by bytes or by structure. Accepted ones are planned too,
for a few of their nodes; one in twenty of these runs with a deadline, without bounds on the time and memory of kernels. Mutants
that could write files are not run.

A node of 30 bytes takes some 30 us and 3 KiB, and a listed element of a constant some 100 ns, so the bounds grow with the bytes
of the message and of the constants.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

import aioexec as ax
from aioexec.devices.cpu import ThreadPoolDevice
from aioexec.devices.device import DeviceAttributes
from aioexec.devices.device_set import DeviceSet
from aioexec.devices.threads.workers import Workers
from aioexec.distributed.worker.partition_graphs import import_partition
from aioexec.errors import OpError
from aioexec.formats.protos import GraphDef, MetaGraphDef
from aioexec.formats.repeated import is_one_repeated
from aioexec.graph.node import Operation
from aioexec.planning.pipeline import Planner
from aioexec.sessions.extending import extend_graph
from tests.campaigns import campaign
from tests.campaigns.graph_corpus import graph_defs, meta_graph_defs
from tests.campaigns.graph_extremes import EXTREMES
from tests.campaigns.graph_mutants import mutate, mutate_collections
from tests.campaigns.mutants import MOST_SECONDS, bounded, mutant
from tests.planning.planned import DEVICE, Binder, signature

SECONDS_PER_BYTE = 4e-6  # of a message: half of it for a noisy machine
SECONDS_PER_CONSTANT_BYTE = 1e-7
MEMORY_PER_BYTE = 200
DEADLINE_MS = 2000
ONE_RUN_IN = 20

_Message = GraphDef | MetaGraphDef


def case(seed: int) -> str | None:
    random = Random(seed)
    message = EXTREMES[seed]() if seed < len(EXTREMES) else _mutant(random)
    if message is None:
        return None
    return check(random, message)


def check(random: Random, message: _Message) -> str | None:
    """Import a message in one of the ways there are, and use the graph; return what is wrong, if anything."""
    size = message.ByteSize()
    made: list[ax.Graph] = []
    read = _read_meta_graph if isinstance(message, MetaGraphDef) else random.choice(_READERS)
    found = _within(lambda: made.append(read(message)), size)
    if found is not None or not made:
        return found and f"{read.__name__} {found}"
    graph = made[0]
    constants = _constant_bytes(graph)
    found = _within(lambda: _again(graph), size, constants)
    if found is not None:
        return f"exported and imported again: {found}"
    chosen = _chosen(random, graph)
    found = _within(lambda: _plan(graph, chosen), size, constants)
    if found is not None:
        return f"planning {[op.name[:99] for op in chosen]}: {found}"
    if random.randrange(ONE_RUN_IN) == 0 and not any(_writes_files(op) for op in graph.get_operations()):
        return _runner().run(_run(graph, chosen))
    return None


def _within(call: Callable[[], object], size: int, constants: int = 0) -> str | None:
    seconds = MOST_SECONDS + SECONDS_PER_BYTE * size + SECONDS_PER_CONSTANT_BYTE * constants
    return bounded(call, (OpError,), MEMORY_PER_BYTE * size + 2 * constants, seconds)


def _constant_bytes(graph: ax.Graph) -> int:
    """The memory of a graph's constants."""
    values = [
        value for op in graph.get_operations() for value in op.attrs.values() if isinstance(value, np.ndarray)
    ]
    return sum(value.nbytes for value in values if not is_one_repeated(value))


def _mutant(random: Random) -> _Message | None:
    """A changed message that protobuf can parse, or None."""
    kind: Any
    kind, corpus = (MetaGraphDef, meta_graph_defs()) if random.random() < 0.25 else (GraphDef, graph_defs())
    if random.random() < 0.4:
        try:
            message: _Message = kind.FromString(mutant(random, _bytes(kind)))
        except DecodeError:
            return None
        return message
    try:  # as it comes from elsewhere: attributes in attributes may have become too many
        message = kind.FromString(random.choice(corpus).SerializeToString())
        if isinstance(message, MetaGraphDef) and random.random() < 0.7:
            mutate_collections(random, message)
        else:
            mutate(random, message.graph_def if isinstance(message, MetaGraphDef) else message, graph_defs())
        return kind.FromString(message.SerializeToString())
    except DecodeError:
        return None


@cache
def _bytes(kind: Any) -> list[bytes]:
    corpus: Sequence[Any] = meta_graph_defs() if kind is MetaGraphDef else graph_defs()
    return [each.SerializeToString() for each in corpus]


def _read_graph(message: Any) -> ax.Graph:
    """As a program does."""
    with ax.Graph().as_default() as graph:
        ax.import_graph_def(message, name="")
    return graph


def _read_scoped(message: Any) -> ax.Graph:
    """Twice, under a scope that is taken the second time."""
    with ax.Graph().as_default() as graph:
        ax.import_graph_def(message)
        ax.import_graph_def(message, name="import/")
    return graph


def _read_extension(message: Any) -> ax.Graph:
    """As a server does what a client sends: CreateSession and ExtendSession."""
    graph = ax.Graph()
    extend_graph(graph, message)
    return graph


def _read_partition(message: Any) -> ax.Graph:
    """As a worker does what a master sends: RegisterGraph."""
    return import_partition(message)


_READERS = (_read_graph, _read_scoped, _read_extension, _read_partition)


def _read_meta_graph(message: Any) -> ax.Graph:
    with ax.Graph().as_default() as graph:
        ax.train.import_meta_graph(message)
    return graph


def _again(graph: ax.Graph) -> None:
    _read_partition(graph.as_graph_def(add_shapes=True))


def _chosen(random: Random, graph: ax.Graph) -> list[Operation]:
    """A few nodes, the last one among them."""
    nodes = graph.get_operations()
    return list(dict.fromkeys([*(random.choice(nodes) for _ in range(3) if nodes), *nodes[-1:]]))


@cache
def _devices() -> DeviceSet:
    return DeviceSet([ThreadPoolDevice(DeviceAttributes(DEVICE, "CPU"), Workers(1, "unused"))])


def _plan(graph: ax.Graph, chosen: Sequence[Operation]) -> None:
    planner = Planner(graph, Binder(), _devices(), allow_soft_placement=True)
    planner.plan(signature([], [], chosen))


def _writes_files(op: Operation) -> bool:
    return any(
        word in op.type for word in ("Save", "Write", "Checkpoint", "Dump", "Print", "Summary", "Reader")
    )


@cache
def _runner() -> asyncio.Runner:
    return asyncio.Runner()


async def _run(graph: ax.Graph, chosen: Sequence[Operation]) -> str | None:
    config = ax.ConfigProto(operation_timeout_in_ms=DEADLINE_MS, allow_soft_placement=True)
    async with ax.Session(graph=graph, config=config) as session:
        try:
            await session.run(list(chosen))
        except OpError:
            pass
        except Exception as error:
            return f"running {[op.name[:99] for op in chosen]} raised {type(error).__name__}: {error}"
    return None


if __name__ == "__main__":
    raise SystemExit(campaign.main(case))
