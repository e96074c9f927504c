"""The frame of a run: the words the walker reads and writes, and the arena with the values between rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol
from weakref import finalize

import numpy as np

from aioexec.devices.jit import walker as walking
from aioexec.devices.jit.huge_pages import map_memory
from aioexec.devices.jit.walker import HEADER
from aioexec.execution.programs.linking import address_of
from aioexec.observability.allocator_stats import allocator_stats
from aioexec.planning.layout.buffers import ALIGNMENT

if TYPE_CHECKING:
    from aioexec.execution.programs.parallel_regions import RegionRun
    from aioexec.planning.layout.variant import Variant


Array = np.ndarray[Any, Any]
IDLE_FRAMES = 4
"""Frames a program keeps between its runs."""
MAPPED_BYTES = 1 << 16
"""Arenas of at least this size are mapped: they return to the system when they are dropped, however fragmented the heap is."""
_HUGE_BYTES = 1 << 22  # arenas of at least this size use huge pages, as NumPy's arrays do


class FrameProgram(Protocol):
    """The part of `Program` that a frame is made for."""

    variant: Variant
    rows: Array
    device: str
    fuel: int


class Frame:
    """The words of a walk, the last of them for its parallel regions, and the arena its slots point into.

    A `spoilt` frame was cancelled and is not used again. `is_admitted` while its run counts against a limit (see
    `arena_limit`). `regions` are the executions of parallel regions in it, by their rows; `views` are values in the arena or
    among the constants that breaks read, by the identity of their place, which is the variant's; `buffers` hold small outputs
    of breaks, by slot.
    """

    __slots__ = ("__weakref__", "arena", "buffers", "is_admitted", "regions", "spoilt", "views", "words")

    def __init__(self, program: FrameProgram) -> None:
        variant = program.variant
        self.spoilt = False
        self.is_admitted = False
        self.regions: dict[int, RegionRun] = {}
        self.views: dict[int, Array] = {}
        self.buffers: dict[int, Array] = {}
        self.words = np.zeros(HEADER + variant.slots + len(variant.parallel_regions), np.int64)
        memory = _memory(variant.arena_bytes + ALIGNMENT)
        start = -address_of(memory) % ALIGNMENT
        self.arena = memory[start : start + variant.arena_bytes]
        stats = allocator_stats(program.device)
        stats.record_allocation(memory.nbytes)
        finalize(self, stats.record_release, memory.nbytes).atexit = False
        self.words[walking.ROWS] = address_of(program.rows)
        self.words[walking.ROW_COUNT] = len(variant.rows)
        self.words[walking.INLINE_FUEL] = program.fuel
        self.words[HEADER + variant.arena_slot] = address_of(self.arena)
        self.words[HEADER + variant.constants_slot] = address_of(variant.constants)
        for constant, slot in variant.packed.items():
            self.words[HEADER + slot] = address_of(constant.array())
        for slot, array in variant.large.items():
            self.words[HEADER + slot] = address_of(array)


class FramePool:
    """The idle frames of a program; this base class serves programs without an arena.

    Changing: `frames`, of which it keeps up to `most_idle`.
    """

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.most_idle = IDLE_FRAMES

    def new_frame(self) -> Frame:
        raise NotImplementedError

    def lease(self) -> Frame:
        """A frame for one run that ends in this callback of the loop; the caller must release it."""
        return self.frames.pop() if self.frames else self.new_frame()

    def lease_for_worker(self) -> Frame:
        """A frame for one run that may wait for a worker; the caller must release it.

        Raises:
            NoRoomError: the run must wait for its frame.
        """
        return self.lease()

    async def lease_in_turn(self) -> Frame:
        """The same as `lease_for_worker`, but waits for a frame."""
        return self.lease()

    @property
    def has_room(self) -> bool:
        """Whether a run that begins on the loop may move to a worker."""
        return True

    def move_to_worker(self, frame: Frame) -> None:
        """Count the run that leased this frame as one that waits for a worker."""

    def release(self, frame: Frame) -> None:
        """Take back the frame of a run that is over."""
        self.put_idle(frame)

    def put_idle(self, frame: Frame) -> None:
        if len(self.frames) < self.most_idle and not frame.spoilt:
            self.frames.append(frame)


def _memory(nbytes: int) -> np.ndarray[Any, Any]:
    """Bytes of any content.

    Raises:
        MemoryError: the system has none.
    """
    if nbytes < MAPPED_BYTES:
        return np.empty(nbytes, np.uint8)
    return map_memory(nbytes, in_huge_pages=nbytes >= _HUGE_BYTES)
