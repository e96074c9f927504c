"""The layout of a constant matrix of which a program holds a packed copy."""

from __future__ import annotations

from aioexec.data_classes import dataclass


@dataclass(frozen=True, slots=True)
class Panels:
    """A layout of a constant matrix for products, which depends on the processor: see `devices.jit.panels`.

    Attributes:
        rows, columns: of the matrix.
        transposed: the constant is the transposed matrix.
    """

    rows: int
    columns: int
    transposed: bool = False
