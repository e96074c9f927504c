"""Native forms of ops that only move data: each output is a strided view of an input, as an alias or a copy."""

from __future__ import annotations

from collections.abc import Sequence

from aioexec.data_classes import dataclass
from aioexec.graph.kernels.kernel import Alias, Launch, Launches, Operand, Spec
from aioexec.graph.kernels.launches import Shape, c_strides, copy_launch

ITEM_SIZES = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class Piece:
    """A strided view of an input: `shape` elements from byte `offset` on, `strides` bytes apart."""

    source: int
    offset: int
    strides: tuple[int, ...]
    shape: Shape


def is_contiguous(piece: Piece, itemsize: int) -> bool:
    """Return whether the elements are contiguous in C order."""
    wanted = c_strides(piece.shape, itemsize)
    return all(dim == 1 or a == b for dim, a, b in zip(piece.shape, piece.strides, wanted, strict=True))


def views(pieces: Sequence[Piece], outputs: Sequence[Spec]) -> Launches | Alias | None:
    """Return the launches for outputs that are these views in C order: aliases if all are contiguous, else one copy each."""
    itemsize = outputs[0].dtype.itemsize
    if itemsize not in ITEM_SIZES or outputs[0].dtype.kind in "OVc":
        return None
    if all(is_contiguous(piece, itemsize) for piece in pieces):
        return Alias(tuple(piece.source for piece in pieces), tuple(piece.offset for piece in pieces))
    rows = [
        into(piece, Operand("output", j), c_strides(piece.shape, itemsize), itemsize)
        for j, piece in enumerate(pieces)
    ]
    return Launches(tuple(row for row in rows if row is not None))


def into(piece: Piece, target: Operand, strides: tuple[int, ...], itemsize: int) -> Launch | None:
    """Return a launch that copies a view to a strided target; None if it is empty."""
    source = Operand("input", piece.source, piece.offset)
    return copy_launch(source, piece.strides, target, strides, piece.shape, itemsize)


def rows_of(*launches: Launch | None, inplace: tuple[int, ...] = ()) -> Launches:
    """Combine launches, dropping those that are None."""
    return Launches(tuple(row for row in launches if row is not None), inplace=inplace)


def movable(spec: Spec) -> bool:
    """Return whether the native tier can move values of this dtype."""
    return spec.dtype.itemsize in ITEM_SIZES and spec.dtype.kind not in "OVc"
