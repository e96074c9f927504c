"""The names of TensorFlow 0.x: `import aioexec.compat.v0 as tf`.

Names and argument orders that 1.0 changed are here as they were; every other name is that of `aioexec`. Each docstring names
the later function, which new programs use.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.compat.v0 import image as image, nn as nn, train as train
    from aioexec.compat.v0.functions import (
        batch_cholesky as batch_cholesky,
        batch_fft as batch_fft,
        batch_fft2d as batch_fft2d,
        batch_fft3d as batch_fft3d,
        batch_ifft as batch_ifft,
        batch_ifft2d as batch_ifft2d,
        batch_ifft3d as batch_ifft3d,
        batch_matmul as batch_matmul,
        batch_matrix_band_part as batch_matrix_band_part,
        batch_matrix_determinant as batch_matrix_determinant,
        batch_matrix_diag as batch_matrix_diag,
        batch_matrix_diag_part as batch_matrix_diag_part,
        batch_matrix_inverse as batch_matrix_inverse,
        batch_matrix_set_diag as batch_matrix_set_diag,
        batch_matrix_solve as batch_matrix_solve,
        batch_matrix_solve_ls as batch_matrix_solve_ls,
        batch_matrix_transpose as batch_matrix_transpose,
        batch_matrix_triangular_solve as batch_matrix_triangular_solve,
        batch_self_adjoint_eig as batch_self_adjoint_eig,
        batch_self_adjoint_eigvals as batch_self_adjoint_eigvals,
        batch_svd as batch_svd,
        complex_abs as complex_abs,
        concat as concat,
        concat_v2 as concat_v2,
        inv as inv,
        listdiff as listdiff,
        mul as mul,
        neg as neg,
        pack as pack,
        select as select,
        split as split,
        split_v as split_v,
        sub as sub,
        unpack as unpack,
    )
    from aioexec.compat.v0.summaries import (
        audio_summary as audio_summary,
        histogram_summary as histogram_summary,
        image_summary as image_summary,
        merge_all_summaries as merge_all_summaries,
        merge_summary as merge_summary,
        scalar_summary as scalar_summary,
    )

    def __getattr__(name: str) -> Any:
        """Any name of `aioexec`."""

else:
    _find, __dir__ = public_names(__name__)

    def __getattr__(name: str) -> Any:
        """Return a name of 0.x, else one of `aioexec`."""
        try:
            return _find(name)
        except AttributeError:
            return getattr(sys.modules["aioexec"], name)
