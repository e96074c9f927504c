"""Assignments of given values, or of a checkpoint's, to variables: as an operation with feeds, or as a function to await."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aioexec.contrib.framework.selection import get_unique_variable, get_variable_full_name
from aioexec.errors import GraphValueError
from aioexec.graph.node import Operation
from aioexec.ops.array.identity import placeholder
from aioexec.ops.control_flow.dependencies import group
from aioexec.ops.state.assignments import assign
from aioexec.ops.state.partitioned_variables import PartitionedVariable
from aioexec.train.checkpoints.checkpoint_reader import CheckpointReader, load_checkpoint
from aioexec.train.checkpoints.checkpoint_state import Path
from aioexec.train.checkpoints.saver import Saver

logger = logging.getLogger(__name__)

Initializer = Callable[[Any], Awaitable[Any]]
"""A function of a session that assigns values in it."""


def assign_from_values(var_names_to_values: Mapping[str, Any]) -> tuple[Operation, dict[Any, Any]]:
    """Return an operation that assigns arrays to the variables of these names, and the feeds to run it with.

    Raises:
        GraphValueError: there is no variable of a name.
    """
    return _assigned([(get_unique_variable(name), value) for name, value in var_names_to_values.items()])


def _assigned(pairs: list[tuple[Any, Any]]) -> tuple[Operation, dict[Any, Any]]:
    """An operation that assigns arrays to variables, and its feeds."""
    feeds, assigned = {}, []
    for variable, value in pairs:
        fed = placeholder(variable.dtype.base_dtype, variable.shape)
        assigned.append(assign(variable, fed))
        feeds[fed] = value.reshape(variable.shape.as_list())
    return group(*assigned), feeds


def assign_from_values_fn(var_names_to_values: Mapping[str, Any]) -> Initializer:
    """Return a function that assigns arrays to the variables of these names in a session: `await function(session)`."""
    operation, feeds = assign_from_values(var_names_to_values)

    async def assign_in(session: Any) -> Any:
        return await session.run(operation, feeds)

    return assign_in


def assign_from_checkpoint(
    model_path: Path, var_list: Any, ignore_missing_vars: bool = False
) -> tuple[Operation, dict[Any, Any]]:
    """Return an operation that assigns values of a checkpoint to variables, and its feeds. Blocks while it reads them.

    Args:
        var_list: variables in a list, or by name in the checkpoint; a value may be the list of a variable's partitions.
        ignore_missing_vars: leave out variables that the checkpoint lacks.

    Raises:
        GraphValueError: the checkpoint lacks a variable, or has it with another number of elements.
    """
    pairs = []
    with load_checkpoint(model_path) as reader:
        for name, parts in _by_name(var_list).items():
            if reader.has_tensor(name):
                value = reader.get_tensor(name)
                pairs += [(part, _part_of(value, part, name)) for part in parts]
            elif not ignore_missing_vars:
                raise GraphValueError(f"Checkpoint is missing variable [{name}]")
            else:
                logger.warning("Variable %s missing in checkpoint %s", name, model_path)
    return _assigned(pairs)


def _by_name(var_list: Any) -> dict[str, list[Any]]:
    """The partitions of each variable by its name in the checkpoint; one for a variable that is not partitioned."""
    if isinstance(var_list, Mapping):
        return {name: _parts(given) for name, given in var_list.items()}
    grouped: dict[str, list[Any]] = {}
    for variable in var_list:
        grouped.setdefault(get_variable_full_name(_parts(variable)[0]), []).extend(_parts(variable))
    return grouped


def _parts(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple | PartitionedVariable) else [given]


def _part_of(value: Any, variable: Any, name: str) -> Any:
    """The part of a checkpoint's value that belongs to a variable, which may be a partition."""
    info = variable.slice_info
    if info:
        ends = [start + size for start, size in zip(info.var_offset, info.var_shape, strict=True)]
        value = value[tuple(slice(start, end) for start, end in zip(info.var_offset, ends, strict=True))]
    dims = variable.shape.as_list()
    if math.prod(dims) != math.prod(value.shape):
        raise GraphValueError(
            f"Total size of new array must be unchanged for {name} lh_shape: [{list(value.shape)}], rh_shape: [{dims}]"
        )
    return value


def assign_from_checkpoint_fn(
    model_path: Path, var_list: Any, ignore_missing_vars: bool = False, reshape_variables: bool = False
) -> Initializer | None:
    """Return a function that restores variables from a checkpoint in a session: `await function(session)`.

    Blocks while it reads the checkpoint's index, with `ignore_missing_vars`.

    Args:
        var_list: variables in a list, or by name in the checkpoint.
        ignore_missing_vars: leave out variables that the checkpoint lacks.
        reshape_variables: restore values of another shape with as many elements.

    Returns:
        The function; None if there is no variable to restore.

    Raises:
        GraphValueError: there are no variables.
    """
    if not var_list:
        raise GraphValueError("var_list cannot be empty")
    if ignore_missing_vars:
        with load_checkpoint(model_path) as reader:
            var_list = _available(var_list, reader, model_path)
    if not var_list:
        logger.warning("No Variables to restore")
        return None
    saver = Saver(var_list, reshape=reshape_variables)

    async def restore_in(session: Any) -> None:
        await saver.restore(session, model_path)

    return restore_in


def _available(var_list: Any, reader: CheckpointReader, path: Path) -> dict[str, Any]:
    """The variables that a checkpoint has, by their names there."""
    if not isinstance(var_list, Mapping):
        var_list = {get_variable_full_name(variable): variable for variable in var_list}
    for name in var_list:
        if not reader.has_tensor(name):
            logger.warning("Variable %s missing in checkpoint %s", name, path)
    return {name: variable for name, variable in var_list.items() if reader.has_tensor(name)}
