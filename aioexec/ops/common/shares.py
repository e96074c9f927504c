"""Divides the work of a loop kernel into launches of bounded duration, whose units workers may share."""

from __future__ import annotations

from dataclasses import replace

from aioexec.data_classes import dataclass
from aioexec.graph.kernels.epilogue import MOST_OTHERS, Epilogue
from aioexec.graph.kernels.kernel import Launch, LoopKernel, Operand, Units

LAUNCH_NS = 4_000_000
"""Upper bound for one launch: a cancelled step stops between launches."""

MOST_SHARES = 16
"""Upper bound for the shares that have scratch memory of their own."""

NOT_READ = (Operand("input", 0),) * (1 + MOST_OTHERS)
"""Placeholders for the operands of an epilogue: the bias and the others."""

IN_PLACE = (0,) * (1 + MOST_OTHERS)
"""Their bytes for each unit of work."""


@dataclass(frozen=True, slots=True)
class Scratch:
    """A scratch buffer by number, and the bytes that a share (or each unit, if `per_unit`) needs of it."""

    number: int
    size: int
    per_unit: bool = False

    def stride(self, grain: int) -> int:
        """Return the bytes per unit if shares are multiples of `grain` units."""
        units = 1 if self.per_unit else grain
        return -(-self.size // (64 * units)) * 64


@dataclass(frozen=True, slots=True)
class Work:
    """A kernel with its operands; `words[unit]` counts the independent units of work: images, rows or filters.

    Attributes:
        words: the integer arguments.
        strides: bytes per unit of each operand except scratch memory.
        cost: nanoseconds for all units.
        grain: the minimum number of units in a share.
        first: the argument that is the number of the first unit, see `Units`.
        scratch: scratch buffers, which are the last operands.
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
    first: int | None = None

    @property
    def total(self) -> int:
        return self.words[self.unit]

    def cut(self) -> tuple[tuple[Launch, ...], tuple[int, ...]]:
        """Return the launches, and the size of each scratch buffer. Shares begin at multiples of the grain."""
        grain = self.grain
        if not all(each.per_unit for each in self.scratch):
            grain *= -(-self.total // (MOST_SHARES * grain))
        parts = -(-self.cost // LAUNCH_NS)
        step = min(-(-self.total // (parts * grain)) * grain, self.total)
        regions = tuple(each.stride(grain) for each in self.scratch)
        places = tuple(Operand("scratch", each.number) for each in self.scratch)
        units = Units(self.unit, (*self.strides, *regions), grain, self.first)
        rows = []
        for first in range(0, self.total, step):
            count = min(step, self.total - first)
            moved = tuple(
                replace(operand, offset=operand.offset + first * stride)
                for operand, stride in zip(self.operands, self.strides, strict=True)
            )
            words = units.words_of(self.words, first, count)
            cost = 20 + self.cost * count // self.total
            rows.append(Launch(self.kernel, (*moved, *places), words, self.reals, cost, units, self.epilogue))
        sizes = tuple(-(-step // grain) * grain * region for region in regions)
        return tuple(rows), sizes
