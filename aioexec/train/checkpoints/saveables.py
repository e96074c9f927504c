"""Saveables: variables of both kinds, partitions of variables, tables, and user-defined objects.

Each is converted to SaveableObjects: the tensors to save, their names in the checkpoint, and the nodes that restore them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from aioexec.dtypes import DType, as_dtype
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import apply_no_output_op, apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Tensor
from aioexec.ops.array.arrays import reshape
from aioexec.ops.lookup.lookup_tables import DenseHashTable, MutableHashTable
from aioexec.ops.state import assignments
from aioexec.ops.state.partitioned_variables import PartitionedVariable
from aioexec.ops.state.variable import ResourceVariable, Variable
from aioexec.ops.state.variable_ops import assign_variable_op
from aioexec.shapes import TensorShape

_REFERENCES: Final = ("Variable", "VariableV2", "AutoReloadVariable")


class SaveSpec:
    """A tensor to save.

    Args:
        tensor: the tensor, or a function that makes it when it is needed.
        slice_spec: the slice of a full tensor that it is, in the format of save nodes; empty for all of it.
        name: its name in the checkpoint.
        dtype, device: of the tensor; required if it is a function.
    """

    def __init__(
        self, tensor: Any, slice_spec: str, name: str, dtype: Any = None, device: str | None = None
    ) -> None:
        if callable(tensor) and (dtype is None or device is None):
            raise GraphValueError(
                f"SaveSpec {name!r}: a tensor that is a function needs an explicit dtype and device"
            )
        self._tensor = tensor
        self.slice_spec = slice_spec
        self.name = name
        self.dtype: DType = tensor.dtype if dtype is None else as_dtype(dtype)
        self.device: str = tensor.device if device is None else device

    @property
    def tensor(self) -> Any:
        return self._tensor() if callable(self._tensor) else self._tensor


class SaveableObject:
    """An object that is saved as some tensors, all on one device, and restored from them. Programs may derive from it.

    Args:
        op: the object; a saver has at most one saveable for it.
    """

    def __init__(self, op: Any, specs: Sequence[SaveSpec], name: str) -> None:
        self.op = op
        self.specs = specs
        self.name = name

    @property
    def device(self) -> str:
        """The device of the tensors."""
        return self.specs[0].device

    def restore(self, restored_tensors: Sequence[Tensor], restored_shapes: Sequence[Any] | None) -> Any:
        """Make the operation that restores the object.

        Args:
            restored_tensors: one for each spec.
            restored_shapes: the shapes to reshape these to first, or None.

        Returns:
            An operation or a tensor to run.
        """
        raise NotImplementedError(f"{type(self).__name__}.restore")


def _reshape(tensors: Sequence[Tensor], shapes: Sequence[Any] | None) -> Tensor:
    return tensors[0] if shapes is None else reshape(tensors[0], shapes[0])


class ReferenceVariableSaveable(SaveableObject):
    """A reference variable, or a partition of one."""

    def __init__(self, var: Any, slice_spec: str, name: str) -> None:
        reference = convert_to_tensor(var, as_ref=True)
        self._reference = reference
        tensor = var.value() if isinstance(var, Variable) else var
        super().__init__(var, [SaveSpec(tensor, slice_spec, name)], name)

    def restore(self, restored_tensors: Sequence[Tensor], restored_shapes: Sequence[Any] | None) -> Any:
        strict = restored_shapes is None and self._reference.shape.is_fully_defined()
        return assignments.assign(
            self._reference, _reshape(restored_tensors, restored_shapes), validate_shape=strict
        )


class ResourceVariableSaveable(SaveableObject):
    """A resource variable (or a read of one), or a partition of one."""

    def __init__(self, var: Any, slice_spec: str, name: str) -> None:
        is_read = isinstance(var, Tensor)
        self._handle: Tensor = var.op.inputs[0] if is_read else var.handle
        self._shape: TensorShape = var.shape
        read = var if is_read else convert_to_tensor(var._as_graph_element())
        super().__init__(var, [SaveSpec(read, slice_spec, name, var.dtype, var.device)], name)

    def restore(self, restored_tensors: Sequence[Tensor], restored_shapes: Sequence[Any] | None) -> Any:
        with get_default_graph().device(self.device):
            value = apply_op("Identity", _reshape(restored_tensors, restored_shapes))
            if not self._shape.is_compatible_with(value.shape):
                raise GraphValueError(
                    f"Received incompatible tensor with shape {value.shape} when attempting to restore variable with "
                    f"shape {self._shape} and name {self.name}."
                )
            return assign_variable_op(self._handle, value)


class TableSaveable(SaveableObject):
    """A mutable lookup table, saved as its keys and its values."""

    def __init__(self, table: MutableHashTable | DenseHashTable, name: str) -> None:
        keys, values = table.export()
        super().__init__(
            table, [SaveSpec(keys, "", f"{name}-keys"), SaveSpec(values, "", f"{name}-values")], name
        )

    def restore(self, restored_tensors: Sequence[Tensor], restored_shapes: Sequence[Any] | None) -> Any:
        graph, table = get_default_graph(), self.op
        handle = table.resource_handle
        with graph.name_scope(f"{table.name}_table_restore"), graph.colocate_with(handle.op):
            return apply_no_output_op("LookupTableImportV2", handle, *restored_tensors)


# From variable lists to saveables

_Saveable = Callable[[Any, str, str], SaveableObject]


def all_saveable_objects(scope: str | None = None) -> list[Any]:
    """The default variable list of a saver: global variables, and the collection of saveable objects."""
    graph = get_default_graph()
    return [
        *graph.get_collection(GraphKeys.GLOBAL_VARIABLES, scope),
        *graph.get_collection(GraphKeys.SAVEABLE_OBJECTS, scope),
    ]


def by_name(items: Iterable[Any]) -> dict[str, Any]:
    """Objects to save, by their names; the partitions of a variable in one list.

    Raises:
        GraphTypeError: one of them cannot be saved, or they are no list.
        GraphValueError: two have the same name.
    """
    if not isinstance(items, list | tuple | set):
        raise GraphTypeError(f"Variables to save should be passed in a dict or a list. Got {items!r}")
    named: dict[str, Any] = {}
    for item in sorted(_flatten(items), key=_sorting_name):
        part = item.slice_info if isinstance(item, Variable) else None
        name = _name_of(item) if part is None else part.full_name
        known = named.get(name)
        if part is not None and isinstance(known, list):
            known.append(item)
        elif known is None:
            named[name] = item if part is None else [item]
        elif part is not None or isinstance(known, list):
            raise GraphValueError(f"Mixing slices and non-slices with the same name: {name}")
        else:
            raise GraphValueError(f"At least two variables have the same name: {name}")
    return named


def _flatten(items: Iterable[Any]) -> Iterator[Any]:
    for item in items:
        if isinstance(item, list | tuple | set):
            yield from _flatten(item)
        else:
            yield item


def _sorting_name(item: Any) -> str:
    name = getattr(item, "name", None)
    if not isinstance(name, str):
        raise GraphTypeError(f"Variable to save is not a Variable: {item!r}")
    return name


def _name_of(item: Any) -> str:
    if isinstance(item, SaveableObject | PartitionedVariable | MutableHashTable | DenseHashTable):
        return item.name
    tensor = _tensor_of(item)
    return tensor.op.inputs[0].op.name if tensor.op.type == "ReadVariableOp" else tensor.op.name


def _tensor_of(item: Any) -> Tensor:
    """The tensor that represents a variable: its reference, or a read.

    Raises:
        GraphTypeError: it is no variable.
    """
    if isinstance(item, ResourceVariable):
        return item._as_graph_element()
    try:
        tensor = convert_to_tensor(item, as_ref=True)
    except (TypeError, ValueError):
        tensor = None
    if tensor is None or tensor.op.type not in (*_REFERENCES, "ReadVariableOp"):
        raise GraphTypeError(f"Variable to save is not a Variable: {item!r}")
    return tensor


def saveables_of(named: Mapping[Any, Any]) -> list[SaveableObject]:
    """The saveables of named objects, sorted by name.

    Raises:
        GraphTypeError: a name is no string, or its object cannot be saved.
        GraphValueError: an object has two names, or is no partition of the variable it is listed with.
    """
    for name in named:
        if not isinstance(name, str):
            raise GraphTypeError(
                f"names_to_saveables must be a dict mapping string names to things to save. Name is not a string: {name!r}"
            )
    found: list[SaveableObject] = []
    seen: set[int] = set()
    for name in sorted(named):
        for saveable in _saveables(named[name], name):
            if saveable.op is not None and id(saveable.op) in seen:
                raise GraphValueError(f"The same saveable will be restored with two names: {saveable.name}")
            seen.add(id(saveable.op))
            found.append(saveable)
    return found


def _saveables(item: Any, name: str) -> Iterator[SaveableObject]:
    if isinstance(item, SaveableObject):
        yield item
    elif isinstance(item, MutableHashTable | DenseHashTable):
        yield TableSaveable(item, name)
    elif isinstance(item, list | tuple | PartitionedVariable):
        yield from _parts(list(item), name)
    else:
        tensor = _tensor_of(item)
        is_reference = tensor.op.type in _REFERENCES
        yield (ReferenceVariableSaveable if is_reference else ResourceVariableSaveable)(tensor, "", name)


def _parts(parts: Sequence[Any], name: str) -> Iterator[SaveableObject]:
    """The saveables of a partitioned variable."""
    whole = None
    for part in parts:
        if isinstance(part, SaveableObject):
            yield part
            continue
        if not isinstance(part, Variable):
            raise GraphValueError(f"Slices must all be Variables: {part!r}")
        info = part.slice_info
        if info is None:
            raise GraphValueError(f"Slices must all be slices: {part!r}")
        if whole not in (None, info.full_name):
            raise GraphValueError(f"Slices must all be from the same tensor: {whole} != {info.full_name}")
        whole = info.full_name
        kind: _Saveable = (
            ResourceVariableSaveable if isinstance(part, ResourceVariable) else ReferenceVariableSaveable
        )
        yield kind(part, info.spec, name)
