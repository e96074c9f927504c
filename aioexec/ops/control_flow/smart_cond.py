"""Conditionals that are resolved at graph construction if the predicate is static."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aioexec.errors import GraphTypeError
from aioexec.graph.node import Tensor
from aioexec.graph.static_values import constant_value
from aioexec.ops.control_flow.case import build_case
from aioexec.ops.control_flow.cond import cond


def smart_constant_value(pred: Any) -> bool | None:
    """Return the value of a boolean scalar if it is static, else None.

    Raises:
        GraphTypeError: `pred` is neither a tensor nor a bool, 0 or 1.
    """
    if isinstance(pred, Tensor):
        value = constant_value(pred)
        return None if value is None else bool(value)
    if not isinstance(pred, bool | int) or pred not in (0, 1):
        raise GraphTypeError(
            f"Argument 'pred' must be a Tensor, or a Python bool, or 1 or 0, got {pred!r} of type {type(pred).__name__}"
        )
    return bool(pred)


def smart_cond(
    pred: Any,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    name: str | None = None,
) -> Any:
    """Return the result of one of the functions if the predicate is static, else a `cond`.

    Raises:
        GraphTypeError: a function is not callable, or `pred` is not a predicate.
    """
    for argument, function in (("true_fn", true_fn), ("false_fn", false_fn)):
        if not callable(function):
            raise GraphTypeError(f"Argument '{argument}' must be callable, got {function!r}")
    assert true_fn is not None
    assert false_fn is not None
    known = smart_constant_value(pred)
    if known is None:
        return cond(pred, true_fn, false_fn, name=name)
    return true_fn() if known else false_fn()


def smart_case(
    pred_fn_pairs: Any,
    default: Callable[[], Any] | None = None,
    exclusive: bool = False,
    name: str = "smart_case",
) -> Any:
    """As `case`, with predicates that may be Python bools; static predicates are resolved at graph construction."""
    return build_case(smart_cond, pred_fn_pairs, default, exclusive, name, allow_python_preds=True)
