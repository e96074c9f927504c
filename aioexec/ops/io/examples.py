"""ParseExample, ParseExampleV2 and ParseSingleExample: decode features of serialised Examples.

The requested features are a list of slots: dense, sparse or ragged. A slot converts the values of one Example or of a batch to
outputs; None stands for a missing feature. If a key is requested twice, only its last slot is filled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np

from aioexec import dtypes as dt, shapes
from aioexec.data_classes import dataclass
from aioexec.dtypes import DType
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.formats.examples import features_of, kind_of, values_of
from aioexec.graph.kernels.kernel import Compute, KernelContext
from aioexec.graph.registry import ShapeContext, register, undefined_gradient
from aioexec.ops.common.elementwise import Array, room_for, shown
from aioexec.ops.strings.elements import scalar_bytes, text_of
from aioexec.shapes import Dims

KINDS: Final = {dt.float32: "float", dt.int64: "int64", dt.string: "string"}
"""The dtypes of features, and their names in messages."""

# Slots


class Slot(Protocol):
    """A requested feature; `single` and `batch` return the outputs for one Example or a batch."""

    @property
    def key(self) -> bytes: ...

    @property
    def dtype(self) -> DType: ...

    def single(self, values: Array | None, prefix: str) -> tuple[Array, ...]: ...

    def batch(self, values: Sequence[Array | None], prefix: Sequence[str]) -> tuple[Array, ...]: ...


@dataclass(frozen=True)
class DenseSlot:
    """A feature of fixed shape; if its first dimension is unknown, of variable length, padded to the longest of a batch."""

    key: bytes
    dtype: DType
    dims: tuple[int | None, ...]
    default: Array

    @property
    def _inner(self) -> tuple[int, ...]:
        return tuple(dim for dim in self.dims if dim is not None)

    @property
    def _is_variable(self) -> bool:
        return self.dims[:1] == (None,)

    def check(self, number: int) -> None:
        given = np.shape(self.default)
        room_for([max(dim, 1) for dim in self._inner], self.dtype.numpy.itemsize)
        if self._is_variable and self.default.size != 1:
            raise InvalidArgumentError(
                f"dense_shape[{number}] is a variable length shape: {described(self.dims)}, therefore def_value[{number}] "
                f"must contain a single element (the padding element).  But its shape is: {shown(given)}"
            )
        if not self._is_variable and self.default.size and given != self.dims:
            raise InvalidArgumentError(
                f"def_value[{number}].shape() == {shown(given)} is not compatible with dense_shapes_[{number}] == "
                f"{described(self.dims)}"
            )

    def _rows(self, values: Array, prefix: str) -> Array:
        """Reshape the elements."""
        inner, size = self._inner, math.prod(self._inner)
        if self._is_variable:
            count = values.size // size if size else 0
            if count * size != values.size:
                raise InvalidArgumentError(
                    f"{prefix}Key: {text_of(self.key)}.  Number of {KINDS[self.dtype]} values is not a multiple of stride "
                    f"length. Saw {values.size} values but output shape is: {described(self.dims)}"
                )
            return values.reshape(count, *inner)
        if values.size != size:
            raise InvalidArgumentError(
                f"{prefix}Key: {text_of(self.key)}.  Number of {KINDS[self.dtype]} values != expected.  Values size: "
                f"{values.size} but output shape: {described(self.dims)}"
            )
        return values.reshape(inner)

    def _element(self, values: Array | None, prefix: str) -> Array:
        if values is not None:
            return self._rows(values, prefix)
        if self._is_variable:
            return uninitialised(self.dtype, (0, *self._inner))
        if not self.default.size:
            raise InvalidArgumentError(
                f"{prefix}Feature: {text_of(self.key)} (data type: {KINDS[self.dtype]}) is required but could not be found."
            )
        return self.default

    def single(self, values: Array | None, prefix: str) -> tuple[Array, ...]:
        return (self._element(values, prefix).copy(),)

    def batch(self, values: Sequence[Array | None], prefix: Sequence[str]) -> tuple[Array, ...]:
        rows = [self._element(each, name) for each, name in zip(values, prefix, strict=True)]
        dims = (len(rows), *self._inner)
        if self._is_variable:
            return (self._padded(rows),)
        room_for(dims, self.dtype.numpy.itemsize)
        result = uninitialised(self.dtype, dims)
        for place, row in enumerate(rows):
            result[place, ...] = row
        return (result,)

    def _padded(self, rows: Sequence[Array]) -> Array:
        dims = (len(rows), max(map(len, rows), default=0), *self._inner)
        room_for(dims, self.dtype.numpy.itemsize)
        result = uninitialised(self.dtype, dims)
        result[...] = self.default.reshape((1,) * len(dims))
        for place, row in enumerate(rows):
            result[place, : len(row)] = row
        return result


@dataclass(frozen=True)
class SparseSlot:
    """A feature of variable length; the outputs are indices, values and dense shape of a sparse tensor."""

    key: bytes
    dtype: DType

    def single(self, values: Array | None, prefix: str) -> tuple[Array, ...]:
        found = uninitialised(self.dtype, (0,)) if values is None else values.copy()
        return np.arange(found.size)[:, None], found, np.array([found.size])

    def batch(self, values: Sequence[Array | None], prefix: Sequence[str]) -> tuple[Array, ...]:
        found, lengths = concatenated(self.dtype, values)
        rows = np.repeat(np.arange(len(lengths)), lengths)
        starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
        indices = np.stack([rows, np.arange(found.size) - starts], axis=1)
        return indices, found, np.array([len(lengths), lengths.max(initial=0)])


@dataclass(frozen=True)
class _Ragged:
    """A feature of variable length; the outputs are values and row splits (none for a single Example) of a ragged tensor."""

    key: bytes
    dtype: DType
    splits: DType

    def single(self, values: Array | None, prefix: str) -> tuple[Array, ...]:
        found = uninitialised(self.dtype, (0,)) if values is None else values.copy()
        return found, np.zeros(0, self.splits.numpy)

    def batch(self, values: Sequence[Array | None], prefix: Sequence[str]) -> tuple[Array, ...]:
        found, lengths = concatenated(self.dtype, values)
        return found, np.concatenate([[0], np.cumsum(lengths)]).astype(self.splits.numpy)


def uninitialised(dtype: DType, dims: tuple[int, ...]) -> Array:
    """Return an uninitialised array."""
    return np.empty(dims, dtype.numpy)


def concatenated(dtype: DType, values: Sequence[Array | None]) -> tuple[Array, Array]:
    """Concatenate all values; return them and the length of each."""
    present = [each for each in values if each is not None]
    lengths = np.array([0 if each is None else each.size for each in values], np.int64)
    return np.concatenate([uninitialised(dtype, (0,)), *present]), lengths


def described(dims: Dims) -> str:
    return "<unknown>" if dims is None else shown(["?" if dim is None else dim for dim in dims])


# From bytes to values


def _features(serialized: bytes, prefix: str) -> dict[bytes, bytes]:
    try:
        return features_of(serialized)
    except ValueError as error:
        start = text_of(serialized[:100])
        raise InvalidArgumentError(f"{prefix}Could not parse example input, value: '{start}'") from error


def values_in(features: dict[bytes, bytes], slot: Slot, prefix: str) -> Array | None:
    feature = features.get(slot.key)
    if not feature:
        return None
    try:
        kind = kind_of(feature)
        if kind is slot.dtype:
            return values_of(feature)
    except ValueError as error:
        raise InvalidArgumentError(
            f"{prefix}Key: {text_of(slot.key)}.  Can't parse serialized Example."
        ) from error
    raise InvalidArgumentError(
        f"{prefix}Key: {text_of(slot.key)}.  Data types don't match. Expected type: {KINDS[slot.dtype]}, "
        f"Actual type: {KINDS[kind] if kind else 'none'}"
    )


def _filled(slots: Sequence[Slot], features: dict[bytes, bytes], prefix: str) -> list[Array | None]:
    last = {slot.key: number for number, slot in enumerate(slots)}
    return [
        values_in(features, slot, prefix) if last[slot.key] == number else None
        for number, slot in enumerate(slots)
    ]


def parse_one(slots: Sequence[Slot], serialized: bytes, name: str = "") -> list[tuple[Array, ...]]:
    """Return the outputs of each slot for one Example."""
    prefix = f"Name: {name}, " if name else ""
    values = _filled(slots, _features(serialized, prefix), prefix)
    return [slot.single(found, prefix) for slot, found in zip(slots, values, strict=True)]


def parse_batch(
    slots: Sequence[Slot], serialized: Array, names: Sequence[str] = ()
) -> list[tuple[Array, ...]]:
    """Return the outputs of each slot for a batch of Examples."""
    prefix = [f"Name: {name}, " for name in names] or ["Name: <unknown>, "] * len(serialized)
    rows = [
        _filled(slots, _features(one, name), f"{name}Index: {number}, ")
        for number, (one, name) in enumerate(zip(serialized, prefix, strict=True))
    ]
    return [slot.batch([row[number] for row in rows], prefix) for number, slot in enumerate(slots)]


# Kernels


def _dense_slots(context: KernelContext, keys: Sequence[bytes], defaults: Sequence[Array]) -> list[DenseSlot]:
    dtypes, given = context.attrs["Tdense"], context.attrs["dense_shapes"]
    slots = []
    for number, (key, dtype, dims, default) in enumerate(zip(keys, dtypes, given, defaults, strict=True)):
        slot = DenseSlot(key, dtype, tuple(shapes.as_dims(dims) or ()), np.asarray(default))
        slot.check(number)
        slots.append(slot)
    return slots


def _outputs(made: Sequence[tuple[Array, ...]], sparse: int, dense: int) -> Any:
    """Order outputs: sparse (all indices, all values, all shapes), dense, ragged. `made` is ordered dense, sparse, ragged."""
    parts = made[dense : dense + sparse], made[:dense], made[dense + sparse :]
    results = [output for group in parts for output in zip(*group, strict=True)]
    flat = tuple(array for output in results for array in output)
    return flat[0] if len(flat) == 1 else flat


def _names(names: Array, serialized: Array) -> list[str]:
    if names.size and names.shape != serialized.shape:
        raise InvalidArgumentError(
            f"Expected names have the same shape as serialized: name.shape={shown(names.shape)}, "
            f"serialized.shape={shown(serialized.shape)}"
        )
    return [text_of(bytes(name)) for name in names.ravel()]


def _parsed(slots: Sequence[Slot], serialized: Array, names: Array) -> list[tuple[Array, ...]]:
    named = _names(names, serialized)
    if serialized.ndim:
        return parse_batch(slots, serialized, named)
    return parse_one(slots, serialized.item(), "".join(named))


def _kernel(context: KernelContext) -> Compute:
    _check(context.attrs)
    attrs = context.attrs
    sparse, dense = attrs["Nsparse"], attrs["Ndense"]

    def compute(serialized: Array, names: Array, *rest: Array) -> Any:
        if np.ndim(serialized) != 1:
            raise InvalidArgumentError(
                f"Expected serialized to be a vector, got shape: {shown(np.shape(serialized))}"
            )
        keys = [scalar_bytes(key, "a key") for key in rest[: sparse + dense]]
        slots: list[Slot] = [*_dense_slots(context, keys[sparse:], rest[sparse + dense :])]
        slots += map(SparseSlot, keys[:sparse], attrs["sparse_types"])
        return _outputs(_parsed(slots, serialized, np.asarray(names)), sparse, dense)

    return compute


def _kernel_v2(context: KernelContext) -> Compute:
    _check(context.attrs)
    attrs = context.attrs
    sparse, dense = attrs["num_sparse"], len(attrs["Tdense"])
    counts = {"sparse_keys": sparse, "dense_keys": dense, "ragged_keys": len(attrs["ragged_value_types"])}

    def compute(
        serialized: Array,
        names: Array,
        sparse_keys: Array,
        dense_keys: Array,
        ragged_keys: Array,
        *rest: Array,
    ) -> Any:
        serialized = np.asarray(serialized)
        if serialized.ndim > 1:
            raise InvalidArgumentError(
                f"Expected serialized to be a scalar or vector, got shape: {shown(serialized.shape)}"
            )
        for (what, count), keys in zip(counts.items(), (sparse_keys, dense_keys, ragged_keys), strict=True):
            if np.shape(keys) != (count,):
                raise InvalidArgumentError(f"Expected {count} {what}, got shape {shown(np.shape(keys))}")
        slots: list[Slot] = [*_dense_slots(context, list(dense_keys), rest)]
        slots += map(SparseSlot, sparse_keys, attrs["sparse_types"])
        slots += map(_Ragged, ragged_keys, attrs["ragged_value_types"], attrs["ragged_split_types"])
        return _outputs(_parsed(slots, serialized, np.asarray(names)), sparse, dense)

    return compute


def _single_kernel(context: KernelContext) -> Compute:
    _check(context.attrs)
    attrs = context.attrs
    dense_keys, sparse_keys = ([_key(key) for key in attrs[name]] for name in ("dense_keys", "sparse_keys"))

    def compute(serialized: Array, *defaults: Array) -> Any:
        if np.ndim(serialized):
            raise InvalidArgumentError(
                f"Expected serialized to be a scalar, got shape: {shown(np.shape(serialized))}"
            )
        slots: list[Slot] = [*_dense_slots(context, dense_keys, defaults)]
        slots += map(SparseSlot, sparse_keys, attrs["sparse_types"])
        made = parse_one(slots, scalar_bytes(serialized, "serialized"))
        return _outputs(made, len(sparse_keys), len(dense_keys))

    return compute


def _key(key: str | bytes) -> bytes:
    return key if isinstance(key, bytes) else key.encode()


# Rows


def _check(attrs: Any) -> None:
    """Check that related attributes have equal lengths, and that only the first dimension of a dense shape is unknown."""
    for together in (
        ("num_sparse", "Nsparse", "sparse_keys", "sparse_types"),
        ("Ndense", "dense_keys", "Tdense", "dense_shapes"),
        ("ragged_value_types", "ragged_split_types"),
    ):
        counts = {name: _count(attrs[name]) for name in together if name in attrs}
        if len(set(counts.values())) > 1:
            shown_counts = ", ".join(f"{name} ({count})" for name, count in counts.items())
            raise GraphValueError(f"Expected as many of each: {shown_counts}")
    for number, dims in enumerate(map(shapes.as_dims, attrs["dense_shapes"])):
        if dims is None or None in dims[1:]:
            raise GraphValueError(
                f"dense_shapes[{number}] has unknown rank or unknown inner dimensions: {described(dims)}"
            )


def _count(value: Any) -> int:
    return value if isinstance(value, int) else len(value)


def _shape_for(batch: Dims, attrs: Any) -> list[Dims]:
    """Return the output shapes for a batch of Examples [n], a single one [], or an unknown shape."""
    count = len(attrs["sparse_types"])
    rank = None if batch is None else 1 + len(batch)
    sparse: list[Dims] = [(None, rank)] * count + [(None,)] * count + [(rank,)] * count
    dense = [shapes.concatenate(batch, shapes.as_dims(dims)) for dims in attrs["dense_shapes"]]
    ragged = len(attrs.get("ragged_value_types", ()))
    splits = (batch[0] + 1,) if batch and batch[0] is not None else (None,)
    return [*sparse, *dense, *([(None,)] * ragged), *([splits] * ragged)]


def _shape(context: ShapeContext) -> Sequence[Dims]:
    _check(context.attrs)
    batch = shapes.with_rank(context.inputs[0], 1)
    shapes.with_rank(context.inputs[1], 1)
    return _shape_for(batch, context.attrs)


def _shape_v2(context: ShapeContext) -> Sequence[Dims]:
    _check(context.attrs)
    batch = shapes.with_rank_at_most(context.inputs[0], 1)
    shapes.with_rank_at_most(context.inputs[1], 1)
    return _shape_for(batch, context.attrs)


def _single_shape(context: ShapeContext) -> Sequence[Dims]:
    _check(context.attrs)
    shapes.with_rank(context.inputs[0], 0)
    return _shape_for((), context.attrs)


_LISTS: Final = "{float|int64|string}>=0"
_TYPES: Final = f"sparse_types:list(type){_LISTS}; Tdense:list(type){_LISTS}; dense_shapes:list(shape)>=0"
_SPARSE: Final = (
    "sparse_indices:{0}*int64, sparse_values:sparse_types, sparse_shapes:{0}*int64, dense_values:Tdense"
)

register(
    "ParseExample(serialized:string, names:string, sparse_keys:Nsparse*string, dense_keys:Ndense*string, "
    f"dense_defaults:Tdense) -> ({_SPARSE.format('Nsparse')}) [Nsparse:int>=0; Ndense:int>=0; {_TYPES}]",
    shape=_shape,
    kernel=_kernel,
    gradient=undefined_gradient,
    dynamic_shape=True,
)
register(
    "ParseExampleV2(serialized:string, names:string, sparse_keys:string, dense_keys:string, ragged_keys:string, "
    f"dense_defaults:Tdense) -> ({_SPARSE.format('num_sparse')}, ragged_values:ragged_value_types, "
    f"ragged_row_splits:ragged_split_types) [Tdense:list(type){_LISTS}; num_sparse:int>=0; sparse_types:list(type){_LISTS}; "
    f"ragged_value_types:list(type){_LISTS}; ragged_split_types:list(type){{int32|int64}}>=0; dense_shapes:list(shape)>=0]",
    shape=_shape_v2,
    kernel=_kernel_v2,
    gradient=undefined_gradient,
    dynamic_shape=True,
)
register(
    f"ParseSingleExample(serialized:string, dense_defaults:Tdense) -> ({_SPARSE.format('num_sparse')}) "
    f"[num_sparse:int>=0; sparse_keys:list(string)>=0; dense_keys:list(string)>=0; {_TYPES}]",
    shape=_single_shape,
    kernel=_single_kernel,
    gradient=undefined_gradient,
    dynamic_shape=True,
)
