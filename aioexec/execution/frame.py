"""The frame of a run: what the walker reads and writes, and the memory between its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import finalize

import numpy as np

from aioexec.devices.jit import walker as walking
from aioexec.devices.jit.walker import HEADER
from aioexec.execution.linking import address_of
from aioexec.observability.allocator_stats import allocator_stats
from aioexec.planning.buffers import ALIGNMENT

if TYPE_CHECKING:
    from aioexec.execution.forks import SharedFork
    from aioexec.execution.program import Program


class Frame:
    """Words of a walk, and the arena its slots point into. A `spoilt` one has been cancelled and serves no other run.

    `shared` are the forks that event loops have done in it, by their rows.
    """

    __slots__ = ("__weakref__", "arena", "shared", "spoilt", "words")

    def __init__(self, program: Program) -> None:
        variant = program.variant
        self.spoilt = False
        self.shared: dict[int, SharedFork] = {}
        self.words = np.zeros(HEADER + variant.slots, np.int64)
        memory = np.empty(variant.arena_bytes + ALIGNMENT, np.uint8)
        start = -address_of(memory) % ALIGNMENT
        self.arena = memory[start : start + variant.arena_bytes]
        stats = allocator_stats(program.device)
        stats.allocated(memory.nbytes)
        finalize(self, stats.freed, memory.nbytes).atexit = False
        self.words[walking.ROWS] = address_of(program.rows)
        self.words[walking.ROW_COUNT] = len(variant.rows)
        self.words[walking.INLINE_FUEL] = program.fuel
        self.words[HEADER + variant.arena_slot] = address_of(self.arena)
        self.words[HEADER + variant.constants_slot] = address_of(variant.constants)
