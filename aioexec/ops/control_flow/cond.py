"""The conditional: runs the nodes of one of two functions, depending on a predicate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import apply_op, graph_of
from aioexec.graph.control_flow import CondContext
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.graph import Graph
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Operation, Tensor
from aioexec.ops.control_flow.dependencies import with_dependencies
from aioexec.ops.control_flow.nesting import assert_same_structure, flatten, map_structure, pack_sequence_as
from aioexec.ops.control_flow.primitives import merge, switch

BranchFunction = Callable[[], Any]


def cond(
    pred: Any,
    true_fn: BranchFunction | None = None,
    false_fn: BranchFunction | None = None,
    strict: bool = False,
    name: str | None = None,
    fn1: BranchFunction | None = None,
    fn2: BranchFunction | None = None,
) -> Any:
    """Return the result of `true_fn()` if the boolean scalar `pred` holds, else of `false_fn()`.

    Both functions are called once, to build their branches; a step runs the nodes of one branch only. Tensors created outside
    of the functions are computed in either case. Both must return the same structure of tensors; an operation in it is
    converted to a tensor that is available after it has run.

    Args:
        strict: keep a list or tuple of one element; by default return the element.
        fn1, fn2: older names of `true_fn` and `false_fn`.

    Raises:
        GraphTypeError, GraphValueError: `pred` is a Python bool, a function is not callable, or their results differ in
            structure or dtypes.
    """
    true_fn = _either(true_fn, fn1, "true_fn", "fn1")
    false_fn = _either(false_fn, fn2, "false_fn", "fn2")
    if isinstance(pred, bool):
        raise GraphTypeError("'pred' must not be a Python bool: the graph would not depend on it")
    with graph_of([pred]).as_default() as graph, graph.name_scope(name or "cond"):
        contexts = _branch_contexts(graph, pred)
        results = (
            _build_branch(contexts[0], true_fn, "true_fn", strict),
            _build_branch(contexts[1], false_fn, "false_fn", strict),
        )
        merged = _merge_results(*results)
        _record(graph, contexts)
        return merged


def _either(function: Any, older: Any, name: str, older_name: str) -> BranchFunction:
    if older is not None:
        if function is not None:
            raise GraphTypeError(f"cond(): '{name}' and '{older_name}' may not be set simultaneously")
        function = older
    elif function is None:
        raise GraphTypeError(f"cond(): '{name}' argument required")
    if not callable(function):
        raise GraphTypeError(f"'{name}' must be callable, got {function!r}")
    branch: BranchFunction = function
    return branch


def _branch_contexts(graph: Graph, pred: Any) -> tuple[CondContext, CondContext]:
    """Return the contexts of the true and the false branch."""
    if_false, if_true = switch(pred, pred)
    pivot_true = apply_op("Identity", if_true, name="switch_t")
    pivot_false = apply_op("Identity", if_false, name="switch_f")
    pred = apply_op("Identity", pred, name="pred_id")
    for tensor in (if_true, if_false, pivot_true, pivot_false, pred):
        graph.prevent_fetching(tensor.op)
    return CondContext(pred, pivot_true, branch=1), CondContext(pred, pivot_false, branch=0)


def _build_branch(context: CondContext, function: BranchFunction, name: str, strict: bool) -> Any:
    """Call the function of a branch in its context; return its structure with tensors of the branch as leaves."""
    context.Enter()
    try:
        result = function()
        if result is None:
            raise GraphValueError(f"'{name}' must have a return value")
        if not strict:
            result = result[0] if isinstance(result, list | tuple) and len(result) == 1 else result
        result = map_structure(lambda leaf: _as_branch_tensor(context, leaf), result)
        context.ExitResult(flatten(result))
    finally:
        context.Exit()
    return result


def _as_branch_tensor(context: CondContext, value: Any) -> Tensor:
    if isinstance(value, Operation):
        value = with_dependencies([value], context.pivot)
    return context.AddValue(convert_to_tensor(value))


def _merge_results(if_true: Any, if_false: Any) -> Any:
    assert_same_structure(if_true, if_false)
    pairs = list(zip(flatten(if_true), flatten(if_false), strict=True))
    if not pairs:
        raise GraphValueError("'true_fn' and 'false_fn' must return at least one result")
    for one, other in pairs:
        if one.dtype.base_dtype != other.dtype.base_dtype:
            raise GraphValueError(
                "Outputs of 'true_fn' and 'false_fn' must have the same type(s). "
                f"Received {one.dtype.name} from 'true_fn' and {other.dtype.name} from 'false_fn'"
            )
    return pack_sequence_as(if_true, [merge([other, one])[0] for one, other in pairs])


def _record(graph: Graph, contexts: Sequence[CondContext]) -> None:
    """Add the outermost conditionals to the graph's collection."""
    for context in contexts:
        if context.outer_context is None:
            graph.add_to_collection(GraphKeys.COND_CONTEXT, context)
