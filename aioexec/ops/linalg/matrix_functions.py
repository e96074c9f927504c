"""Functions of square matrices: exponential, logarithm and square root, computed by SciPy one matrix at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError, OpError, UnimplementedError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.kernels.interruption import interruptible
from aioexec.graph.kernels.kernel import Compute, plain
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import register, undefined_gradient
from aioexec.ops.common.elementwise import Array
from aioexec.ops.linalg.matrices import check_matrices, each_matrix, square_dims, turned, wide

_MOST_CALLS = {"_sqrtm_triu": 128}
"""Square roots after which `logm` is stopped: it iterates until they approach the identity, after an overflow endlessly."""


def _by_scipy(name: str) -> Compute:
    """Return a function of `scipy.linalg`; NaN for matrices that are not finite, and for complex results of real matrices."""

    def compute(x: Array) -> Array:
        check_matrices(x, square=True)
        from scipy import linalg

        def one(matrix: Array) -> Array:
            if not matrix.size:
                return matrix
            if not np.isfinite(matrix).all():
                return np.full_like(matrix, complex(np.nan, np.nan) if matrix.dtype.kind == "c" else np.nan)
            double = matrix.astype(np.result_type(matrix, np.float64))
            try:
                value = np.asarray(interruptible(lambda: getattr(linalg, name)(double), _MOST_CALLS))
            except OpError:
                raise
            except Exception as error:
                if name == "logm":  # a square root overflowed, or the bound was reached
                    return np.full_like(matrix, complex(np.nan, np.nan))
                raise InvalidArgumentError(f"Input matrix: {error}") from None
            if value.dtype.kind == "c" and matrix.dtype.kind != "c":
                return np.where(np.any(value.imag), np.nan, value.real)
            return value

        return each_matrix(one, x)

    return wide(compute)


def _root_gradient(op: Operation, dy: Tensor) -> list[Tensor]:
    """Solve Y' dx + dx Y' = dy (a Sylvester equation) for dx as one linear system; Y' is the transposed root.

    For complex matrices Y' should be conjugated; as in TensorFlow, it is not.
    """
    dims = op.inputs[0].dims
    if dims is None or dims[-1] is None:
        raise UnimplementedError(f"gradient of {op.type} {op.name!r}: expected a known number of rows")
    size = dims[-1]
    root = _transposed(op.outputs[0])
    unit = convert_to_tensor(np.eye(size), root.dtype.base_dtype)
    batch = apply_op("StridedSlice", apply_op("Shape", root), [0], [-2], [1], begin_mask=1)

    def shaped(x: Tensor, *last: int) -> Tensor:
        return apply_op(
            "Reshape", x, apply_op("ConcatV2", [batch, convert_to_tensor(list(last), "int32")], 0)
        )

    fixed = apply_op("Reshape", unit, [size, 1, size, 1]) * shaped(root, 1, size, 1, size)
    moved = apply_op("Reshape", unit, [1, size, 1, size]) * shaped(_transposed(root), size, 1, size, 1)
    system = shaped(moved + fixed, size * size, size * size)
    columns = shaped(_transposed(dy), size * size, 1)
    return [_transposed(shaped(apply_op("MatrixSolve", system, columns), size, size))]


def _transposed(x: Tensor) -> Tensor:
    turned_over = turned(x)
    return apply_op("Conj", turned_over) if x.dtype.is_complex else turned_over


for _name, _types, _function, _gradient in (
    ("MatrixExponential", "@19", "expm", undefined_gradient),
    ("MatrixLogarithm", "{complex64|complex128}", "logm", undefined_gradient),
    ("MatrixSquareRoot", "@19", "sqrtm", _root_gradient),
):
    register(
        f"{_name}(input:T) -> (output:T) [T:type{_types}]",
        shape=lambda context: [square_dims(context.inputs[0])],
        kernel=plain(_by_scipy(_function)),
        gradient=_gradient,
    )


def matrix_exponential(input: Any, name: str | None = None) -> Tensor:
    """Return the exponentials of square matrices."""
    return apply_op("MatrixExponential", input, name=name)


def matrix_logarithm(input: Any, name: str | None = None) -> Tensor:
    """Return the principal logarithms of complex square matrices."""
    return apply_op("MatrixLogarithm", input, name=name)


def matrix_square_root(input: Any, name: str | None = None) -> Tensor:
    """Return the principal square roots of square matrices."""
    return apply_op("MatrixSquareRoot", input, name=name)
