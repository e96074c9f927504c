"""What Python's operators do on tensors: the table the package puts into `graph.node.OPERATORS`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from aioexec.graph.apply import apply_op
from aioexec.ops import arithmetic, comparison, math_functions, slicing


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A binary operator whose node is called `name`."""
    return lambda x, y: function(x, y, name=name)


def _matmul(x: Any, y: Any) -> Any:
    from aioexec.ops.linalg import matmul  # a later family

    return matmul(x, y)


OPERATORS_TABLE: Final[dict[str, Callable[..., Any]]] = {
    "add": _named(arithmetic.add, "add"),
    "sub": _named(arithmetic.subtract, "sub"),
    "mul": _named(arithmetic.multiply, "mul"),
    "truediv": _named(arithmetic.truediv, "truediv"),
    "floordiv": _named(arithmetic.floordiv, "floordiv"),
    "mod": _named(arithmetic.floormod, "mod"),
    "pow": _named(arithmetic.pow, "pow"),
    "matmul": _matmul,
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
    "getitem": slicing.getitem,
}
