"""`parse_example` and `parse_single_example`: decode the requested features of serialised Examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from aioexec import dtypes as dt, shapes
from aioexec.dtypes import DType
from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_any_op, graph_of
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.sparse_tensor import SparseTensor
from aioexec.ops.array.arrays import reshape
from aioexec.ops.io.examples import KINDS
from aioexec.ops.sparse.conversions import sparse_merge
from aioexec.shapes import Dims


class VarLenFeature(NamedTuple):
    """A feature with any number of elements, returned as a SparseTensor."""

    dtype: Any


class SparseFeature(NamedTuple):
    """Two or more features that are returned as one SparseTensor: its indices and its values.

    Attributes:
        index_key: the key of the int64 feature of indices, or a list of keys, one for each dimension.
        value_key: the key of the values, as many as there are indices.
        dtype: of the values.
        size: the size of the dimension, or a list of sizes.
        already_sorted: whether the indices of each Example ascend.
    """

    index_key: Any
    value_key: str
    dtype: Any
    size: Any
    already_sorted: bool = False


class FixedLenFeature(NamedTuple):
    """A feature of fixed shape; without a default every Example must contain it."""

    shape: Any
    dtype: Any
    default_value: Any = None


class FixedLenSequenceFeature(NamedTuple):
    """A feature with any number of elements of one shape; batches are padded to the longest with the default, one element."""

    shape: Any
    dtype: Any
    allow_missing: bool = False
    default_value: Any = None


class _Dense(NamedTuple):
    key: str
    dtype: DType
    dims: Dims
    default: Tensor


def parse_example(
    serialized: Any, features: Mapping[str, Any] | None, name: str | None = None, example_names: Any = None
) -> dict[str, Any]:
    """Decode features of a vector of serialised Examples, or of a scalar; return a dict of tensors and SparseTensors.

    Args:
        features: for each key, a VarLenFeature, SparseFeature, FixedLenFeature or FixedLenSequenceFeature.
        example_names: a name for each Example, used in messages.

    Raises:
        GraphValueError: a feature has another class or lacks an attribute, or two need one key in different ways.
        GraphTypeError: the size of a SparseFeature is no integer.
    """
    if not features:
        raise GraphValueError("parse_example: expected features, got none")
    with (
        graph_of([serialized, example_names]).as_default() as graph,
        graph.name_scope(name or "ParseExample"),
    ):
        keys = sorted(features)
        merged = {key: features[key] for key in keys if isinstance(features[key], SparseFeature)}
        varying = [key for key in keys if isinstance(features[key], VarLenFeature)]
        sparse = _sparse_dtypes(features, [*varying, *merged])
        dense = [_dense(key, features[key]) for key in keys if key not in merged and key not in varying]
        if both := [each.key for each in dense if each.key in sparse]:
            raise GraphValueError(
                f"Dense and sparse keys must not intersect; dense keys that are sparse: {both}"
            )
        outputs = _apply(serialized, [] if example_names is None else example_names, sparse, dense)
        count = len(sparse)
        parts = {
            key: SparseTensor(*(outputs[place + part * count] for part in range(3)))
            for place, key in enumerate(sparse)
        }
        parsed: dict[str, Any] = {key: parts[key] for key in varying}
        parsed |= {each.key: output for each, output in zip(dense, outputs[3 * count :], strict=True)}
        parsed |= {key: _merged(parts, feature) for key, feature in merged.items()}
    return parsed


def parse_single_example(
    serialized: Any, features: Mapping[str, Any] | None, name: str | None = None, example_names: Any = None
) -> dict[str, Any]:
    """Decode features of one serialised Example into a dict; see `parse_example`."""
    shapes.with_rank(convert_to_tensor(serialized, dt.string).dims, 0)
    return parse_example(serialized, features, name or "ParseSingleExample", example_names)


def _apply(serialized: Any, names: Any, sparse: Mapping[str, DType], dense: list[_Dense]) -> list[Tensor]:
    found = apply_any_op(
        "ParseExampleV2",
        convert_to_tensor(serialized, dt.string),
        convert_to_tensor(names, dt.string),
        *(
            convert_to_tensor(np.array([key.encode() for key in keys], np.object_), dt.string)
            for keys in (sparse, [each.key for each in dense], [])
        ),
        [each.default for each in dense],
        num_sparse=len(sparse),
        sparse_types=list(sparse.values()),
        Tdense=[each.dtype for each in dense],
        ragged_value_types=[],
        ragged_split_types=[],
        dense_shapes=[each.dims for each in dense],
    )
    return [
        tensor for output in found for tensor in (output if isinstance(output, list | tuple) else [output])
    ]


def _sparse_dtypes(features: Mapping[str, Any], keys: list[str]) -> dict[str, DType]:
    """Return the dtype of each sparse feature that the op reads, in order of `features`.

    Raises:
        GraphValueError: a SparseFeature lacks an attribute, or two features need the same key with different dtypes.
    """
    found: dict[str, DType] = {}
    for key in sorted(keys):
        feature = features[key]
        if isinstance(feature, VarLenFeature):
            read = [(key, _dtype(key, feature))]
        else:
            for name in ("index_key", "value_key"):
                if not getattr(feature, name):
                    raise GraphValueError(f"Missing {name} in SparseFeature {feature!r}.")
            read = [(each, dt.int64) for each in sorted(_index_keys(feature))]
            read.append((feature.value_key, _dtype(key, feature)))
        for each, dtype in read:
            if found.setdefault(each, dtype) != dtype:
                raise GraphValueError(f"Conflicting type {found[each]} vs {dtype} for feature {each}.")
    return found


def _index_keys(feature: SparseFeature) -> list[str]:
    return [feature.index_key] if isinstance(feature.index_key, str) else list(feature.index_key)


def _merged(parts: Mapping[str, SparseTensor], feature: SparseFeature) -> SparseTensor:
    """Return the values at the places that the indices give."""
    ids = [parts[key] for key in _index_keys(feature)]
    sizes = list(feature.size) if isinstance(feature.size, list | tuple) else [feature.size]
    return sparse_merge(ids, parts[feature.value_key], sizes, already_sorted=feature.already_sorted)


def _dtype(key: str, feature: Any) -> DType:
    if feature.dtype is None:
        raise GraphValueError(f"parse_example: expected a dtype for {key!r}, got {feature!r}")
    dtype = dt.as_dtype(feature.dtype)
    if dtype not in KINDS:
        raise GraphValueError(
            f"parse_example: Examples hold float32, int64 and string, not {dtype.name} as {key!r}"
        )
    return dtype


def _dense(key: str, feature: Any) -> _Dense:
    if not isinstance(feature, FixedLenFeature | FixedLenSequenceFeature):
        raise GraphValueError(
            f"parse_example: expected a VarLenFeature, SparseFeature, FixedLenFeature or FixedLenSequenceFeature for {key!r}, "
            f"got {feature!r}"
        )
    if feature.shape is None:
        raise GraphValueError(f"parse_example: expected a shape for {key!r}, got {feature!r}")
    dtype, dims, default = _dtype(key, feature), shapes.as_dims(feature.shape), feature.default_value
    if isinstance(feature, FixedLenSequenceFeature):
        if not feature.allow_missing:
            raise GraphValueError(
                f"parse_example: FixedLenSequenceFeature requires allow_missing to be True, for {key!r}"
            )
        padding = (b"" if dtype is dt.string else 0) if default is None else default
        return _Dense(key, dtype, shapes.concatenate((None,), dims), convert_to_tensor(padding, dtype))
    if not shapes.is_fully_defined(dims):
        raise GraphValueError(
            f"parse_example: expected a defined shape for {key!r}, got {shapes.describe(dims)}"
        )
    if default is None:
        return _Dense(key, dtype, dims, convert_to_tensor(np.zeros(0, dtype.numpy), dtype))
    return _Dense(key, dtype, dims, reshape(convert_to_tensor(default, dtype), dims))
