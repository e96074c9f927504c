"""Joins the values of requests to those of a batch, and splits the results of its step. The only code that touches rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from aioexec.batching.batched_models import Array
from aioexec.errors import InvalidArgumentError

Outputs: TypeAlias = dict[str, Array]

Pieces: TypeAlias = list[tuple[int, Outputs]]
"""The outputs of the parts of a request, each with the first of its rows."""

LARGE = 1 << 20
"""Bytes above which copying them is done in a thread: it would block the event loop for more than some 0.1 ms."""


def bytes_of(values: Iterable[Array]) -> int:
    """The bytes of arrays together."""
    return sum([value.nbytes for value in values])


def join(pieces: Sequence[Array], rows: int, size: int) -> Array:
    """Rows of requests as one array of `size` rows, the first `rows` of which are theirs.

    The rest repeats the first row: it is a valid input of the model, which zeros may not be. A single piece that needs
    no padding is returned itself.

    A fresh array, not one that is used again: a model may keep its inputs, or return them.
    """
    first = pieces[0]
    if rows == size:
        return first if len(pieces) == 1 else np.concatenate(pieces)
    joined: Array = np.empty((size, *first.shape[1:]), first.dtype)
    np.concatenate(pieces, out=joined[:rows])
    joined[rows:] = joined[0]
    return joined


def check_outputs(outputs: Mapping[str, Any], size: int) -> None:
    """Check that each output of a step has a row for each row of its inputs.

    Raises:
        InvalidArgumentError: another first dimension, or none.
    """
    for name, value in outputs.items():
        if not isinstance(value, np.ndarray) or value.shape[:1] != (size,):
            shape = getattr(value, "shape", type(value).__name__)
            raise InvalidArgumentError(
                f"Batcher: output {name!r} must have one row for each of the {size} rows of the batch, got {shape}"
            )


def split(outputs: Mapping[str, Array], counts: Sequence[int], size: int) -> list[Outputs]:
    """The outputs of a step for parts of `counts` rows, in order; what pads the batch is left out.

    Copies: an array that refers to the whole batch would keep it in memory, with the rows of other callers.
    """
    if counts[0] == size:
        return [dict(outputs)]
    found: list[Outputs] = [{} for _ in counts]
    for name, value in outputs.items():
        stop = 0
        for part, count in zip(found, counts, strict=True):
            start, stop = stop, stop + count
            part[name] = value[start:stop].copy()
    return found


def assemble(pieces: Pieces) -> Outputs:
    """The outputs of a request from those of its parts."""
    ordered = [outputs for _, outputs in sorted(pieces, key=lambda piece: piece[0])]
    return {name: np.concatenate([outputs[name] for outputs in ordered]) for name in ordered[0]}
