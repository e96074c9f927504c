"""Linear algebra under the names of `tf.linalg`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.linear_operators.lower_triangular import (
        LinearOperatorLowerTriangular as LinearOperatorLowerTriangular,
    )
    from aioexec.linear_operators.operator import LinearOperator as LinearOperator
    from aioexec.ops.array.arrays import matrix_transpose as matrix_transpose, matrix_transpose as transpose
    from aioexec.ops.linalg.decompositions import (
        cholesky as cholesky,
        lu as lu,
        qr as qr,
        self_adjoint_eig as eigh,
        self_adjoint_eigvals as eigvalsh,
        svd as svd,
    )
    from aioexec.ops.linalg.einsum import einsum as einsum
    from aioexec.ops.linalg.factored import (
        adjoint as adjoint,
        lu_matrix_inverse as lu_matrix_inverse,
        lu_reconstruct as lu_reconstruct,
        lu_solve as lu_solve,
        matrix_rank as matrix_rank,
        matvec as matvec,
        pinv as pinv,
    )
    from aioexec.ops.linalg.linear_equations import (
        cholesky_solve as cholesky_solve,
        logdet as logdet,
        matrix_determinant as det,
        matrix_inverse as inv,
        matrix_solve as solve,
        matrix_solve_ls as lstsq,
        matrix_triangular_solve as triangular_solve,
        slogdet as slogdet,
    )
    from aioexec.ops.linalg.matrix_diagonals import (
        diag as tensor_diag,
        diag_part as tensor_diag_part,
        eye as eye,
        matrix_band_part as band_part,
        matrix_diag as diag,
        matrix_diag_part as diag_part,
        matrix_set_diag as set_diag,
        trace as trace,
    )
    from aioexec.ops.linalg.matrix_functions import (
        matrix_exponential as expm,
        matrix_logarithm as logm,
        matrix_square_root as sqrtm,
    )
    from aioexec.ops.linalg.products import cross as cross, matmul as matmul
    from aioexec.ops.linalg.tensordot import tensordot as tensordot
    from aioexec.ops.nn.nn_ops import l2_normalize as l2_normalize
    from aioexec.ops.reduction.norms import global_norm as global_norm, norm as norm, normalize as normalize

    __all__ = [
        "LinearOperator",
        "LinearOperatorLowerTriangular",
        "adjoint",
        "band_part",
        "cholesky",
        "cholesky_solve",
        "cross",
        "det",
        "diag",
        "diag_part",
        "eigh",
        "eigvalsh",
        "einsum",
        "expm",
        "eye",
        "global_norm",
        "inv",
        "l2_normalize",
        "logdet",
        "logm",
        "lstsq",
        "lu",
        "lu_matrix_inverse",
        "lu_reconstruct",
        "lu_solve",
        "matmul",
        "matrix_rank",
        "matrix_transpose",
        "matvec",
        "norm",
        "normalize",
        "pinv",
        "qr",
        "set_diag",
        "slogdet",
        "solve",
        "sqrtm",
        "svd",
        "tensor_diag",
        "tensor_diag_part",
        "tensordot",
        "trace",
        "transpose",
        "triangular_solve",
    ]
else:
    __getattr__, __dir__ = public_names(__name__)
