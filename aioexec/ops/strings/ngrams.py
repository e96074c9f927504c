"""StringNGrams: the n-grams of ragged rows of tokens, joined by a separator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.errors import InvalidArgumentError
from aioexec.graph.kernels.interruption import check_cancelled
from aioexec.graph.kernels.kernel import Compute, KernelContext
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.ops.common.elementwise import Array
from aioexec.ops.strings.elements import array_of, bytes_of
from aioexec.shapes import Dims


def _shape(context: ShapeContext) -> Sequence[Dims]:
    for given in context.inputs:
        shapes.with_rank(given, 1)
    return [(None,), context.inputs[1]]


def _check_splits(splits: list[int], count: int) -> None:
    """Refuse offsets that are not those of rows of `count` tokens together."""
    if splits and splits[0] != 0:
        raise InvalidArgumentError(f"First split value must be 0, got {splits[0]}")
    for before, split in pairwise(splits):
        if not before <= split <= count:
            raise InvalidArgumentError(f"Invalid split value {split}, must be in [{before}, {count}]")
    if splits and splits[-1] != count:
        raise InvalidArgumentError(f"Last split value must be data size. Expected {count}, got {splits[-1]}")


def _kernel(context: KernelContext) -> Compute:
    attrs = context.attrs
    separator, left, right = (bytes_of(attrs[name]) for name in ("separator", "left_pad", "right_pad"))
    widths: Sequence[int] = attrs["ngram_widths"]
    keeps_short: bool = attrs["preserve_short_sequences"]
    most_pads: int = attrs["pad_width"]
    if min(widths, default=1) < 1:
        raise InvalidArgumentError("ngram_widths must contain positive values")

    def of_width(row: list[bytes], width: int) -> Iterator[bytes]:
        """The n-grams of a row; -1 pads so that each token is the first and the last one of some n-gram."""
        pads = min(width - 1 if most_pads < 0 else most_pads, width - 1)
        padded = [left] * pads + row + [right] * pads
        for first in range(len(padded) - width + 1):
            yield separator.join(padded[first : first + width])

    def of_row(row: list[bytes]) -> list[bytes]:
        check_cancelled()
        found = [ngram for width in widths for ngram in of_width(row, width)]
        if keeps_short and row and not found:
            return [*of_width(row, len(row) + 2 * most_pads)]  # padding to the width leaves no row short
        return found

    def compute(data: Array, splits: Array) -> Any:
        offsets, tokens = splits.tolist(), data.tolist()
        _check_splits(offsets, len(tokens))
        rows = [of_row(tokens[first:last]) for first, last in pairwise(offsets)] if tokens else []
        ngrams = [ngram for row in rows for ngram in row]
        ends = np.zeros(splits.shape, splits.dtype)
        if rows:
            np.cumsum([len(row) for row in rows], out=ends[1:])
        return array_of(ngrams, (len(ngrams),)), ends

    return compute


register(
    "StringNGrams(data:string, data_splits:Tsplits) -> (ngrams:string, ngrams_splits:Tsplits) [separator:string; "
    "ngram_widths:list(int)>=0; left_pad:string; right_pad:string; pad_width:int; preserve_short_sequences:bool; "
    "Tsplits:type{int32|int64}=int64]",
    shape=_shape,
    kernel=_kernel,
    gradient=NOT_DIFFERENTIABLE,
    dynamic_shape=True,
)
