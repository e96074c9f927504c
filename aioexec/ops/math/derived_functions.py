"""Functions that are short formulas of ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.ops.common.elementwise import op_scope


def polyval(coeffs: Sequence[Any], x: Any, name: str | None = None) -> Tensor:
    """Evaluate a polynomial by Horner's rule; the first coefficient is that of the highest power.

    Raises:
        GraphValueError: the coefficients are no list.
    """
    if not isinstance(coeffs, list):
        raise GraphValueError(f"Argument coeffs must be list type. Received type {type(coeffs)}.")
    with op_scope(name, "polyval"):
        x = convert_to_tensor(x, name="x")
        if not coeffs:
            return apply_op("ZerosLike", x)
        tensors = [
            convert_to_tensor(coeff, x.dtype.base_dtype, name=f"{k}_coeff") for k, coeff in enumerate(coeffs)
        ]
        value = tensors[0]
        for coeff in tensors[1:]:
            value = coeff + value * x
        return value


def reciprocal_no_nan(x: Any, name: str | None = None) -> Tensor:
    """Return 1 / x, and 0 where x is 0."""
    with op_scope(name, "reciprocal_no_nan") as scope:
        tensor = convert_to_tensor(x, name="x")
        one = convert_to_tensor(np.ones((), tensor.dtype.base_dtype.numpy))
        return apply_op("DivNoNan", one, tensor, name=scope)


def erfcinv(x: Any, name: str | None = None) -> Tensor:
    """Return the inverse of erfc."""
    with op_scope(name, "erfcinv"):
        tensor = convert_to_tensor(x, name="start")
        half = convert_to_tensor(0.5, tensor.dtype.base_dtype)
        root = convert_to_tensor(0.5**0.5, tensor.dtype.base_dtype)
        return -apply_op("Ndtri", half * tensor) * root
