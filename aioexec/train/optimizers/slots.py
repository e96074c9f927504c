"""Slots: variables that an optimizer keeps for each parameter, named after it; resource variables if it is one."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

from aioexec import shapes
from aioexec.graph.apply import apply_op
from aioexec.ops.array.filling import zeros
from aioexec.ops.state.initializers import Zeros
from aioexec.ops.state.save_slices import SaveSliceInfo
from aioexec.ops.state.variable import Variable, is_resource_variable
from aioexec.ops.state.variable_scope import get_variable, variable_scope


def create_slot(primary: Any, val: Any, name: str, colocate_with_primary: bool = True) -> Any:
    """A slot with initial value `val`, named `<primary>/<name>`."""
    return _create(primary, name, val, None, None, colocate_with_primary, shapes.is_fully_defined(val.dims))


def create_slot_with_initializer(
    primary: Any, initializer: Any, shape: Any, dtype: Any, name: str, colocate_with_primary: bool = True
) -> Any:
    """A slot of this shape and dtype with this initializer."""
    dims = shapes.as_dims(shape)
    return _create(
        primary, name, initializer, dims, dtype, colocate_with_primary, shapes.is_fully_defined(dims)
    )


def create_zeros_slot(primary: Any, name: str, dtype: Any = None, colocate_with_primary: bool = True) -> Any:
    """A slot of the shape of its primary, initialized with zeros."""
    wanted = primary.dtype.base_dtype if dtype is None else dtype
    if shapes.is_fully_defined(primary.dims):
        return create_slot_with_initializer(
            primary, Zeros(), primary.dims, wanted, name, colocate_with_primary
        )
    shape = apply_op("Shape", primary.initialized_value() if isinstance(primary, Variable) else primary)
    return create_slot(primary, zeros(shape, wanted), name, colocate_with_primary)


def _create(
    primary: Any, name: str, initializer: Any, shape: Any, dtype: Any, colocate: bool, validate_shape: bool
) -> Any:
    """The variable scope makes the name unique; the variable's own name in it is empty, so that it gets exactly that name.

    The slot of a variable is of the same kind (reference or resource), that of a tensor of the default kind; neither is
    partitioned, whatever the scope's partitioner.
    """
    node = primary.op
    placed = node.graph.colocate_with(node) if colocate else contextlib.nullcontext()
    with variable_scope(None, f"{node.name}/{name}") as scope, placed:
        scope.set_partitioner(None)
        slot = get_variable(
            "",
            initializer=initializer,
            trainable=False,
            use_resource=is_resource_variable(primary) if isinstance(primary, Variable) else None,
            shape=shape,
            dtype=dtype,
            validate_shape=validate_shape,
        )
    part = primary.slice_info if isinstance(primary, Variable) else None
    if part is not None and slot.dims != ():  # the slot is a partition of a larger slot
        # In a checkpoint the name loses as many characters as the primary's name has, also where the scope of the optimizer
        # precedes it: TensorFlow's estimators, which train in a scope, write such names.
        slot._set_save_slice_info(_part_of_slot(part, slot, slot.op.name[len(node.name) + 1 :]))
    return slot


def _part_of_slot(part: SaveSliceInfo, slot: Any, name: str) -> SaveSliceInfo:
    """The partition of the whole slot; a slot of lower rank is partitioned along its own dimensions."""
    rank = None if slot.dims is None else len(slot.dims)
    return replace(
        part,
        full_name=f"{part.full_name}/{name}",
        full_shape=part.full_shape[:rank],
        var_offset=part.var_offset[:rank],
        var_shape=part.var_shape[:rank],
    )
