"""What a random op draws, apart from who computes it: a device draws the same numbers from the same place of a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from aioexec.data_classes import dataclass
from aioexec.graph.kernels.kernel import KernelContext

Distribution: TypeAlias = Literal["Uniform", "Normal", "TruncatedNormal", "UniformInt", "FullInt"]


@dataclass(frozen=True, slots=True)
class RandomRange:
    """The numbers that one run draws.

    Attributes:
        key, start: of the generator (see `ops.random.philox`): 64 bits, and the first counter of 128 bits.
        shape: of the output.
        low, span: of UniformInt, the least integer, and how many follow; the span is 0 if the output is empty.
    """

    key: int
    start: int
    shape: tuple[int, ...]
    low: int = 0
    span: int = 0


@dataclass(frozen=True, slots=True)
class Random:
    """A random op, all of whose inputs are in main memory.

    Attributes:
        place: given a node's context, what reserves the numbers of one run, given its inputs; raises the op's errors.
    """

    distribution: Distribution
    place: Callable[[KernelContext], Callable[..., RandomRange]]
