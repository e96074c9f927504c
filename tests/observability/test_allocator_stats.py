"""Allocator statistics: the arenas of programs are counted as long as they are referenced."""

from __future__ import annotations

import gc

import numpy as np

from aioexec.observability.allocator_stats import AllocatorStats, allocator_stats
from tests.tiers import feed, graph, op, programs, session_on


def test_the_peak_stays_when_memory_is_given_back():
    stats = AllocatorStats()

    stats.record_allocation(100)
    stats.record_allocation(50)
    stats.record_release(100)
    stats.record_allocation(20)

    assert (stats.num_allocs, stats.bytes_in_use) == (3, 70)
    assert (stats.peak_bytes_in_use, stats.largest_alloc_size) == (150, 100)


def test_a_device_of_one_name_has_one_set_of_numbers():
    assert allocator_stats("/device:TEST:0") is allocator_stats("/device:TEST:0")
    assert allocator_stats("/device:TEST:0") is not allocator_stats("/device:TEST:1")


async def test_the_arena_of_a_program_counts_until_the_program_is_gone():
    with graph() as g:
        x = feed([1000])
        y = op("Mul", op("Add", x, x), op("Neg", x))
    gc.collect()
    async with session_on(g, "eager") as session:
        await session.run(y, {x: np.ones(1000, np.float32)})
        (program,) = programs(session)
        stats = allocator_stats(program.device)
        in_use, allocs = stats.bytes_in_use, stats.num_allocs
        assert in_use >= program.variant.arena_bytes > 0

        await session.run(y, {x: np.ones(1000, np.float32)})
        assert (stats.bytes_in_use, stats.num_allocs) == (in_use, allocs), "the arena is used again"

        program.frames.clear()
        assert stats.bytes_in_use <= in_use - program.variant.arena_bytes
        assert stats.peak_bytes_in_use >= in_use
