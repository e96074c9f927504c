"""Functions that TensorFlow 1.0 renamed, or whose arguments it put in another order."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from aioexec import dtypes
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.ops.array.arrays import matrix_transpose
from aioexec.ops.array.joining import concat as concat_in_order, split as split_in_order, stack, unstack
from aioexec.ops.array.set_difference import ListDiff, setdiff1d
from aioexec.ops.linalg.decompositions import cholesky, self_adjoint_eig, self_adjoint_eigvals, svd
from aioexec.ops.linalg.linear_equations import (
    matrix_determinant,
    matrix_inverse,
    matrix_solve,
    matrix_solve_ls,
    matrix_triangular_solve,
)
from aioexec.ops.linalg.matrix_diagonals import (
    matrix_band_part,
    matrix_diag,
    matrix_diag_part,
    matrix_set_diag,
)
from aioexec.ops.linalg.products import matmul
from aioexec.ops.math.arithmetic import multiply, subtract
from aioexec.ops.math.comparison import where
from aioexec.ops.math.fourier import fft, fft2d, fft3d, ifft, ifft2d, ifft3d
from aioexec.ops.math.math_functions import negative, reciprocal


def renamed(old: str, function: Callable[..., Any], later: str) -> Callable[..., Any]:
    """Return a function under its old name; its docstring names the later one."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    call.__name__ = call.__qualname__ = old
    call.__doc__ = f"Return what `{later}` returns: its name in TensorFlow 0.x."
    return call


mul = renamed("mul", multiply, "multiply")
sub = renamed("sub", subtract, "subtract")
neg = renamed("neg", negative, "negative")
inv = renamed("inv", reciprocal, "reciprocal")
concat_v2 = renamed("concat_v2", concat_in_order, "concat")

batch_cholesky = renamed("batch_cholesky", cholesky, "cholesky")
batch_fft = renamed("batch_fft", fft, "fft")
batch_fft2d = renamed("batch_fft2d", fft2d, "fft2d")
batch_fft3d = renamed("batch_fft3d", fft3d, "fft3d")
batch_ifft = renamed("batch_ifft", ifft, "ifft")
batch_ifft2d = renamed("batch_ifft2d", ifft2d, "ifft2d")
batch_ifft3d = renamed("batch_ifft3d", ifft3d, "ifft3d")
batch_matrix_band_part = renamed("batch_matrix_band_part", matrix_band_part, "matrix_band_part")
batch_matrix_determinant = renamed("batch_matrix_determinant", matrix_determinant, "matrix_determinant")
batch_matrix_diag = renamed("batch_matrix_diag", matrix_diag, "matrix_diag")
batch_matrix_diag_part = renamed("batch_matrix_diag_part", matrix_diag_part, "matrix_diag_part")
batch_matrix_inverse = renamed("batch_matrix_inverse", matrix_inverse, "matrix_inverse")
batch_matrix_set_diag = renamed("batch_matrix_set_diag", matrix_set_diag, "matrix_set_diag")
batch_matrix_solve = renamed("batch_matrix_solve", matrix_solve, "matrix_solve")
batch_matrix_solve_ls = renamed("batch_matrix_solve_ls", matrix_solve_ls, "matrix_solve_ls")
batch_matrix_transpose = renamed("batch_matrix_transpose", matrix_transpose, "matrix_transpose")
batch_matrix_triangular_solve = renamed(
    "batch_matrix_triangular_solve", matrix_triangular_solve, "matrix_triangular_solve"
)
batch_self_adjoint_eig = renamed("batch_self_adjoint_eig", self_adjoint_eig, "self_adjoint_eig")
batch_self_adjoint_eigvals = renamed(
    "batch_self_adjoint_eigvals", self_adjoint_eigvals, "self_adjoint_eigvals"
)
batch_svd = renamed("batch_svd", svd, "svd")


def concat(concat_dim: Any, values: Any, name: str = "concat") -> Tensor:
    """Join tensors along a dimension: `concat(values, axis)` since 1.0."""
    return concat_in_order(values, concat_dim, name)


def split(split_dim: Any, num_split: int, value: Any, name: str = "split") -> list[Tensor]:
    """Cut a tensor into equal parts along a dimension: `split(value, num_or_size_splits, axis)` since 1.0."""
    return split_in_order(value, num_split, split_dim, name=name)


def split_v(
    value: Any, size_splits: Any, split_dim: Any = 0, num: int | None = None, name: str = "split_v"
) -> list[Tensor]:
    """Cut a tensor into parts of these sizes: `split(value, num_or_size_splits, axis)` since 1.0."""
    return split_in_order(value, size_splits, split_dim, num, name)


def pack(values: Any, axis: int = 0, name: str = "pack") -> Tensor:
    """Join tensors along a new dimension: `stack` since 1.0."""
    return stack(values, axis, name)


def unpack(value: Any, num: int | None = None, axis: int = 0, name: str = "unpack") -> list[Tensor]:
    """Take a tensor apart along a dimension, which goes away: `unstack` since 1.0."""
    return unstack(value, num, axis, name)


def select(condition: Any, t: Any, e: Any, name: str | None = None) -> Tensor:
    """Choose from `t` where the condition is true, else from `e`: `where` since 1.0."""
    return where(condition, t, e, name)


def listdiff(x: Any, y: Any, out_idx: Any = dtypes.int32, name: str | None = None) -> ListDiff:
    """Return the elements of one vector that are not in another, and their places: `setdiff1d` since 1.0."""
    return setdiff1d(x, y, out_idx, name)


def complex_abs(x: Any, name: str | None = None) -> Tensor:
    """Return the absolute values of complex numbers, of float32 or float64: `abs` since 1.0."""
    tensor = convert_to_tensor(x, name="x")
    real = dtypes.float64 if tensor.dtype.base_dtype == dtypes.complex128 else dtypes.float32
    return apply_op("ComplexAbs", tensor, Tout=real, name=name)


def batch_matmul(x: Any, y: Any, adj_x: bool = False, adj_y: bool = False, name: str | None = None) -> Tensor:
    """Multiply batches of matrices, adjoint ones if asked for: `matmul(x, y, adjoint_a, adjoint_b)` since 1.0."""
    return matmul(x, y, adjoint_a=adj_x, adjoint_b=adj_y, name=name)
