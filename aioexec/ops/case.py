"""The choice among several functions: conditionals, one in the other."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aioexec import dtypes
from aioexec.errors import GraphTypeError
from aioexec.graph.apply import apply_op, graph_of
from aioexec.graph.convert import constant
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Operation, Tensor
from aioexec.ops.cond import cond
from aioexec.ops.control import group, with_dependencies
from aioexec.ops.printing import Assert
from aioexec.ops.reduction import reduce_sum
from aioexec.ops.structure import map_structure

Action = Callable[[], Any]


def case(
    pred_fn_pairs: Any,
    default: Action | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """What the function of the first predicate that holds returns; what `default` returns if none holds.

    Args:
        pred_fn_pairs: pairs of a boolean scalar tensor and a function, in a list or dict. A dict is taken in the order of the
            names of its predicates.
        default: without it a step in which no predicate holds fails.
        exclusive: a step in which several predicates hold fails.
        strict: as in `cond`.

    Raises:
        GraphTypeError: the pairs or the default are not as said.
        InvalidArgumentError: (in a run) none, or several, of the predicates hold.
    """
    choose = functools.partial(cond, strict=strict)
    return build_case(choose, pred_fn_pairs, default, exclusive, name, allow_python_preds=False)


def build_case(
    choose: Callable[[Any, Action, Action], Any],
    pred_fn_pairs: Any,
    default: Action | None,
    exclusive: bool,
    name: str,
    allow_python_preds: bool,
) -> Any:
    """A case out of two-way choices; `choose(pred, true_fn, false_fn)` makes one."""
    pairs = _checked(pred_fn_pairs, allow_python_preds)
    if default is not None and not callable(default):
        raise GraphTypeError(f"'default' must be callable, got {default!r}")
    predicates = [pred for pred, _ in pairs]
    with graph_of(predicates).as_default() as graph, graph.name_scope(name):
        if default is None:
            default = _last_as_default(pairs)
            pairs = pairs[:-1]
        function = default
        for pred, action in reversed(pairs):
            function = functools.partial(choose, pred, action, function)
        if not exclusive:
            return function()
        checked = _assert_at_most(predicates, 1, "Input error: exclusive=True")
        with graph.control_dependencies([checked]):
            return function()


def _checked(pred_fn_pairs: Any, allow_python_preds: bool) -> list[tuple[Any, Action]]:
    if isinstance(pred_fn_pairs, Mapping):
        pred_fn_pairs = sorted(pred_fn_pairs.items(), key=lambda pair: getattr(pair[0], "name", ""))
    if not isinstance(pred_fn_pairs, list | tuple):
        raise GraphTypeError(f"'pred_fn_pairs' must be a list, tuple, or dict, got {pred_fn_pairs!r}")
    if not pred_fn_pairs:
        raise GraphTypeError("'pred_fn_pairs' must have at least one pair")
    for pair in pred_fn_pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise GraphTypeError(f"Each entry in 'pred_fn_pairs' must be a 2-tuple, got {pair!r}")
        pred, function = pair
        if isinstance(pred, Tensor):
            if pred.dtype.base_dtype != dtypes.bool:
                raise GraphTypeError(f"pred must be a Tensor of type bool, got {pred!r}")
        elif not allow_python_preds or not isinstance(pred, bool):
            raise GraphTypeError(
                f"pred must be a Tensor{' or a Python bool' if allow_python_preds else ''}, got {pred!r}"
            )
        if not callable(function):
            raise GraphTypeError(f"fn for pred {pred!r} must be callable, got {function!r}")
    return list(pred_fn_pairs)


def _last_as_default(pairs: Sequence[tuple[Any, Action]]) -> Action:
    """The last function, after a check that it is the one whose predicate holds."""
    others = [pred for pred, _ in pairs[:-1]]
    predicate, action = pairs[-1]

    def default() -> Any:
        checks = [
            Assert(
                predicate,
                ["Input error: None of conditions evaluated as True:", _stacked([*others, predicate])],
                name="Assert_1",
            )
        ]
        if others:
            problem = "was called, but some of other predicates are True"
            message = f"Implementation error: selected default action #{len(others)} {problem}"
            checks.append(_assert_at_most(others, 0, message))
        with get_default_graph().control_dependencies(checks):
            result = action()
        return None if result is None else map_structure(lambda leaf: _after(checks, leaf), result)

    return default


def _after(checks: Sequence[Operation], leaf: Any) -> Any:
    """What stands for a result only when the checks were passed: the result itself may be older than they are."""
    return group(leaf, *checks) if isinstance(leaf, Operation) else with_dependencies(checks, leaf)


def _stacked(predicates: Sequence[Any]) -> Tensor:
    stacked: Tensor = apply_op("Pack", list(predicates), name="preds_c")
    return stacked


def _assert_at_most(predicates: Sequence[Any], count: int, message: str) -> Operation:
    stacked = _stacked(predicates)
    holding = reduce_sum(apply_op("Cast", stacked, DstT=dtypes.int32), name="num_true_conds")
    fits = apply_op("LessEqual", holding, constant(count, name="n_true_conds"))
    names = ", ".join(getattr(pred, "name", "?") for pred in predicates)
    return Assert(
        fits,
        [f"{message}: more than {count} conditions ({names}) evaluated as True:", stacked],
        summarize=len(predicates),
    )
