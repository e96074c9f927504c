"""SparseCross: all combinations of one element of each of several features, as hashes or as text."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from aioexec import dtypes as dt
from aioexec.errors import GraphTypeError, InvalidArgumentError
from aioexec.graph.apply import apply_tuple_op
from aioexec.graph.kernels.kernel import Compute, KernelContext
from aioexec.graph.node import Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.graph.sparse_tensor import SparseTensor
from aioexec.ops.common.elementwise import Array, shown
from aioexec.ops.math.cast import cast
from aioexec.ops.sparse.tensors import checked_parts
from aioexec.ops.strings.elements import bytes_of
from aioexec.ops.strings.hashes import fingerprint64
from aioexec.shapes import Dims

_HASH_KEY: Final = 0xDECAFCAFFE
_MULTIPLIER: Final = np.uint64(0xC6A4A7935BD1E995)
_SEPARATOR: Final = b"_X_"

Rows = Sequence[Array] | Array
"""The elements of a feature, for each example."""


def _sparse_rows(indices: Array, values: Array, shape: Array) -> Rows:
    height = checked_parts(indices, values, shape)[0]
    if indices.shape[1] != 2:
        raise InvalidArgumentError(
            f"Input indices should be a matrix with 2 columns, saw {shown(indices.shape)}"
        )
    rows = indices[:, 0]
    if len(rows) and (rows[0] < 0 or rows[-1] >= height or (np.diff(rows) < 0).any()):
        raise InvalidArgumentError(f"The rows of the indices must ascend from 0 to less than {height}")
    return np.split(values, np.searchsorted(rows, np.arange(1, height)))


def _dense_rows(value: Array) -> Rows:
    if value.ndim != 2:
        raise InvalidArgumentError(f"Dense inputs should be a matrix, but is {shown(value.shape)}")
    return value


def _features(context: KernelContext, inputs: Sequence[Array]) -> list[Rows]:
    """The features, sparse ones first, with the same number of examples."""
    count = context.attrs["N"]
    sparse, dense = inputs[: 3 * count], inputs[3 * count :]
    parts = zip(sparse[:count], sparse[count : 2 * count], sparse[2 * count :], strict=True)
    found: list[Rows] = [*(_sparse_rows(*each) for each in parts), *(_dense_rows(each) for each in dense)]
    if len({len(rows) for rows in found}) > 1:
        raise InvalidArgumentError(f"Expected batch sizes to be equal, got {[len(rows) for rows in found]}")
    return found


def _hashes(values: Array) -> Array:
    """Integers as they are, and Fingerprint64 of strings, as 64-bit words."""
    if values.dtype.kind == "i":
        return values.astype(np.uint64)
    return np.array([fingerprint64(bytes_of(value)) for value in values.ravel()], np.uint64)


def _shift_mix(words: Array) -> Array:
    mixed: Array = words ^ (words >> np.uint64(47))
    return mixed


def _joined(first: Array, second: Array) -> Array:
    """FingerprintCat64 of all pairs, those with the same first word together."""
    with np.errstate(over="ignore"):
        word = (first ^ _MULTIPLIER)[:, None] ^ (_shift_mix(second * _MULTIPLIER) * _MULTIPLIER)[None]
        return _shift_mix(_shift_mix(word * _MULTIPLIER) * _MULTIPLIER).ravel()


def _hashed_cross(columns: Sequence[Array], key: int, buckets: int) -> Array:
    words = np.array([key], np.uint64)
    for column in columns:
        words = _joined(words, _hashes(column))
    limit = np.uint64(buckets or np.iinfo(np.int64).max)
    return (words % limit).astype(np.int64)


def _text_cross(columns: Sequence[Array]) -> Array:
    texts = [[_text(value) for value in column] for column in columns]
    found = [_SEPARATOR.join(each) for each in itertools.product(*texts)]
    return np.array([*found, None], object)[:-1]


def _text(value: Any) -> bytes:
    return str(int(value)).encode() if isinstance(value, np.integer) else bytes_of(value)


def _kernel(context: KernelContext) -> Compute:
    attrs = context.attrs

    def cross(*inputs: Array) -> tuple[Array, Array, Array]:
        features = _features(context, inputs)
        height = len(features[0]) if features else 0
        rows = [
            _hashed_cross(columns, attrs["hash_key"], attrs["num_buckets"])
            if attrs["hashed_output"]
            else _text_cross(columns)
            for columns in zip(*features, strict=True)
        ]
        counts = [len(row) for row in rows]
        places = [np.arange(count) for count in counts]
        dtype = context.output_dtypes[1].numpy
        indices = np.stack([np.repeat(np.arange(height), counts), np.concatenate([*places, np.arange(0)])], 1)
        values = np.concatenate([*rows, np.empty(0, dtype)])
        return indices.astype(np.int64), values, np.array([height, max(counts, default=0)], np.int64)

    return cross


def _shape(context: ShapeContext) -> Sequence[Dims]:
    return [(None, 2), (None,), (2,)]


register(
    "SparseCross(indices:N*int64, values:sparse_types, shapes:N*int64, dense_inputs:dense_types) -> "
    "(output_indices:int64, output_values:out_type, output_shape:int64) [N:int>=0; hashed_output:bool; num_buckets:int>=0; "
    "hash_key:int; sparse_types:list(type){int64|string}>=0; dense_types:list(type){int64|string}>=0; "
    "out_type:type{int64|string}; internal_type:type{int64|string}]",
    shape=_shape,
    kernel=_kernel,
    gradient=NOT_DIFFERENTIABLE,
    dynamic_shape=True,
)


def sparse_cross_hashed(
    inputs: Sequence[Any], num_buckets: int = 0, hash_key: int | None = None, name: str | None = None
) -> SparseTensor:
    """Return the hashes of all combinations of one element of each feature, for each example: int64 [batch, n].

    Args:
        inputs: tensors or SparseTensors [batch, ...] of strings or integers; the sparse ones are combined first.
        num_buckets: the hashes are taken modulo this; 0: they are not.
        hash_key: of the hash; None for the usual one.

    Raises:
        GraphTypeError: an input is no tensor.
    """
    if not all(isinstance(each, Tensor | SparseTensor) for each in inputs):
        raise GraphTypeError("All inputs must be Tensor or SparseTensor.")
    sparse = [each for each in inputs if isinstance(each, SparseTensor)]
    dense = [_as_key(each) for each in inputs if not isinstance(each, SparseTensor)]
    values = [_as_key(each.values) for each in sparse]
    is_text = all(each.dtype.base_dtype == dt.string for each in (*values, *dense))
    indices, crossed, shape = apply_tuple_op(
        "SparseCross",
        [each.indices for each in sparse],
        values,
        [each.dense_shape for each in sparse],
        dense,
        N=len(sparse),
        sparse_types=[each.dtype.base_dtype for each in values],
        dense_types=[each.dtype.base_dtype for each in dense],
        hashed_output=True,
        num_buckets=num_buckets,
        hash_key=hash_key or _HASH_KEY,
        out_type=dt.int64,
        internal_type=dt.string if is_text else dt.int64,
        name=name,
    )
    return SparseTensor(indices, crossed, shape)


def _as_key(tensor: Tensor) -> Tensor:
    """Strings as they are, numbers as int64."""
    return tensor if tensor.dtype.base_dtype == dt.string else cast(tensor, dt.int64)
