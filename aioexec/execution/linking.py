"""Linking: a variant's rows as the walker reads them, with the addresses of kernels, and which of them workers share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from aioexec.devices.jit import walker as walking
from aioexec.devices.jit.walker import HEADER, Walker
from aioexec.graph.kernel import Kernel
from aioexec.planning.variant import Jump, ProgramRow, Row, Variant

Array = np.ndarray[Any, Any]
_JUMP_NS = 5
_LEAST_SHARE_NS = 100_000  # estimated work below which waking another worker does not pay


def address_of(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


@dataclass(frozen=True, slots=True)
class Share:
    """A row that several workers do: the kernel, a block for each share of its units, and whether it writes a variable."""

    kernel: int
    blocks: tuple[int, ...]
    writes: bool


def link(
    variant: Variant, walker: Walker, address: Callable[[Kernel], int], lanes: int
) -> tuple[Array, Array, dict[int, Share]]:
    """Rows and blocks as the walker reads them, and the rows that are shared: the walker stops at those."""
    rows = np.zeros((max(len(variant.rows), 1), walking.ROW_WORDS), np.int64)
    blocks: list[Array] = []
    starts: list[list[int]] = []
    size = 0
    for row in variant.rows:
        starts.append([])
        for block in _blocks(row, lanes):
            starts[-1].append(size)
            blocks.append(block)
            size += len(block)
    memory = np.concatenate(blocks) if blocks else np.zeros(1, np.int64)
    base = address_of(memory)
    shares: dict[int, Share] = {}
    for index, row in enumerate(variant.rows):
        places = tuple(base + 8 * start for start in starts[index])
        if isinstance(row, Jump):
            kernel = walker.jump if row.predicate is None else walker.jump_unless
            rows[index] = kernel, places[0], _JUMP_NS, 0
        if not isinstance(row, ProgramRow):
            continue
        kernel = address(row.kernel)
        if len(places) > 1:
            writes = any(first <= index <= last for use in variant.uses for first, last in use.writes)
            shares[index] = Share(kernel, places, writes)
        else:
            rows[index] = kernel, places[0], row.cost, 0
    return rows, memory, shares


def _blocks(row: Row, lanes: int) -> list[Array]:
    """The blocks of a row: several for one that is shared, none for one that Python does."""
    if isinstance(row, Jump):
        slot, offset = row.predicate or (0, 0)
        return [np.array([HEADER + slot, offset, row.target], np.int64)]
    return [_block(part) for part in _parts(row, lanes)] if isinstance(row, ProgramRow) else []


def _block(row: ProgramRow) -> Array:
    head = [word for slot, offset in row.operands for word in (HEADER + slot, offset)]
    reals = np.array(row.reals, np.float64).view(np.int64)
    return np.concatenate([np.array([*head, *row.words], np.int64), reals])


def _parts(row: ProgramRow, lanes: int) -> list[ProgramRow]:
    """A dear row in shares for several workers, any other as it is. Follows from shapes and static costs alone."""
    units = row.units
    if units is None or lanes == 1 or row.cost < 2 * _LEAST_SHARE_NS:
        return [row]
    total = row.words[units.word]
    wanted = min(lanes, row.cost // _LEAST_SHARE_NS)
    step = -(-total // (wanted * units.grain)) * units.grain
    parts = []
    for first in range(0, total, step):
        operands = tuple(
            (slot, offset + first * stride)
            for (slot, offset), stride in zip(row.operands, units.strides, strict=True)
        )
        count = min(step, total - first)
        words = (*row.words[: units.word], count, *row.words[units.word + 1 :])
        parts.append(replace(row, operands=operands, words=words))
    return parts
