"""Reductions of datasets to tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aioexec.data.arguments import component_tensors
from aioexec.data.functions import TracedFunction, traced
from aioexec.data.iterator import DatasetNode
from aioexec.data.structure import (
    attrs_of,
    flat_dtypes,
    flatten,
    from_tensors,
    legacy_classes,
    legacy_types,
    normalized,
    pack,
    same_structure,
)
from aioexec.errors import GraphTypeError
from aioexec.graph.apply import apply_list_op
from aioexec.graph.graph import get_default_graph


def reduced(dataset: DatasetNode, initial_state: Any, reduce_func: Callable[[Any, Any], Any]) -> Any:
    """Return the tensors of `Dataset.reduce`; raises as that does."""
    with get_default_graph().name_scope("initial_state"):
        state, values = normalized(initial_state)
    tensors = component_tensors(state, values)
    function, state = traced_states(dataset, state, reduce_func, "reduce")
    found = apply_list_op(
        "ReduceDataset",
        dataset._variant_tensor,
        tensors,
        function.captured,
        f=function.attr,
        Tstate=flat_dtypes(state),
        Targuments=function.captured_types,
        **attrs_of(state),
    )
    return from_tensors(state, found)


def traced_states(
    dataset: DatasetNode,
    state: Any,
    function: Callable[[Any, Any], Any],
    name: str,
    state_in: Callable[[Any], Any] = lambda result: result,
) -> tuple[TracedFunction, Any]:
    """Trace a function of a state and an element, for shapes that every state has; return it and the state's spec.

    Args:
        state_in: from the spec of the function's result to that of the next state.

    Raises:
        GraphTypeError: the next state has another structure or other dtypes.
    """
    while True:
        found = traced(function, name, (state, dataset.element_spec))
        following = state_in(found.spec)
        _check_state(state, following)
        pairs = zip(flatten(state), flatten(following), strict=True)
        relaxed = pack(state, [one.relaxed(other) for one, other in pairs])
        if flatten(relaxed) == flatten(state):
            return found, state
        state = relaxed


def _check_state(state: Any, found: Any) -> None:
    if not same_structure(state, found) or legacy_classes(state) != legacy_classes(found):
        raise GraphTypeError(
            "The element classes for the new state must match the initial state. Expected "
            f"{legacy_classes(state)}; got {legacy_classes(found)}."
        )
    if flat_dtypes(state) != flat_dtypes(found):
        raise GraphTypeError(
            "The element types for the new state must match the initial state. Expected "
            f"{legacy_types(state)}; got {legacy_types(found)}."
        )
