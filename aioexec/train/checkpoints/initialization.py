"""Initialization of variables from a checkpoint, in place of their initializers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_list_op
from aioexec.graph.graph import get_default_graph
from aioexec.ops.state.partitioned_variables import PartitionedVariable
from aioexec.ops.state.variable import Variable
from aioexec.ops.state.variable_store import VariableStore
from aioexec.train.checkpoints.checkpoint_reader import checkpoint_path, load_checkpoint
from aioexec.train.checkpoints.checkpoint_state import Path
from aioexec.train.checkpoints.saveables import saveables_of

Shapes = Mapping[str, list[int]]
"""From the names of a checkpoint's tensors to their shapes."""


def init_from_checkpoint(
    ckpt_dir_or_file: Path, assignment_map: Mapping[str, Any] | Iterable[tuple[str, Any]]
) -> None:
    """Make the initializers of variables assign values from a checkpoint. Blocks while it reads the index.

    Args:
        ckpt_dir_or_file: the checkpoint, or a folder, for its latest one.
        assignment_map: from names in the checkpoint to variables, a dict or pairs. A variable is given by its name, itself, or
            the list of its partitions; "scope/" in the checkpoint stands for all variables in a scope, "/" for no scope: names
            below the scopes are the same.

    Raises:
        GraphValueError: the checkpoint or the graph lacks a name in the map, or shapes differ.
    """
    path = checkpoint_path(ckpt_dir_or_file)
    with load_checkpoint(path) as reader:
        shapes = reader.get_variable_to_shape_map()
    pairs = assignment_map.items() if isinstance(assignment_map, Mapping) else assignment_map
    for source, target in sorted(pairs, key=lambda pair: pair[0]):
        found = _variable(target)
        if found is not None:
            _check(path, source, found, shapes)
            initialize_from(found, path, source)
        else:
            _initialize_scope(path, source, target, shapes)


def _variable(target: Any) -> Any:
    """The variable, or the list of its partitions, for a value of the map; None if that is a scope."""
    if isinstance(target, PartitionedVariable):
        return list(target)
    if isinstance(target, Variable | list | tuple):
        return target
    store = VariableStore.of(get_default_graph())
    if target in store.variables:
        return store.variables[target]
    return list(store.partitioned[target]) if target in store.partitioned else None


def _check(path: str, source: str, found: Any, shapes: Shapes) -> None:
    if source not in shapes:
        raise GraphValueError(f"Tensor {source} is not found in {path} checkpoint {dict(shapes)}")
    if isinstance(found, Variable) and not found.shape.is_compatible_with(shapes[source]):
        raise GraphValueError(
            f"Shape of variable {found.name} ({found.shape}) doesn't match with shape of tensor {source} "
            f"({shapes[source]}) from checkpoint reader."
        )


def _initialize_scope(path: str, source: str, target: str, shapes: Shapes) -> None:
    scope = target.rpartition("/")[0]
    if not source.endswith("/"):
        raise GraphValueError(
            f"Assignment map with scope only name {scope} should map to scope only {source}. "
            "Should be 'scope/': 'other_scope/'."
        )
    prefix = f"{scope}/" if scope else ""
    for name in sorted(_names_in(prefix)):
        tensor = (source.removeprefix("/") + name.removeprefix(prefix)).removesuffix("/")
        if tensor not in shapes:
            raise GraphValueError(
                f"Tensor {tensor} ({name.removeprefix(prefix)} in {source}) is not found in {path} checkpoint"
            )
        found = _variable(name)
        _check(path, tensor, found, shapes)
        initialize_from(found, path, tensor)


def _names_in(prefix: str) -> Iterator[str]:
    """The names of the variables below a scope; a partitioned variable has one."""
    store = VariableStore.of(get_default_graph())
    parts = {part.op.name for whole in store.partitioned.values() for part in whole}
    yield from (name for name in store.variables if name.startswith(prefix) and name not in parts)
    yield from (name for name in store.partitioned if name.startswith(prefix))


def initialize_from(variable: Any, path: str, tensor_name: str) -> None:
    """Make a variable, or the partitions of one, start with a tensor of a checkpoint.

    Raises:
        GraphValueError: the partitions are not those of one variable.
    """
    parts = variable if isinstance(variable, list | tuple) else [variable]
    wholes = {part.slice_info.full_name if part.slice_info else part.name for part in parts}
    if len(wholes) > 1:
        raise GraphValueError(f"Slices must all be from the same tensor: {' != '.join(sorted(wholes))}")
    for part in parts:
        is_slice = isinstance(variable, list | tuple) and part.slice_info is not None
        _initialize_part(part, path, tensor_name, part.slice_info.spec if is_slice else "")


def _initialize_part(variable: Variable, path: str, tensor_name: str, spec: str) -> None:
    graph = variable.graph
    with graph.as_default(), graph.control_dependencies(None), graph.device(variable.device):
        dtypes = [variable.dtype.base_dtype]
        (value,) = apply_list_op(
            "RestoreV2", path, [tensor_name], [spec], dtypes=dtypes, name="checkpoint_initializer"
        )
        value.set_shape(variable.shape)
        (saveable,) = saveables_of({variable.op.name: variable})
        assigned = saveable.restore([value], None)
    variable.initialize_by(value, getattr(assigned, "op", assigned))
