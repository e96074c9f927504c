"""The layout of a constant matrix of which a program holds a packed copy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from aioexec.data_classes import dataclass

Storage = Literal["", "bfloat16", "float16", "int8"]
"""bfloat16: rounded to 8 significant bits; float16: to 11, and to 65504 at most; int8: multiples of a scale for each column, of
which the largest element is 127."""


STORED_DTYPES: Final[Mapping[Storage, str]] = {"bfloat16": "uint16", "float16": "int16", "int8": "int8"}
"""The dtypes of the elements as kernels see them; those of 16-bit floats tell `load_widened` which they are."""


@dataclass(frozen=True, slots=True)
class Panels:
    """A layout of a constant matrix for products, which depends on the processor: see `devices.jit.panels`.

    Attributes:
        rows, columns: of the matrix.
        transposed: the constant is the transposed matrix.
        storage: in what the elements of a float32 matrix are kept; "": as they are.
        scales: not the matrix, but the factors by which its stored columns are multiplied.
    """

    rows: int
    columns: int
    transposed: bool = False
    storage: Storage = ""
    scales: bool = False
