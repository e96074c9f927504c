"""Cells under the names of `tensorflow.python.ops.rnn_cell`, the module of 0.x."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aioexec.graph.node import Tensor
from aioexec.lazy_names import public_names
from aioexec.ops.array.joining import concat
from aioexec.ops.linalg.products import matmul
from aioexec.ops.state.initializers import constant_initializer
from aioexec.ops.state.variable_scope import get_variable, variable_scope

if TYPE_CHECKING:
    from aioexec.recurrent.rnn_cell import *  # noqa: F403
else:
    __getattr__, __dir__ = public_names(__name__)


def _linear(args: Any, output_size: int, bias: bool, bias_start: float = 0.0, scope: Any = None) -> Tensor:
    """Return `concat(args, 1) @ Matrix + Bias`, `[rows, output_size]`, with variables in the scope "Linear".

    Args:
        args: a matrix, or a list of matrices with equal numbers of rows.
        bias_start: the first value of the bias.
        scope: another scope.
    """
    parts = list(args) if isinstance(args, list | tuple) else [args]
    depth = sum(int(part.shape[1]) for part in parts)
    dtype = parts[0].dtype.base_dtype
    with variable_scope(scope or "Linear"):
        matrix = get_variable("Matrix", [depth, output_size], dtype)
        product: Tensor = matmul(parts[0] if len(parts) == 1 else concat(parts, 1), matrix)
        if not bias:
            return product
        biased: Tensor = product + get_variable(
            "Bias", [output_size], dtype, constant_initializer(bias_start, dtype=dtype)
        )
        return biased
