"""Hash tables in TensorFlow's dense layout: open addressing, with two reserved keys that mark empty and deleted buckets.

Lookups use a dict; buckets matter only for `export`, which returns all of them, as TensorFlow's does. Numeric keys are in the
same buckets as TensorFlow's; strings are not, since they are hashed differently.

State: `_entries`, and `_places`, the bucket of each of its keys; `_buckets`, the content of every bucket ever used: key and
value, or the deleted key with its former value; `buckets`, their number.

Invariants (`check_invariants`): `_places` and `_buckets` agree; at most `max_load_factor` of the buckets have entries.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from aioexec.dtypes import DType
from aioexec.errors import InvalidArgumentError, ResourceExhaustedError
from aioexec.resources.tables import Array, LookupTable, Sizes, array_of, shown
from aioexec.shapes import Dims

_WORD = 2**64 - 1
_LARGEST_EXPORT = 1 << 26
"""Upper bound for the buckets of an export."""


def _hash(key: Any) -> int:
    """Return the 64-bit hash that selects the bucket."""
    if isinstance(key, tuple):
        total = 0
        for part in key:
            total ^= (_hash(part) + 0x9E3779B97F4A7800 + (total << 10) + (total >> 4)) & _WORD
        return total & _WORD
    if isinstance(key, bytes):
        return zlib.crc32(key)
    return int(key) & _WORD


def _check_shapes(value_dims: Sizes, empty_key: Array, deleted_key: Array | None) -> None:
    for what, dims in (("value", value_dims), ("key", empty_key.shape)):
        if len(dims) > 1:
            raise InvalidArgumentError(f"Empty {what} must be a scalar or a vector, got shape {shown(dims)}")
    if deleted_key is not None and deleted_key.shape != empty_key.shape:
        raise InvalidArgumentError(
            f"Empty and deleted keys must have same shape, got shapes: "
            f"{shown(empty_key.shape)} and {shown(deleted_key.shape)}"
        )


class DenseHashTable(LookupTable):
    """A dense hash table. Constant: `key_dims`, () or (n,) for vectors; `empty_key`, `deleted_key`; `max_load_factor`."""

    kind = "MutableDenseHashTable"

    def __init__(
        self,
        name: str,
        key_dtype: DType,
        value_dtype: DType,
        value_dims: Dims = (),
        device: str = "",
        *,
        empty_key: Array,
        deleted_key: Array | None = None,
        buckets: int = 131072,
        max_load_factor: float = 0.8,
    ) -> None:
        super().__init__(name, key_dtype, value_dtype, value_dims, device)
        _check_shapes(self.value_dims, empty_key, deleted_key)
        if buckets < 4 or buckets & (buckets - 1):
            raise InvalidArgumentError(
                f"Number of buckets must be at least 4 and a power of 2, got: {buckets}"
            )
        if not 0 < max_load_factor < 1:
            raise InvalidArgumentError(f"max_load_factor must be between 0 and 1, got: {max_load_factor:g}")
        self.key_dims: Sizes = empty_key.shape
        (self.empty_key,) = self._hashable(empty_key)
        self.deleted_key = None if deleted_key is None else self._hashable(deleted_key)[0]
        if self.empty_key == self.deleted_key:
            raise InvalidArgumentError("Empty and deleted keys cannot be equal")
        self.buckets = buckets
        self.max_load_factor = max_load_factor
        self._places: dict[Hashable, int] = {}
        self._buckets: dict[int, tuple[Hashable, Any]] = {}
        self._lock = threading.Lock()

    def insert(self, keys: Array, values: Array) -> None:
        self._check_values(keys, values)
        listed = self._check_not_reserved(self._hashable(keys))
        with self._lock:
            self._grow(len(self._entries) + len(listed))
            for key, value in zip(listed, self._rows(values), strict=True):
                self._set(key, value)

    def remove(self, keys: Array) -> None:
        """Remove keys.

        Raises:
            InvalidArgumentError: a key is reserved, or there is no deleted key.
        """
        self._check_keys(keys)
        listed = self._check_not_reserved(self._hashable(keys))
        if self.deleted_key is None:
            raise InvalidArgumentError(
                f"{self.kind} {self.name!r} has no deleted_key: keys cannot be removed"
            )
        with self._lock:
            for key in listed:
                if key in self._entries:
                    place = self._places.pop(key)
                    self._buckets[place] = (self.deleted_key, self._entries.pop(key))

    def replace(self, keys: Array, values: Array) -> None:
        """Replace all entries, which may come from an export: reserved keys are skipped."""
        flat = keys.reshape(len(keys), *self.key_dims) if keys.ndim and keys.size else keys
        if not self.value_dims and values.shape == (len(flat), 1):
            values = values.reshape(-1)
        self._check_values(flat, values)
        with self._lock:
            entries = dict(zip(self._hashable(flat), self._rows(values), strict=True))
            for marker in (self.empty_key, self.deleted_key):
                entries.pop(marker, None)
            self._places, self._buckets = {}, {}
            self._entries = entries
            self._grow(len(entries))
            self._spread(entries)

    def find(self, keys: Array, default: Array) -> Array:
        self._check_keys(keys)
        self._check_not_reserved(self._hashable(keys))
        return super().find(keys, default)

    def export(self) -> tuple[Array, Array]:
        """Return all buckets: keys, and values, which are zero in empty ones; scalars as vectors of one element."""
        with self._lock:
            if self.buckets > _LARGEST_EXPORT:
                raise ResourceExhaustedError(f"{self.kind} {self.name!r}: {self.buckets} buckets to export")
            used = list(self._buckets.items())
        width = self.key_dims or (1,)
        keys = np.empty((self.buckets, *width), self.key_dtype.numpy)
        keys[:] = self._key_array(self.empty_key)
        blank = b"" if self.value_dtype.numpy == np.object_ else 0
        values = np.full((self.buckets, *(self.value_dims or (1,))), blank, self.value_dtype.numpy)
        for place, (key, value) in used:
            keys[place] = self._key_array(key)
            values[place] = value
        return keys, values

    def check_invariants(self) -> None:
        assert self._entries.keys() == self._places.keys()
        for key, place in self._places.items():
            held, value = self._buckets[place]
            assert held == key
            assert value is self._entries[key]
        assert len(self._entries) <= self.buckets * self.max_load_factor

    # Service

    def _key_array(self, key: Hashable) -> Array:
        return array_of(list(key) if isinstance(key, tuple) else [key], self.key_dtype)

    def _check_keys(self, keys: Array) -> Sizes:
        width = len(self.key_dims)
        if width and keys.shape[-1:] != self.key_dims:
            raise InvalidArgumentError(
                f"Input key shape {shown(keys.shape)} must end with the table's key shape {shown(self.key_dims)}"
            )
        if keys.ndim != width + 1:
            raise InvalidArgumentError(
                f"Expected key shape {shown([*keys.shape[:1], *self.key_dims])} got {shown(keys.shape)}"
            )
        return (len(keys),)

    def _hashable(self, keys: Array) -> Sequence[Hashable]:
        if not self.key_dims:
            return super()._hashable(keys)
        return [tuple(row) for row in keys.reshape(-1, *self.key_dims).tolist()]

    def _check_not_reserved(self, keys: Sequence[Hashable]) -> Sequence[Hashable]:
        for what, marker in (("empty_key", self.empty_key), ("deleted_key", self.deleted_key)):
            if marker is not None and marker in keys:
                raise InvalidArgumentError(f"Using the {what} as a table key is not allowed")
        return keys

    def _in_bucket_order(self) -> list[Hashable]:
        """Return the keys in the order of their buckets."""
        return sorted(self._places, key=self._places.__getitem__)

    def _grow(self, count: int) -> None:
        """Double the buckets until `count` entries fit, and rehash the keys in bucket order."""
        buckets = self.buckets
        while count > buckets * self.max_load_factor:
            buckets *= 2
        if buckets != self.buckets:
            self.buckets = buckets
            self._spread(self._in_bucket_order())

    def _spread(self, keys: Iterable[Hashable]) -> None:
        self._places, self._buckets = {}, {}
        for key in keys:
            self._set(key, self._entries[key])

    def _set(self, key: Hashable, value: Any) -> None:
        place = self._places.get(key)
        if place is None:
            place, probes = _hash(key) & (self.buckets - 1), 0
            while place in self._buckets and self._buckets[place][0] != self.deleted_key:
                probes += 1
                place = (place + probes) & (self.buckets - 1)
            self._places[key] = place
        self._buckets[place] = (key, value)
        self._entries[key] = value
