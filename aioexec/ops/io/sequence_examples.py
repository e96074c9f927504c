"""ParseSingleSequenceExample: decode the features of a serialised SequenceExample.

Its context is parsed as an Example is. A feature list is dense, its features all of one shape, or sparse, of any lengths.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from aioexec import shapes
from aioexec.dtypes import DType
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.formats.examples import feature_lists_of
from aioexec.graph.kernels.kernel import Compute, KernelContext
from aioexec.graph.registry import ShapeContext, register, undefined_gradient
from aioexec.ops.common.elementwise import Array, room_for
from aioexec.ops.io.examples import (
    KINDS,
    DenseSlot,
    Slot,
    SparseSlot,
    concatenated,
    described,
    parse_one,
    uninitialised,
    values_in,
)
from aioexec.ops.strings.elements import scalar_bytes, text_of
from aioexec.shapes import Dims

Lists = dict[bytes, list[bytes]]


def _rows(lists: Lists, key: bytes, dtype: DType, prefix: str) -> list[Array]:
    """Return the values of each feature of a list; of an empty feature none."""
    rows = []
    for place, feature in enumerate(lists.get(key, ())):
        found = values_in({key: feature}, SparseSlot(key, dtype), f"{prefix}Index: {place}, ")
        rows.append(uninitialised(dtype, (0,)) if found is None else found)
    return rows


def _dense_list(
    lists: Lists, key: bytes, dtype: DType, dims: Dims, may_be_missing: bool, prefix: str
) -> Array:
    """Return the features of a list as an array [features, *dims].

    Raises:
        InvalidArgumentError: the list is missing, or a feature has another number of values.
    """
    if key not in lists and not may_be_missing:
        raise InvalidArgumentError(
            f"{prefix}Feature list '{text_of(key)}' is required but could not be found.  Did you mean to include it in "
            "feature_list_dense_missing_assumed_empty or feature_list_dense_defaults?"
        )
    inner = tuple(dim for dim in dims or () if dim is not None)
    rows = _rows(lists, key, dtype, prefix)
    room_for((max(len(rows), 1), *(max(dim, 1) for dim in inner)), dtype.numpy.itemsize)
    result = uninitialised(dtype, (len(rows), *inner))
    for place, row in enumerate(rows):
        if row.size != math.prod(inner):
            raise InvalidArgumentError(
                f"{prefix}Feature list: {text_of(key)}, Index: {place}.  Number of {KINDS[dtype]} values != expected.  "
                f"values size: {row.size} but output shape: {described(dims)}"
            )
        result[place, ...] = row.reshape(inner)
    return result


def _sparse_list(lists: Lists, key: bytes, dtype: DType, prefix: str) -> tuple[Array, Array, Array]:
    """Return indices [n, 2], values and shape of a list whose features have different lengths."""
    values, lengths = concatenated(dtype, _rows(lists, key, dtype, prefix))
    steps = np.repeat(np.arange(len(lengths)), lengths)
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    indices = np.stack([steps, np.arange(values.size) - starts], axis=1).astype(np.int64)
    return indices, values, np.array([len(lengths), lengths.max(initial=0)])


def _lists_of(serialized: bytes, prefix: str) -> Lists:
    try:
        return feature_lists_of(serialized)
    except ValueError as error:
        start = text_of(serialized[:100])
        raise InvalidArgumentError(
            f"{prefix}Invalid protocol message input, serialized SequenceExample: {start}"
        ) from error


def _kernel(context: KernelContext) -> Compute:
    attrs = context.attrs
    _check(attrs)
    counts = [attrs[name] for name in _COUNTS]
    dense_dims = [shapes.as_dims(dims) for dims in attrs["context_dense_shapes"]]
    list_dims = [shapes.as_dims(dims) for dims in attrs["feature_list_dense_shapes"]]

    def compute(serialized: Array, missing: Array, *rest: Array) -> Any:
        data = scalar_bytes(serialized, "serialized")
        groups, at = [], 0
        for count in counts:
            groups.append([scalar_bytes(key, "a key") for key in rest[at : at + count]])
            at += count
        sparse, dense, sparse_lists, dense_lists = groups
        *defaults, name = rest[at:]
        named = text_of(scalar_bytes(name, "debug_name")) if np.size(name) else ""
        prefix = f"Name: {named or '<unknown>'}, "
        slots: list[Slot] = []
        for number, (key, dtype, dims, default) in enumerate(
            zip(dense, attrs["Tcontext_dense"], dense_dims, defaults, strict=True)
        ):
            slot = DenseSlot(key, dtype, tuple(dims or ()), np.asarray(default))
            slot.check(number)
            slots.append(slot)
        slots += map(SparseSlot, sparse, attrs["context_sparse_types"])
        made = parse_one(slots, data, named or "<unknown>")
        lists = _lists_of(data, prefix)
        optional = set(np.ravel(missing).tolist())
        sparse_made = [
            _sparse_list(lists, key, dtype, prefix)
            for key, dtype in zip(sparse_lists, attrs["feature_list_sparse_types"], strict=True)
        ]
        dense_made = [
            _dense_list(lists, key, dtype, dims, key in optional, prefix)
            for key, dtype, dims in zip(
                dense_lists, attrs["feature_list_dense_types"], list_dims, strict=True
            )
        ]
        outputs = [
            *(part for parts in zip(*made[len(dense) :], strict=True) for part in parts),
            *(value for (value,) in made[: len(dense)]),
            *(part for parts in zip(*sparse_made, strict=True) for part in parts),
            *dense_made,
        ]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    return compute


_COUNTS: Final = ("Ncontext_sparse", "Ncontext_dense", "Nfeature_list_sparse", "Nfeature_list_dense")
_TOGETHER: Final = (
    ("Ncontext_sparse", "context_sparse_types"),
    ("Ncontext_dense", "Tcontext_dense", "context_dense_shapes"),
    ("Nfeature_list_sparse", "feature_list_sparse_types"),
    ("Nfeature_list_dense", "feature_list_dense_types", "feature_list_dense_shapes"),
)


def _check(attrs: Any) -> None:
    for number, *lists in _TOGETHER:
        if any(len(attrs[name]) != attrs[number] for name in lists):
            raise GraphValueError(f"Expected as many of each: {number} ({attrs[number]}), {', '.join(lists)}")


def _sparse_shapes(count: int, rank: int) -> list[Dims]:
    return [*([(None, rank)] * count), *([(None,)] * count), *([(rank,)] * count)]


def _shape(context: ShapeContext) -> Sequence[Dims]:
    attrs = context.attrs
    _check(attrs)
    shapes.with_rank(context.inputs[0], 0)
    return [
        *_sparse_shapes(attrs["Ncontext_sparse"], 1),
        *(shapes.as_dims(dims) for dims in attrs["context_dense_shapes"]),
        *_sparse_shapes(attrs["Nfeature_list_sparse"], 2),
        *(shapes.concatenate((None,), shapes.as_dims(dims)) for dims in attrs["feature_list_dense_shapes"]),
    ]


_LIST: Final = "list(type){float|int64|string}>=0=[]"
register(
    "ParseSingleSequenceExample(serialized:string, feature_list_dense_missing_assumed_empty:string, "
    "context_sparse_keys:Ncontext_sparse*string, context_dense_keys:Ncontext_dense*string, "
    "feature_list_sparse_keys:Nfeature_list_sparse*string, feature_list_dense_keys:Nfeature_list_dense*string, "
    "context_dense_defaults:Tcontext_dense, debug_name:string) -> (context_sparse_indices:Ncontext_sparse*int64, "
    "context_sparse_values:context_sparse_types, context_sparse_shapes:Ncontext_sparse*int64, "
    "context_dense_values:Tcontext_dense, feature_list_sparse_indices:Nfeature_list_sparse*int64, "
    "feature_list_sparse_values:feature_list_sparse_types, feature_list_sparse_shapes:Nfeature_list_sparse*int64, "
    f"feature_list_dense_values:feature_list_dense_types) [{'; '.join(f'{count}:int>=0=0' for count in _COUNTS)}; "
    f"context_sparse_types:{_LIST}; Tcontext_dense:{_LIST}; feature_list_dense_types:{_LIST}; "
    f"context_dense_shapes:list(shape)>=0=[]; feature_list_sparse_types:{_LIST}; "
    "feature_list_dense_shapes:list(shape)>=0=[]]",
    shape=_shape,
    kernel=_kernel,
    gradient=undefined_gradient,
    dynamic_shape=True,
)
