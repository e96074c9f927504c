"""Imports a mutant and runs it; reports violations of the rule.

The rule: a result or an `OpError`, within two seconds and 512 MiB. Time is processor time, so that other load does not count;
the step's own timeout ends waits and is part of the rule. Memory is the growth of the address space: an allocation beyond it
raises MemoryError, which must be reported as ResourceExhaustedError.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import random
import resource
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import aioexec as ax
from aioexec.errors import OpError
from tests.interop.mutants.mutations import mutate
from tests.interop.mutants.sources import Source

SECONDS = 2.0
MEMORY = 512 * 2**20
TIMEOUT_MS = 500  # of each step
HANGS = 15.0  # seconds of waiting that no timeout has ended
STUCK = 60.0  # seconds in which the event loop did not get to run


@dataclass
class Report:
    """How many trials ended in what; the breaches with all that is needed to make them again."""

    endings: Counter[str] = field(default_factory=Counter)
    breaches: list[str] = field(default_factory=list)


@contextlib.contextmanager
def bounded_memory() -> Iterator[None]:
    """Let the address space grow by no more than the rule has it."""
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


async def make_trials(sources: Sequence[Source], seeds: Sequence[int]) -> Report:
    """One mutant for each seed; which source it is of follows from the seed, too."""
    report = Report()
    for seed in seeds:
        chance = random.Random(seed)
        source = chance.choice(sources)
        mutant = mutate(chance, source.graph_def)
        faulthandler.dump_traceback_later(STUCK, exit=True)
        started = time.process_time()
        try:
            with bounded_memory():
                ending = await _trial(source, mutant, chance)
        except Exception:
            ending = "breach"
            report.breaches.append(f"{source.name}, seed {seed}: {traceback.format_exc()}")
        took = time.process_time() - started
        if took > SECONDS:
            report.breaches.append(
                f"{source.name}, seed {seed}: took {took:.1f} s of the processor ({ending})"
            )
        report.endings[ending] += 1
    faulthandler.cancel_dump_traceback_later()
    return report


async def _trial(source: Source, mutant: ax.GraphDef, chance: random.Random) -> str:
    """How it ended: "refused", "failed" or "ran"."""
    with ax.Graph().as_default() as graph:
        try:
            ax.import_graph_def(mutant, name="")
        except OpError:
            assert not graph.get_operations()
            assert not graph.functions
            return "refused"
    config = ax.ConfigProto()
    config.aioexec.jit = "off"
    ended = "failed"
    async with asyncio.timeout(HANGS), ax.Session(graph=graph, config=config) as session:
        for fetches, feeds in _runs(source, graph, chance):
            with contextlib.suppress(OpError):
                await session.run(fetches, feeds, options=ax.RunOptions(timeout_in_ms=TIMEOUT_MS))
                ended = "ran"
    return ended


def _runs(source: Source, graph: ax.Graph, chance: random.Random) -> Iterator[tuple[Any, Any]]:
    """The steps to run: those of the source, then random tensors with random feeds."""
    operations = {op.name: op for op in graph.get_operations()}
    tensors = {tensor.name: tensor for op in operations.values() for tensor in op.outputs}
    feeds = {name: value for name, value in source.feeds.items() if name in tensors}
    for name in source.first:
        if name in operations:
            yield operations[name], feeds
    yield [name for name in source.fetches if name in tensors], feeds
    if tensors:
        any_feeds = {
            tensor.name: _value(tensor, chance)
            for tensor in tensors.values()
            if tensor.op.type == "Placeholder"
        }
        yield chance.sample(sorted(tensors), min(3, len(tensors))), any_feeds


def _value(tensor: ax.Tensor, chance: random.Random) -> Any:
    dims = [2] * chance.randrange(3) if tensor.dims is None else tensor.dims
    shape = [chance.randrange(4) if size is None else min(size, 4) for size in dims]
    kind = tensor.dtype.base_dtype.numpy
    values = np.random.default_rng(chance.randrange(9)).integers(-2, 5, shape)
    return values.astype(bytes).astype(object) if kind.hasobject else values.astype(kind)
