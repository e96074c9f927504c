"""Options of variables: reference or resource; synchronization and aggregation of copies on several devices.

The default between reference and resource is set by the variable scope, else by a setting of the process. Synchronization and
aggregation are kept for programs and MetaGraphs that name them; here a variable has one copy.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any, Final

from aioexec.data_classes import dataclass
from aioexec.errors import GraphValueError
from aioexec.graph.graph import get_default_graph

VARIABLE_SCOPES: Final = ("__varscope",)
"""The collection whose single value is the current variable scope of a graph."""


@dataclass(slots=True)
class _Defaults:
    use_resource: bool = False


_defaults = _Defaults()


def enable_resource_variables() -> None:
    """Make resource variables the default."""
    _defaults.use_resource = True


def disable_resource_variables() -> None:
    """Make reference variables the default, as initially."""
    _defaults.use_resource = False


def resource_variables_enabled() -> bool:
    return _defaults.use_resource


def choose_resource(use_resource: bool | None) -> bool:
    if use_resource is None:
        scopes = get_default_graph().get_collection(VARIABLE_SCOPES)
        use_resource = scopes[0].use_resource if scopes else None
    return _defaults.use_resource if use_resource is None else use_resource


class VariableSynchronization(enum.Enum):
    """When the copies of a replicated variable are synchronised."""

    AUTO = 0
    NONE = 1
    ON_WRITE = 2
    ON_READ = 3


class VariableAggregation(enum.Enum):
    """How updates of the copies of a replicated variable are aggregated."""

    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3


def check_variable_arguments(name: str | None, initial_value: Any, collections: Any, constraint: Any) -> None:
    if initial_value is None:
        raise GraphValueError(f"Variable {name!r}: initial_value must be specified")
    if isinstance(collections, str) or not isinstance(collections, Iterable | None):
        raise GraphValueError(f"Variable {name!r}: collections must be a list, got {collections!r}")
    if constraint is not None and not callable(constraint):
        raise GraphValueError(f"Variable {name!r}: constraint must be callable, got {constraint!r}")


def checked_copies(
    synchronization: Any, aggregation: Any, trainable: bool | None, name: str | None
) -> tuple[VariableSynchronization, VariableAggregation, bool]:
    """Return the modes of a replicated variable or their defaults, and whether the variable is trainable.

    Raises:
        GraphValueError: a mode is unknown.
    """
    synchronized = _mode(VariableSynchronization, synchronization, "synchronization", name)
    aggregated = _mode(VariableAggregation, aggregation, "aggregation", name)
    if trainable is None:
        trainable = synchronized is not VariableSynchronization.ON_READ
    return synchronized, aggregated, trainable


def _mode(kind: Any, given: Any, word: str, name: str | None) -> Any:
    try:
        return kind(0 if given is None else getattr(given, "value", given))
    except ValueError as error:
        raise GraphValueError(f"Invalid variable {word} mode: {given!r} for variable: {name}") from error
