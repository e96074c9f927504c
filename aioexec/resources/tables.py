"""Lookup tables: keys to values. A `HashTable` is filled once; a `MutableHashTable` and a `DenseHashTable` change.

Keys are kept as Python values, and so are scalar values; a value that is a vector is an array. Every method is safe to call on
any thread: what changes is one dict, by single operations on it, or replaced as a whole.
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
    """A vector of Python values."""
    made = np.empty(len(values), dtype.numpy)
    made[:] = values
    return made


class LookupTable:
    """What tables share.

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
        """The value of each key, or the default: one for all, or one for each.

        Raises:
            InvalidArgumentError: the default is neither.
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
        """What stands for keys that are not there, one after the other."""
        return default.reshape(-1).tolist()

    def initialize(self, keys: Array, values: Array) -> None:
        """Fill a table that is filled once.

        Raises:
            InvalidArgumentError: it is of another kind.
        """
        raise InvalidArgumentError(f"Table {self.name} is not initializable")

    def insert(self, keys: Array, values: Array) -> None:
        """Set the values of keys; of a key that is given twice, the last one.

        Raises:
            InvalidArgumentError: not one value a key.
            UnimplementedError: the table is filled once.
        """
        self._check_values(keys, values)
        self._entries.update(zip(self._hashable(keys), self._rows(values), strict=True))

    def remove(self, keys: Array) -> None:
        """Forget keys; no matter whether they are there.

        Raises:
            UnimplementedError: the table is filled once.
        """
        self._check_keys(keys)
        for key in self._hashable(keys):
            self._entries.pop(key, None)

    def replace(self, keys: Array, values: Array) -> None:
        """Forget everything but these.

        Raises:
            InvalidArgumentError: not one value a key.
        """
        self._check_values(keys, values)
        self._entries = dict(zip(self._hashable(keys), self._rows(values), strict=True))

    def export(self) -> tuple[Array, Array]:
        """All keys, and their values."""
        entries = list(self._entries.items())
        keys = array_of([key for key, _ in entries], self.key_dtype)
        return keys, self._stacked([value for _, value in entries])

    # Service

    def _check_keys(self, keys: Array) -> Sizes:
        """The dimensions of many keys."""
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
    """Is filled once, and looked up then."""

    kind = "HashTable"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.is_initialized = False

    def find(self, keys: Array, default: Array) -> Array:
        if not self.is_initialized:
            raise FailedPreconditionError("Table not initialized.")
        return super().find(keys, default)

    def _defaults(self, default: Array) -> Any:
        """As in TensorFlow, the first one stands for all."""
        return repeat(default.reshape(-1).tolist()[0]) if default.size else ()

    def initialize(self, keys: Array, values: Array) -> None:
        """Fill the table; if it has been, with as many entries, nothing is done.

        Raises:
            InvalidArgumentError: not a vector of keys with a value each, or there are none.
            FailedPreconditionError: it has been filled with others, or a key is given two values.
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
        """The same with Python values."""
        self.begin_with(len(keys), None if self.is_initialized else self.entries_of(keys, values))

    def begin_with(self, count: int, entries: dict[Hashable, Any] | None) -> None:
        """Fill the table with the entries of `count` keys; None if it has been filled already.

        Raises:
            FailedPreconditionError: it has been filled with others.
        """
        if not self.is_initialized:
            assert entries is not None, "a table that has been filled stays so"
            self._entries, self.is_initialized = entries, True
        elif count != self.size:
            raise FailedPreconditionError("Table was already initialized with different data.")

    def entries_of(self, keys: Sequence[Hashable], values: Sequence[Any]) -> dict[Hashable, Any]:
        """Keys with their values.

        Raises:
            FailedPreconditionError: a key is given two values.
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
    """Takes keys with scalars."""

    kind = "MutableHashTable"


class MutableHashTableOfTensors(LookupTable):
    """Takes keys with vectors."""

    kind = "MutableHashTableOfTensors"

    def __init__(
        self, name: str, key_dtype: DType, value_dtype: DType, value_dims: Dims = (), device: str = ""
    ) -> None:
        super().__init__(name, key_dtype, value_dtype, value_dims, device)
        if len(self.value_dims) != 1:
            raise InvalidArgumentError(f"Default value must be a vector, got shape {shown(self.value_dims)}")


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
