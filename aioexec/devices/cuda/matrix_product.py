"""Products of matrices as the library cuBLASLt computes them: what is multiplied, and the call as work of a GPU.

Matrices are column-major, as the library has them: a C-ordered array is its transpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from aioexec.data_classes import dataclass
from aioexec.devices.cuda.launch import Address, Launch, Module
from aioexec.devices.cuda.rows import DeviceRow
from aioexec.graph.kernels.kernel import Operand
from aioexec.resources.buffer import Buffer

Flip: TypeAlias = Literal["N", "T"]
"""As it is, or transposed."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Matrices of one operand.

    Attributes:
        rows, columns: as they are in memory.
        step: elements from column to column, at least `rows`.
        batch_step: elements from matrix to matrix; 0 if all are the same.
        alignment: a power of two, in bytes, of which the address of the first is a multiple.
    """

    dtype: str
    rows: int
    columns: int
    step: int
    batch_step: int
    alignment: int


@dataclass(eq=False, frozen=True, slots=True)
class MatrixProduct:
    """result = flip_a(a) flip_b(b), for each of `batches` matrices; no size is 0.

    Equal to itself alone; `programs.products` makes one for each set of values.

    Attributes:
        kernel: what computes it if the library cannot.
    """

    a: Matrix
    flip_a: Flip
    b: Matrix
    flip_b: Flip
    result: Matrix
    batches: int
    kernel: Module


@dataclass(frozen=True, slots=True)
class ProductCall:
    """The work of one product; the operands in the order a, b, result.

    Attributes:
        otherwise: the same with the kernel of the product.
    """

    product: MatrixProduct
    operands: tuple[Buffer | Address, Buffer | Address, Buffer | Address]
    otherwise: Launch


@dataclass(frozen=True, slots=True)
class ProductRow:
    """A product in a program, with operands in place of addresses: those of `kernel_row`, a, b and result.

    Attributes:
        is_swapped: whether the first matrix of the product is operand b.
    """

    product: MatrixProduct
    kernel_row: DeviceRow
    is_swapped: bool

    @property
    def operands(self) -> tuple[Operand, ...]:
        return self.kernel_row.operands

    @property
    def written(self) -> tuple[bool, ...]:
        return self.kernel_row.written

    @property
    def covers(self) -> int:
        return self.kernel_row.covers

    def work(self, places: Sequence[Buffer | Address]) -> ProductCall:
        """The work on these places, one for each operand."""
        a, b, result = places
        operands = (b, a, result) if self.is_swapped else (a, b, result)
        return ProductCall(self.product, operands, self.kernel_row.work(places))
