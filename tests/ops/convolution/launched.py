"""Runs the launches of convolutions and pools as plain Python, as workers would share them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from aioexec.graph.kernels.kernel import Launch, LoopKernel, Spec
from aioexec.graph.kernels.panels import Panels


def run_in_python(
    bind: Any,
    attrs: Any,
    inputs: list[Any],
    shape: tuple[int, ...],
    lanes: int = 1,
    may_be_packed: bool = False,
) -> Any:
    """Run launches on arrays of float64, the shares of `lanes` workers one after the other.

    An elementwise launch adds its inputs: with one it is a copy, with none zeros. Inputs may be packed if they are constants.
    """
    output = np.full(shape, np.nan)
    specs = [Spec(value.dtype, value.shape, None, may_be_packed) for value in inputs]
    launches = bind(attrs, specs, [Spec(output.dtype, shape)])
    memory = {"input": [value.reshape(-1) for value in inputs], "output": [output.reshape(-1)]}
    memory["packed"] = [in_panels(matrix(inputs[k], panels)) for k, panels in launches.packed]
    memory["scratch"] = [np.full(size // 8, np.nan) for size in launches.scratch]
    for row, words, operands in itertools.chain.from_iterable(shared(row, lanes) for row in launches.rows):
        places = [memory[operand.kind][operand.index][begin // 8 :] for operand, begin in operands]
        if isinstance(row.kernel, LoopKernel):
            assert row.kernel.body(*places, *words, *row.reals) == 0
        else:
            rank = words[0]
            dims, strides = words[1 : 1 + rank], words[1 + rank :]
            *source, target = (
                strided(place, dims, strides[k * rank :][:rank]) for k, place in enumerate(places)
            )
            target[...] = sum(source)
    return output


def matrix(value: Any, panels: Panels) -> Any:
    """The matrix of which there are panels."""
    if panels.transposed:
        return value.reshape(panels.columns, panels.rows).T
    return value.reshape(panels.rows, panels.columns)


def in_panels(matrix: Any, wide: int = 8) -> Any:
    """Panels as loops read them in plain Python."""
    rows, columns = matrix.shape
    padded = np.zeros((rows, -(-columns // wide) * wide))
    padded[:, :columns] = matrix
    return np.concatenate([padded[:, j : j + wide].reshape(-1) for j in range(0, padded.shape[1], wide)])


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
