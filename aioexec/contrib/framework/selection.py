"""Variables of the default graph, chosen by scope, name or patterns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.graph import get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.ops.state.variable_scope import VariableScope


def get_variables(
    scope: Any = None, suffix: str | None = None, collection: str = GraphKeys.GLOBAL_VARIABLES
) -> list[Any]:
    """Return the variables of a collection.

    Args:
        scope: a VariableScope, or a regular expression that the start of a name matches.
        suffix: the end of the name of the variable.
    """
    pattern = scope.name if isinstance(scope, VariableScope) else scope
    if suffix is not None:
        pattern = f"{pattern or ''}.*{suffix if ':' in suffix else f'{suffix}:'}"
    return get_default_graph().get_collection(collection, pattern)


def get_model_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    """Return variables of MODEL_VARIABLES; see `get_variables`."""
    return get_variables(scope, suffix, GraphKeys.MODEL_VARIABLES)


def get_local_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    """Return variables of LOCAL_VARIABLES; see `get_variables`."""
    return get_variables(scope, suffix, GraphKeys.LOCAL_VARIABLES)


def get_trainable_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    """Return variables of TRAINABLE_VARIABLES; see `get_variables`."""
    return get_variables(scope, suffix, GraphKeys.TRAINABLE_VARIABLES)


def get_variables_by_suffix(suffix: str, scope: Any = None) -> list[Any]:
    """Return the global variables whose names end with `suffix`."""
    return get_variables(scope, suffix)


def get_variables_by_name(given_name: str, scope: Any = None) -> list[Any]:
    """Return the global variables whose last name is `given_name`."""
    return get_variables(scope, f"/{given_name}:|^{given_name}:")


def get_variables_to_restore(
    include: Sequence[str] | None = None, exclude: Sequence[str] | None = None
) -> list[Any]:
    """Return the global variables whose names begin with one of `include` (by default all), and with none of `exclude`.

    Raises:
        GraphTypeError: an argument is a single string.
    """
    chosen = (
        get_variables()
        if include is None
        else [each for scope in _listed(include) for each in get_variables(scope)]
    )
    left_out = {id(each) for scope in _listed(exclude or ()) for each in get_variables(scope)}
    return [each for each in chosen if id(each) not in left_out]


def _listed(scopes: Any) -> Sequence[str]:
    if isinstance(scopes, str) or not isinstance(scopes, Sequence):
        raise GraphTypeError(f"include and exclude must be lists or tuples of scopes, got {scopes!r}")
    return scopes


def get_unique_variable(var_op_name: str) -> Any:
    """Return the global variable of that name.

    Raises:
        GraphValueError: there is none, or several begin with that name and none has it.
    """
    candidates = get_variables(var_op_name)
    if not candidates:
        raise GraphValueError(f"Couldn't find variable {var_op_name}")
    for candidate in candidates:
        if candidate.op.name == var_op_name:
            return candidate
    raise GraphValueError(f"Variable {var_op_name} does not uniquely identify a variable")


def get_variable_full_name(var: Any) -> str:
    """Return the name of a variable in a checkpoint: that of the whole for a partition."""
    info = getattr(var, "slice_info", None)
    return str(info.full_name if info else var.op.name)


def filter_variables(
    var_list: Sequence[Any],
    include_patterns: Sequence[str] | None = None,
    exclude_patterns: Sequence[str] | None = None,
    reg_search: bool = True,
) -> list[Any]:
    """Return the variables whose names match a pattern of `include_patterns` (by default all), and none to exclude.

    Args:
        reg_search: patterns match anywhere in a name, else at its start.
    """
    found = re.search if reg_search else re.match
    return [
        each
        for each in var_list
        if (include_patterns is None or any(found(pattern, each.op.name) for pattern in include_patterns))
        and not any(found(pattern, each.op.name) for pattern in exclude_patterns or ())
    ]
