"""The learning phase: whether layers train, a value of the graph that steps may feed."""

from __future__ import annotations

from typing import Any, Final

from aioexec.errors import GraphValueError
from aioexec.graph.graph import get_default_graph
from aioexec.ops.array.identity import placeholder_with_default

_PHASE: Final = ("__keras_learning_phase",)
"""The collection whose single value is the phase: a tensor, or 0 or 1."""


def learning_phase() -> Any:
    """Return the phase of the default graph: a boolean placeholder, False unless it is fed, or what was set."""
    graph = get_default_graph()
    held = graph.get_collection_ref(_PHASE)
    if not held:
        with graph.name_scope(""), graph.control_dependencies(None):
            held.append(placeholder_with_default(False, [], name="keras_learning_phase"))
    return held[0]


def set_learning_phase(value: Any) -> None:
    """Set the phase of the default graph to 0 or 1, for the layers that are called from now on.

    Raises:
        GraphValueError: another value.
    """
    if value not in (0, 1):
        raise GraphValueError("Expected learning phase to be 0 or 1.")
    get_default_graph().get_collection_ref(_PHASE)[:] = [int(value)]
