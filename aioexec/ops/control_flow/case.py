"""case and switch_case: selection among several functions, built from nested conditionals."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aioexec import dtypes
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import apply_op, graph_of
from aioexec.graph.convert import constant
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Operation, Tensor
from aioexec.ops.control_flow.cond import cond
from aioexec.ops.control_flow.dependencies import group, with_dependencies
from aioexec.ops.control_flow.nesting import map_structure
from aioexec.ops.control_flow.printing import Assert
from aioexec.ops.reduction.reductions import reduce_sum

Action = Callable[[], Any]


def case(
    pred_fn_pairs: Any,
    default: Action | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """Return the result of the function whose predicate is the first to hold, or of `default` if none holds.

    Args:
        pred_fn_pairs: a list or dict of (boolean scalar tensor, function); a dict is ordered by the names of its predicates.
        default: without it, a step in which no predicate holds fails.
        exclusive: whether a step in which several predicates hold fails.
        strict: as in `cond`.

    Raises:
        GraphTypeError: the pairs or the default have another form.
        InvalidArgumentError: (in a run) none, or several, of the predicates hold.
    """
    choose = functools.partial(cond, strict=strict)
    return build_case(choose, pred_fn_pairs, default, exclusive, name, allow_python_preds=False)


def switch_case(
    branch_index: Any, branch_fns: Any, default: Action | None = None, name: str = "switch_case"
) -> Any:
    """Return the result of the function at an index; of `default` or the last function if the index is out of range.

    Args:
        branch_index: an integer scalar tensor.
        branch_fns: functions, or a list or dict of (index, function); the indices must be 0, 1, … in any order.

    Raises:
        GraphTypeError, GraphValueError: an argument has another form.
    """
    actions = _sorted_branches(branch_index, branch_fns)
    if default is not None:
        if not callable(default):
            raise GraphTypeError(f"'default' must be callable, got {default!r}")
        actions.append(default)
    with graph_of([branch_index]).as_default() as graph, graph.name_scope(name):
        index = apply_op("Cast", branch_index, DstT=dtypes.int32, name="branch_index")
        last = constant(len(actions) - 1)
        is_valid = apply_op(
            "LogicalAnd", apply_op("GreaterEqual", index, 0), apply_op("LessEqual", index, last)
        )
        return _binary_search(apply_op("SelectV2", is_valid, index, last), actions, 0)


def _binary_search(index: Tensor, actions: Sequence[Action], first: int) -> Any:
    """Select a function by binary search; `first` is the index of `actions[0]`."""
    if len(actions) == 1:
        return actions[0]()
    half = len(actions) // 2
    lower, upper = actions[:half], actions[half:]
    return cond(
        apply_op("Less", index, first + half),
        functools.partial(_binary_search, index, lower, first),
        functools.partial(_binary_search, index, upper, first + half),
    )


def _sorted_branches(branch_index: Any, branch_fns: Any) -> list[Action]:
    """Return the functions in the order of their indices."""
    if not isinstance(branch_index, Tensor) or not branch_index.dtype.is_integer:
        raise GraphTypeError(f"'branch_index' must be a Tensor of integers, got {branch_index!r}")
    if not branch_fns:
        raise GraphValueError("Must provide at least one item in 'branch_fns'")
    if not isinstance(branch_fns, list | tuple | Mapping):
        raise GraphTypeError(f"'branch_fns' must be a list, tuple, or dict, got {branch_fns!r}")
    pairs = list(branch_fns.items()) if isinstance(branch_fns, Mapping) else list(branch_fns)
    if all(callable(function) for function in pairs):
        pairs = list(enumerate(pairs))
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise GraphTypeError(f"Each entry in 'branch_fns' must be a 2-tuple, got {pair!r}")
        if not isinstance(pair[0], int) or not callable(pair[1]):
            raise GraphTypeError(
                f"an entry in 'branch_fns' must be a Python int and a callable, got {pair!r}"
            )
    keys = sorted(key for key, _ in pairs)
    if keys != list(range(len(pairs))):
        raise GraphValueError(
            f"branch indices (keys) must form contiguous range of [0 to {len(pairs)}), got {keys}"
        )
    return [function for _, function in sorted(pairs, key=lambda pair: pair[0])]


def build_case(
    choose: Callable[[Any, Action, Action], Any],
    pred_fn_pairs: Any,
    default: Action | None,
    exclusive: bool,
    name: str,
    allow_python_preds: bool,
) -> Any:
    """Build a case from two-way conditionals, which `choose(pred, true_fn, false_fn)` creates."""
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
    """Return the last function, preceded by a check that its predicate holds."""
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
        return None if result is None else map_structure(lambda leaf: _after_checks(checks, leaf), result)

    return default


def _after_checks(checks: Sequence[Operation], leaf: Any) -> Any:
    """Return the result after the checks; control dependencies alone do not delay a tensor that already existed."""
    return group(leaf, *checks) if isinstance(leaf, Operation) else with_dependencies(checks, leaf)


def _stacked(predicates: Sequence[Any]) -> Tensor:
    return apply_op("Pack", list(predicates), name="preds_c")


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
