"""Reductions of datasets to tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aioexec.data.functions import TracedFunction, traced
from aioexec.data.iterator import DatasetNode
from aioexec.data.structure import (
    attrs_of,
    component_of,
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
    tensors = [
        component.to_tensor(value) if component_of(value) is not None else value
        for component, value in zip(flatten(state), values, strict=True)
    ]
    function, state = traced_states(dataset, state, reduce_func, "reduce()")
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
    dataset: DatasetNode, state: Any, reduce_func: Callable[[Any, Any], Any], name: str
) -> tuple[TracedFunction, Any]:
    """Trace a function of a state and an element to the next state, for shapes that every state has.

    Raises:
        GraphTypeError: the next state has another structure or other dtypes.
    """
    while True:
        function = traced(reduce_func, name.strip("()"), (state, dataset.element_spec))
        _check_state(state, function.spec)
        relaxed = pack(
            state,
            [one.relaxed(other) for one, other in zip(flatten(state), flatten(function.spec), strict=True)],
        )
        if flatten(relaxed) == flatten(state):
            return function, state
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
