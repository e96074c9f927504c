"""Lookup tables: `HashTable`, which is initialised once, and the mutable `MutableHashTable` and `DenseHashTable`.

Keys and scalar values are stored as Python values, vector values as arrays. All methods are thread-safe: they modify a dict by
single operations, or replace it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np

from aioexec.dtypes import DType
from aioexec.errors import (
    AbortedError,
    FailedPreconditionError,
    InvalidArgumentError,
    OpError,
    UnimplementedError,
)
from aioexec.shapes import Dims, is_fully_defined

Array: TypeAlias = np.ndarray[Any, Any]
Sizes: TypeAlias = tuple[int, ...]


def shown(sizes: Sequence[int]) -> str:
    return f"[{','.join(map(str, sizes))}]"


def array_of(values: Sequence[Any], dtype: DType) -> Array:
    """Return a vector of Python values."""
    made = np.empty(len(values), dtype.numpy)
    made[:] = values
    return made


class LookupTable:
    """The base of tables.

    Constant: name, dtypes of keys and values, `value_dims` of a value, device (full name). State: `_entries`.
    """

    kind = "LookupTable"

    def __init__(
        self, name: str, key_dtype: DType, value_dtype: DType, value_dims: Dims = (), device: str = ""
    ) -> None:
        if value_dims is None or not is_fully_defined(value_dims):
            raise InvalidArgumentError(f"{self.kind} {name!r}: Shape {value_dims} is not fully defined")
        self.name = name
        self.key_dtype = key_dtype
        self.value_dtype = value_dtype
        self.value_dims: Sizes = tuple([int(dim or 0) for dim in value_dims])
        self.device = device
        self._entries: dict[Hashable, Any] = {}

    @property
    def size(self) -> int:
        return len(self._entries)

    def find(self, keys: Array, default: Array) -> Array:
        """Return the value of each key, or the default: one for all keys, or one for each.

        Raises:
            InvalidArgumentError: the shape of the default is neither.
        """
        outer = self._check_keys(keys)
        full = (*outer, *self.value_dims)
        if default.shape not in (self.value_dims, full):
            raise InvalidArgumentError(
                f"Expected shape {shown(self.value_dims)} or {shown(full)} for default value, "
                f"got {shown(default.shape)}"
            )
        found = map(self._entries.get, self._hashable(keys))
        if self.value_dims:
            made = np.broadcast_to(default, full).copy()
            rows = made.reshape(-1, *self.value_dims)
            for k, row in enumerate(found):
                if row is not None:
                    rows[k] = row
            return rows.reshape(full)
        others = repeat(default.item()) if default.ndim == 0 else self._defaults(default)
        values = [other if value is None else value for value, other in zip(found, others, strict=False)]
        return array_of(values, self.value_dtype).reshape(full)

    def _defaults(self, default: Array) -> Any:
        """Yield the default value of each key."""
        return default.reshape(-1).tolist()

    def initialize(self, keys: Array, values: Array) -> None:
        """Fill a table that is initialised once.

        Raises:
            InvalidArgumentError: the table is of another kind.
        """
        raise InvalidArgumentError(f"Table {self.name} is not initializable")

    def insert(self, keys: Array, values: Array) -> None:
        """Set the values of keys; of a repeated key, the last one counts.

        Raises:
            InvalidArgumentError: the numbers of keys and values differ.
            UnimplementedError: the table can only be initialised.
        """
        self._check_values(keys, values)
        self._entries.update(zip(self._hashable(keys), self._rows(values), strict=True))

    def remove(self, keys: Array) -> None:
        """Remove keys; missing ones are ignored.

        Raises:
            UnimplementedError: the table can only be initialised.
        """
        self._check_keys(keys)
        for key in self._hashable(keys):
            self._entries.pop(key, None)

    def replace(self, keys: Array, values: Array) -> None:
        """Replace all entries.

        Raises:
            InvalidArgumentError: the numbers of keys and values differ.
        """
        self._check_values(keys, values)
        self._entries = dict(zip(self._hashable(keys), self._rows(values), strict=True))

    def export(self) -> tuple[Array, Array]:
        """Return all keys and their values."""
        entries = list(self._entries.items())
        keys = array_of([key for key, _ in entries], self.key_dtype)
        return keys, self._stacked([value for _, value in entries])

    # Service

    def _check_keys(self, keys: Array) -> Sizes:
        """Check the shape of a tensor of keys; return it without the dimensions of a key."""
        sizes: Sizes = keys.shape
        return sizes

    def _check_values(self, keys: Array, values: Array) -> None:
        expected = (*self._check_keys(keys), *self.value_dims)
        if values.shape != expected:
            raise InvalidArgumentError(
                f"Expected shape {shown(expected)} for value, got {shown(values.shape)}"
            )

    def _hashable(self, keys: Array) -> Sequence[Hashable]:
        return keys.reshape(-1).tolist()

    def _rows(self, values: Array) -> Sequence[Any]:
        if self.value_dims:
            return list(values.reshape(-1, *self.value_dims).copy())
        return values.reshape(-1).tolist()

    def _stacked(self, values: Sequence[Any]) -> Array:
        if not self.value_dims:
            return array_of(values, self.value_dtype)
        made = np.empty((len(values), *self.value_dims), self.value_dtype.numpy)
        for k, value in enumerate(values):
            made[k] = value
        return made


class HashTable(LookupTable):
    """A table that is initialised once."""

    kind = "HashTable"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.is_initialized = False

    def find(self, keys: Array, default: Array) -> Array:
        if not self.is_initialized:
            raise FailedPreconditionError("Table not initialized.")
        return super().find(keys, default)

    def _defaults(self, default: Array) -> Any:
        """As in TensorFlow, the first default value is used for all keys."""
        return repeat(default.reshape(-1).tolist()[0]) if default.size else ()

    def initialize(self, keys: Array, values: Array) -> None:
        """Fill the table; if it was filled before with as many entries, do nothing.

        Raises:
            InvalidArgumentError: keys are not a vector, the numbers of keys and values differ, or there are none.
            FailedPreconditionError: the table was filled with another number of entries, or a key has two values.
        """
        if keys.ndim != 1:
            raise InvalidArgumentError(f"Keys must be a vector, but received shape{shown(keys.shape)}")
        if not keys.size:
            raise InvalidArgumentError("keys and values cannot be empty tensors.")
        if len(keys) != values.size:
            raise InvalidArgumentError(
                f"Keys and values must have the same size {len(keys)} vs {values.size}"
            )
        self.fill(self._hashable(keys), self._rows(values))

    def fill(self, keys: Sequence[Hashable], values: Sequence[Any]) -> None:
        """As `initialize`, with Python values."""
        self.begin_with(len(keys), None if self.is_initialized else self.entries_of(keys, values))

    def begin_with(self, count: int, entries: dict[Hashable, Any] | None) -> None:
        """Fill the table with the entries of `count` keys; None if it was filled before.

        Raises:
            FailedPreconditionError: the table was filled with another number of entries.
        """
        if not self.is_initialized:
            assert entries is not None, "a table that has been filled stays so"
            self._entries, self.is_initialized = entries, True
        elif count != self.size:
            raise FailedPreconditionError("Table was already initialized with different data.")

    def entries_of(self, keys: Sequence[Hashable], values: Sequence[Any]) -> dict[Hashable, Any]:
        """Return a dict of keys and values.

        Raises:
            FailedPreconditionError: a key has two values.
        """
        entries: dict[Hashable, Any] = {}
        for key, value in zip(keys, values, strict=True):
            if entries.setdefault(key, value) != value:
                raise FailedPreconditionError(
                    f"HashTable has different value for same key. Key {_text(key)} has {_text(entries[key])} "
                    f"and trying to add value {_text(value)}"
                )
        return entries

    def insert(self, keys: Array, values: Array) -> None:
        raise self._unsupported("Insert")

    def remove(self, keys: Array) -> None:
        raise self._unsupported("Remove")

    def replace(self, keys: Array, values: Array) -> None:
        self.initialize(keys, values)

    def export(self) -> tuple[Array, Array]:
        if not self.is_initialized:
            raise AbortedError("HashTable is not initialized.")
        return super().export()

    @staticmethod
    def _unsupported(verb: str) -> OpError:
        return UnimplementedError(f"{verb} not supported by InitializableLookupTable implementations")


class MutableHashTable(LookupTable):
    """A mutable table with scalar values."""

    kind = "MutableHashTable"


class MutableHashTableOfTensors(LookupTable):
    """A mutable table with vector values."""

    kind = "MutableHashTableOfTensors"

    def __init__(
        self, name: str, key_dtype: DType, value_dtype: DType, value_dims: Dims = (), device: str = ""
    ) -> None:
        super().__init__(name, key_dtype, value_dtype, value_dims, device)
        if len(self.value_dims) != 1:
            raise InvalidArgumentError(f"Default value must be a vector, got shape {shown(self.value_dims)}")


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
