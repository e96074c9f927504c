"""Lower triangular matrices."""

from __future__ import annotations

from typing import Any

from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.scopes import name_scope
from aioexec.linear_operators.operator import LinearOperator
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.control_flow.checks import assert_positive
from aioexec.ops.linalg.factored import adjoint as adjoint_of
from aioexec.ops.linalg.linear_equations import matrix_triangular_solve
from aioexec.ops.linalg.matrix_diagonals import matrix_band_part, matrix_diag_part
from aioexec.ops.linalg.products import matmul
from aioexec.ops.reduction.reductions import reduce_prod, reduce_sum
from aioexec.shapes import TensorShape


class LinearOperatorLowerTriangular(LinearOperator):
    """The lower triangles of square matrices.

    Args:
        tril: [*batch_shape, n, n]; what is above the diagonal is not read.
        is_non_singular, is_self_adjoint, is_positive_definite, is_square: what is promised of the matrices; None for nothing.

    Raises:
        GraphValueError: `tril` is no matrix, or `is_square` is False.
    """

    def __init__(
        self,
        tril: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorLowerTriangular",
    ) -> None:
        if is_square is False:
            raise GraphValueError("Only square lower triangular operators supported at this time.")
        parameters = {key: value for key, value in locals().items() if key not in ("self", "__class__")}
        with name_scope(name, values=[tril]):
            self._tril = convert_to_tensor(tril, name="tril")
        if self._tril.dims is not None and len(self._tril.dims) < 2:
            raise GraphValueError(f"Argument tril must have at least 2 dimensions.  Found: {self._tril!r}")
        super().__init__(
            self._tril.dtype,
            [self._tril],
            is_non_singular,
            is_self_adjoint,
            is_positive_definite,
            is_square=True,
            name=name,
            parameters=parameters,
        )

    @property
    def tril(self) -> Tensor:
        """The tensor whose lower triangles the matrices are."""
        return self._tril

    def _shape(self) -> TensorShape:
        return self._tril.shape

    def _shape_tensor(self) -> Tensor:
        return shape(self._tril)

    def _to_dense(self) -> Tensor:
        return matrix_band_part(self._tril, -1, 0)

    def _diag_part(self) -> Tensor:
        return matrix_diag_part(self._tril)

    def _matmul(self, x: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return matmul(self._to_dense(), x, adjoint_a=adjoint, adjoint_b=adjoint_arg)

    def _solve(self, rhs: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        right = adjoint_of(rhs) if adjoint_arg else rhs
        return matrix_triangular_solve(self._to_dense(), right, lower=True, adjoint=adjoint)

    def _determinant(self) -> Tensor:
        return reduce_prod(self._diag_part(), axis=[-1])

    def _log_abs_determinant(self) -> Tensor:
        return reduce_sum(apply_op("Log", apply_op("Abs", self._diag_part())), axis=[-1])

    def _eigvals(self) -> Tensor:
        return self._diag_part()

    def _assert_non_singular(self) -> Operation:
        size = apply_op("Abs", self._diag_part())
        return assert_positive(size, message="Singular operator:  Diagonal contained zero values.")
