"""Checks that a checkpoint fits the variables that are restored from it, before the first of them is changed.

Names, shapes and dtypes are read from the saver's nodes, so that the check works for a saver of an imported meta graph too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from aioexec.dtypes import DType
from aioexec.errors import InvalidArgumentError
from aioexec.formats.bundle_entries import index_name
from aioexec.formats.tensor_slice import parse_shape_and_slice
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.static_values import constant_value, variable_dims
from aioexec.shapes import Dims, compatible


class Wanted(NamedTuple):
    """A tensor that is read from a checkpoint: its slice, if it is partial; the required dims, None if any are accepted."""

    name: str
    part: str
    dtype: DType
    dims: Dims


def wanted_by(restore: Operation) -> list[Wanted]:
    """The tensors that an operation restores."""
    found: list[Wanted] = []
    seen, left = {restore}, [restore]
    while left:
        op = left.pop()
        for before in (*op.control_inputs, *(tensor.op for tensor in op.inputs)):
            if before not in seen:
                seen.add(before)
                left.append(before)
        if op.type == "RestoreV2":
            found.extend(_read_by(op))
    return found


def _read_by(op: Operation) -> Iterator[Wanted]:
    names, parts = (constant_value(tensor) for tensor in op.inputs[1:3])
    if names is None or parts is None:
        return
    for name, part, tensor in zip(names, parts, op.outputs, strict=True):
        yield Wanted(os.fsdecode(name), os.fsdecode(part), tensor.dtype, _dims_for(tensor))


def _dims_for(tensor: Tensor) -> Dims:
    """The dims of the variable to which a tensor is assigned directly; None if there is none, or the shape is not validated."""
    for consumer in tensor.consumers():
        if consumer.type == "Assign":
            return consumer.inputs[0].dims if consumer.attrs["validate_shape"] else None
        if consumer.type == "AssignVariableOp":
            return variable_dims(consumer.inputs[0])
        if consumer.type == "Identity":
            return _dims_for(consumer.outputs[0])
    return None


def check_restorable(prefix: str, wanted: list[Wanted]) -> None:
    """Check that a checkpoint has all tensors to be restored, with matching shapes and dtypes. Blocks.

    Raises:
        NotFoundError: it lacks a tensor.
        InvalidArgumentError: it has one of another shape or dtype.
        DataLossError: its index is damaged.
    """
    from aioexec.formats.bundle_reader import BundleReader, listed

    if not os.path.exists(index_name(prefix)):  # of the first format, which the restore nodes check
        return
    with BundleReader(prefix) as reader:
        for name, part, dtype, dims in wanted:
            shape = reader.shape_of(name, dtype)
            if part:
                place = parse_shape_and_slice(part)
                shape = place.sizes if place.shape == shape else shape
            if dims is not None and not compatible(dims, shape):
                raise InvalidArgumentError(
                    "Assign requires shapes of both tensors to match. "
                    f"lhs shape= {listed(tuple(dim or -1 for dim in dims))} rhs shape= {listed(shape)}: {name!r} in {prefix}"
                )
