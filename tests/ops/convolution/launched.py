"""Runs the launches of convolutions and pools as plain Python, as workers would share them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from aioexec.graph.kernels.kernel import Launch, LoopKernel, Spec


def run_in_python(bind: Any, attrs: Any, inputs: list[Any], shape: tuple[int, ...], lanes: int = 1) -> Any:
    """Run launches on arrays of float64, the shares of `lanes` workers one after the other; an elementwise one is a copy."""
    output = np.full(shape, np.nan)
    launches = bind(attrs, [Spec(value.dtype, value.shape) for value in inputs], [Spec(output.dtype, shape)])
    memory = {"input": [value.reshape(-1) for value in inputs], "output": [output.reshape(-1)]}
    memory["scratch"] = [np.full(size // 8, np.nan) for size in launches.scratch]
    for row, words, operands in itertools.chain.from_iterable(shared(row, lanes) for row in launches.rows):
        places = [memory[operand.kind][operand.index][begin // 8 :] for operand, begin in operands]
        if isinstance(row.kernel, LoopKernel):
            assert row.kernel.body(*places, *words, *row.reals) == 0
        else:
            rank = words[0]
            dims, strides = words[1 : 1 + rank], words[1 + rank :]
            source, target = (
                strided(place, dims, strides[k * rank :][:rank]) for k, place in enumerate(places)
            )
            target[...] = source
    return output


def shared(row: Launch, lanes: int) -> Iterator[tuple[Launch, tuple[int, ...], list[Any]]]:
    """A launch as workers would share it: words, and operands with where they begin. Latest first, so that order is tested."""
    units = row.units if isinstance(row.kernel, LoopKernel) else None
    total, grain = (row.words[units.word], units.grain) if units else (1, 1)
    step = -(-total // (lanes * grain)) * grain
    for first in reversed(range(0, total, step)):
        if units is None:
            yield row, row.words, [(operand, operand.offset) for operand in row.operands]
            continue
        words = units.words_of(row.words, first, min(step, total - first))
        begins = zip(row.operands, units.strides, strict=True)
        yield row, words, [(operand, operand.offset + first * stride) for operand, stride in begins]


def strided(place: Any, dims: Any, strides: Any) -> Any:
    """A view of memory by dims and strides in bytes, which may be negative."""
    if min(strides) < 0:
        whole = place.base if place.base is not None else place
        return np.ndarray(dims, whole.dtype, whole, place.ctypes.data - whole.ctypes.data, strides)
    return np.lib.stride_tricks.as_strided(place, dims, strides)
