"""The base class of linear operators: matrices [..., n, m] with products and solutions that use their structure.

A subclass defines `_shape`, `_shape_tensor`, `_matmul`, and what it computes with less work than of the dense matrix.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.scopes import name_scope
from aioexec.ops.control_flow.checks import assert_equal, assert_positive
from aioexec.ops.linalg.decompositions import cholesky, self_adjoint_eigvals
from aioexec.ops.linalg.factored import adjoint as adjoint_of
from aioexec.ops.linalg.linear_equations import matrix_determinant, matrix_solve, slogdet
from aioexec.ops.linalg.matrix_diagonals import eye, matrix_diag_part
from aioexec.ops.reduction.reductions import reduce_sum
from aioexec.shapes import Dimension, TensorShape


class LinearOperator:
    """A batch of matrices [*batch_shape, n, m].

    Args:
        dtype: of the elements.
        graph_parents: the tensors that the operator depends on.
        is_non_singular, is_self_adjoint, is_positive_definite, is_square: what is promised of the matrices; None for nothing.
        name: of the scope of its nodes, by default that of the class.

    Raises:
        GraphValueError: the promises contradict one another.
    """

    def __init__(
        self,
        dtype: Any,
        graph_parents: list[Any] | None = None,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> None:
        if is_positive_definite:
            if is_non_singular is False:
                raise GraphValueError("A positive definite matrix is always non-singular.")
            is_non_singular = True
        for is_so, kind in ((is_non_singular, "non-singular"), (is_self_adjoint, "self-adjoint")):
            if is_so and is_square is False:
                raise GraphValueError(f"A {kind} matrix is always square.")
            is_square = True if is_so else is_square
        self._dtype = dtypes.as_dtype(dtype).base_dtype
        self._graph_parents = list(graph_parents or [])
        self._is_non_singular = is_non_singular
        self._is_self_adjoint = is_self_adjoint
        self._is_positive_definite = is_positive_definite
        self._is_square = is_square
        self._name = name or type(self).__name__
        self._parameters = dict(parameters or {})

    # Properties

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return dict(self._parameters)

    @property
    def dtype(self) -> dtypes.DType:
        """The dtype of the elements."""
        return self._dtype

    @property
    def name(self) -> str:
        """The name of the operator."""
        return self._name

    @property
    def graph_parents(self) -> list[Any]:
        """The tensors that the operator depends on."""
        return list(self._graph_parents)

    @property
    def is_non_singular(self) -> bool | None:
        """Whether an inverse is promised."""
        return self._is_non_singular

    @property
    def is_self_adjoint(self) -> bool | None:
        """Whether equality with the adjoint is promised."""
        return self._is_self_adjoint

    @property
    def is_positive_definite(self) -> bool | None:
        """Whether x' A x > 0 for x ≠ 0 is promised."""
        return self._is_positive_definite

    @property
    def is_square(self) -> bool | None:
        """Whether n = m, promised or known."""
        is_square = self.domain_dimension.value == self.range_dimension.value
        return is_square if self._is_square is None else self._is_square

    @property
    def shape(self) -> TensorShape:
        """The static shape, perhaps partially unknown."""
        return self._shape()

    @property
    def batch_shape(self) -> TensorShape:
        """The static shape without the last two dimensions."""
        dims = self.shape.as_list() if self.shape.ndims is not None else None
        return TensorShape(None if dims is None else dims[:-2])

    @property
    def tensor_rank(self) -> int | None:
        """The number of dimensions."""
        return self.shape.ndims

    @property
    def domain_dimension(self) -> Dimension:
        """The size m of the vectors that it is applied to."""
        return Dimension(None if self.shape.ndims is None else self.shape.as_list()[-1])

    @property
    def range_dimension(self) -> Dimension:
        """The size n of the results."""
        return Dimension(None if self.shape.ndims is None else self.shape.as_list()[-2])

    # Shapes in a run

    def shape_tensor(self, name: str = "shape_tensor") -> Tensor:
        """Return the shape as an int32 vector."""
        with self._scope(name):
            if self.shape.is_fully_defined():
                return constant(np.array(self.shape.as_list(), np.int32), dtypes.int32)
            return self._shape_tensor()

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Tensor:
        """Return the shape without the last two dimensions as an int32 vector."""
        with self._scope(name):
            return self._shape_tensor()[:-2]

    def tensor_rank_tensor(self, name: str = "tensor_rank_tensor") -> Tensor:
        """Return the number of dimensions as an int32 scalar."""
        with self._scope(name):
            return apply_op("Size", self._shape_tensor())

    def domain_dimension_tensor(self, name: str = "domain_dimension_tensor") -> Tensor:
        """Return m as an int32 scalar."""
        with self._scope(name):
            return self._shape_tensor()[-1]

    def range_dimension_tensor(self, name: str = "range_dimension_tensor") -> Tensor:
        """Return n as an int32 scalar."""
        with self._scope(name):
            return self._shape_tensor()[-2]

    # Products and solutions

    def matmul(
        self, x: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "matmul"
    ) -> Tensor:
        """Return A x for matrices x [..., m, k]; of the adjoint of A, and of x, if asked for."""
        with self._scope(name, x):
            return self._matmul(self._operand(x), adjoint=adjoint, adjoint_arg=adjoint_arg)

    def matvec(self, x: Any, adjoint: bool = False, name: str = "matvec") -> Tensor:
        """Return A x for vectors x [..., m]."""
        with self._scope(name, x):
            column = apply_op("ExpandDims", self._operand(x), -1)
            return apply_op("Squeeze", self._matmul(column, adjoint=adjoint), squeeze_dims=[-1])

    def solve(
        self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "solve"
    ) -> Tensor:
        """Return the solution of A x = rhs for matrices rhs [..., n, k].

        Raises:
            NotImplementedError: the matrices are promised to be singular or not square.
        """
        self._require_inverse()
        with self._scope(name, rhs):
            return self._solve(self._operand(rhs), adjoint=adjoint, adjoint_arg=adjoint_arg)

    def solvevec(self, rhs: Any, adjoint: bool = False, name: str = "solve") -> Tensor:
        """Return the solution of A x = rhs for vectors rhs [..., n]; raises as `solve`."""
        self._require_inverse()
        with self._scope(name, rhs):
            column = apply_op("ExpandDims", self._operand(rhs), -1)
            return apply_op("Squeeze", self._solve(column, adjoint=adjoint), squeeze_dims=[-1])

    def _operand(self, x: Any) -> Tensor:
        """Convert an operand; raises GraphTypeError for another dtype."""
        given = convert_to_tensor(x, name="x", preferred_dtype=self.dtype)
        if given.dtype.base_dtype is not self.dtype:
            raise GraphTypeError(f"Argument must have dtype {self.dtype.name}. Found: {given.dtype.name}")
        return given

    def _require_inverse(self) -> None:
        if self.is_non_singular is False or self.is_square is False:
            raise NotImplementedError(
                "Exact solve not implemented for an operator that is expected to be singular or not square."
            )

    # Functions of the matrices

    def determinant(self, name: str = "det") -> Tensor:
        """Return the determinants [*batch_shape]."""
        with self._scope(name):
            return self._determinant()

    def log_abs_determinant(self, name: str = "log_abs_det") -> Tensor:
        """Return the logarithms of the absolute values of the determinants [*batch_shape]."""
        with self._scope(name):
            return self._log_abs_determinant()

    def to_dense(self, name: str = "to_dense") -> Tensor:
        """Return the matrices."""
        with self._scope(name):
            return self._to_dense()

    def diag_part(self, name: str = "diag_part") -> Tensor:
        """Return the diagonals [*batch_shape, min(n, m)]."""
        with self._scope(name):
            return self._diag_part()

    def trace(self, name: str = "trace") -> Tensor:
        """Return the sums of the diagonals [*batch_shape]."""
        with self._scope(name):
            return reduce_sum(self._diag_part(), axis=-1)

    def add_to_tensor(self, x: Any, name: str = "add_to_tensor") -> Tensor:
        """Return A + x."""
        with self._scope(name, x):
            return self._to_dense() + self._operand(x)

    def eigvals(self, name: str = "eigvals") -> Tensor:
        """Return the eigenvalues of self-adjoint matrices.

        Raises:
            NotImplementedError: the matrices are not promised to be self-adjoint.
        """
        if not self.is_self_adjoint:
            raise NotImplementedError("Only self-adjoint matrices are supported.")
        with self._scope(name):
            return self._eigvals()

    # Assertions

    def assert_non_singular(self, name: str = "assert_non_singular") -> Operation:
        """Return an assertion that the matrices have inverses."""
        with self._scope(name):
            return self._assert_non_singular()

    def assert_positive_definite(self, name: str = "assert_positive_definite") -> Operation:
        """Return an assertion that self-adjoint matrices are positive definite."""
        with self._scope(name):
            diagonal = matrix_diag_part(cholesky(self._to_dense()))
            return assert_positive(diagonal, message="Matrix was not positive definite.")

    def assert_self_adjoint(self, name: str = "assert_self_adjoint") -> Operation:
        """Return an assertion that the matrices are their own adjoints."""
        with self._scope(name):
            dense = self._to_dense()
            return assert_equal(dense, adjoint_of(dense), message="Matrix was not equal to its adjoint.")

    # What subclasses define

    def _shape(self) -> TensorShape:
        raise NotImplementedError("_shape is not implemented.")

    def _shape_tensor(self) -> Tensor:
        raise NotImplementedError("_shape_tensor is not implemented.")

    def _matmul(self, x: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        raise NotImplementedError("_matmul is not implemented.")

    def _solve(self, rhs: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return matrix_solve(self._to_dense(), adjoint_of(rhs) if adjoint_arg else rhs, adjoint=adjoint)

    def _determinant(self) -> Tensor:
        return matrix_determinant(self._to_dense())

    def _log_abs_determinant(self) -> Tensor:
        found: Tensor = slogdet(self._to_dense())[1]
        return found

    def _to_dense(self) -> Tensor:
        whole = self._shape_tensor()
        return self._matmul(eye(whole[-1], batch_shape=whole[:-2], dtype=self.dtype))

    def _diag_part(self) -> Tensor:
        return matrix_diag_part(self._to_dense())

    def _eigvals(self) -> Tensor:
        return self_adjoint_eigvals(self._to_dense())

    def _assert_non_singular(self) -> Operation:
        size = apply_op("Abs", self._determinant())
        return assert_positive(size, message="Singular operator: its determinant is zero.")

    @contextlib.contextmanager
    def _scope(self, name: str, *values: Any) -> Iterator[str]:
        with name_scope(f"{self.name}/{name}", values=[*values, *self._graph_parents]) as scope:
            yield scope
