"""Python's operators on tensors: the table that the package puts into `graph.operators.OPERATORS`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from aioexec import dtypes
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import symbolic_dtype
from aioexec.ops.array import gathering, slicing
from aioexec.ops.linalg.products import matmul
from aioexec.ops.math import arithmetic, comparison, math_functions


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a binary operator whose node is called `name`."""
    return lambda x, y: function(x, y, name=name)


def _getitem(tensor: Any, key: Any, var: Any = None) -> Any:
    """Implement `tensor[key]`: boolean_mask for a bool tensor, else a slice."""
    if symbolic_dtype(key) == dtypes.bool_:
        return gathering.boolean_mask(tensor, key)
    return slicing.getitem(tensor, key, var=var)


def _with_dense(op_type: str) -> Callable[..., Any]:
    """Return an operator on a sparse tensor and a dense one, a number too; the dense one is broadcast."""

    def compute(sparse: Any, dense: Any) -> Any:
        values = apply_op(op_type, sparse.indices, sparse.values, sparse.dense_shape, dense)
        return type(sparse)(sparse.indices, values, sparse.dense_shape)

    return compute


OPERATORS_TABLE: Final[dict[str, Callable[..., Any]]] = {
    "add": _named(arithmetic.add, "add"),
    "sub": _named(arithmetic.subtract, "sub"),
    "mul": _named(arithmetic.multiply, "mul"),
    "truediv": _named(arithmetic.truediv, "truediv"),
    "floordiv": _named(arithmetic.floordiv, "floordiv"),
    "mod": _named(arithmetic.floormod, "mod"),
    "pow": _named(arithmetic.pow, "pow"),
    "matmul": matmul,
    "and": _named(comparison.logical_and, "and"),
    "or": _named(comparison.logical_or, "or"),
    "xor": _named(comparison.logical_xor, "xor"),
    "lt": _named(comparison.less, "Less"),
    "le": _named(comparison.less_equal, "LessEqual"),
    "gt": _named(comparison.greater, "Greater"),
    "ge": _named(comparison.greater_equal, "GreaterEqual"),
    "neg": lambda x: apply_op("Neg", x),
    "abs": math_functions.abs,
    "invert": comparison.logical_not,
    "getitem": _getitem,
    "sparse_mul": _with_dense("SparseDenseCwiseMul"),
    "sparse_truediv": _with_dense("SparseDenseCwiseDiv"),
}
