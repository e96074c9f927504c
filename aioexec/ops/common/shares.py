"""Cutting the work of a loop kernel into launches of bounded length, which workers may share."""

from __future__ import annotations

from dataclasses import replace

from aioexec.data_classes import dataclass
from aioexec.graph.kernels.kernel import Epilogue, Launch, LoopKernel, Operand, Units

LAUNCH_NS = 4_000_000
"""What a launch takes at most: a step that is cancelled stops between launches."""

MOST_SHARES = 16
"""Shares that have scratch memory of their own."""


@dataclass(frozen=True, slots=True)
class Scratch:
    """A scratch buffer by its number, and the bytes of it a share needs, or each unit if `per_unit`."""

    number: int
    size: int
    per_unit: bool = False

    def stride(self, grain: int) -> int:
        """Bytes from unit to unit, where shares consist of whole grains."""
        units = 1 if self.per_unit else grain
        return -(-self.size // (64 * units)) * 64


@dataclass(frozen=True, slots=True)
class Work:
    """A kernel and what it works on; `words[unit]` counts units of work that do not touch each other: images, rows, filters.

    Attributes:
        words: the integer arguments.
        strides: bytes from unit to unit of each operand, but scratch memory.
        cost: nanoseconds for all units.
        grain: units a share consists of at least.
        scratch: the scratch buffers it uses, its last operands.
    """

    kernel: LoopKernel
    operands: tuple[Operand, ...]
    words: tuple[int, ...]
    strides: tuple[int, ...]
    cost: int
    unit: int = 0
    grain: int = 1
    scratch: tuple[Scratch, ...] = ()
    reals: tuple[float, ...] = ()
    epilogue: Epilogue | None = None

    @property
    def total(self) -> int:
        return self.words[self.unit]

    def cut(self) -> tuple[tuple[Launch, ...], tuple[int, ...]]:
        """The launches, and the size of each scratch buffer; shares begin a multiple of the grain and a region apart."""
        grain = self.grain
        if not all(each.per_unit for each in self.scratch):
            grain = max(grain, -(-self.total // MOST_SHARES))
        parts = -(-self.cost // LAUNCH_NS)
        step = min(-(-self.total // (parts * grain)) * grain, self.total)
        regions = tuple(each.stride(grain) for each in self.scratch)
        places = tuple(Operand("scratch", each.number) for each in self.scratch)
        units = Units(self.unit, (*self.strides, *regions), grain)
        rows = []
        for first in range(0, self.total, step):
            count = min(step, self.total - first)
            moved = tuple(
                replace(operand, offset=operand.offset + first * stride)
                for operand, stride in zip(self.operands, self.strides, strict=True)
            )
            words = (*self.words[: self.unit], count, *self.words[self.unit + 1 :])
            cost = 20 + self.cost * count // self.total
            rows.append(Launch(self.kernel, (*moved, *places), words, self.reals, cost, units, self.epilogue))
        sizes = tuple(-(-step // grain) * grain * region for region in regions)
        return tuple(rows), sizes
