"""Vocabularies: tables between strings (or integers) and ids, with optional hash buckets for out-of-vocabulary keys."""

from __future__ import annotations

from typing import Any, NamedTuple

from aioexec import dtypes as dt
from aioexec.dtypes import DType
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Operation, Tensor
from aioexec.ops.array.filling import range_
from aioexec.ops.control_flow.dependencies import no_op
from aioexec.ops.lookup.lookup_tables import (
    HashTable,
    InitializableLookupTableBase,
    LookupInterface,
    StaticHashTable,
    as_keys,
)
from aioexec.ops.lookup.table_initializers import (
    KeyValueTensorInitializer,
    TableInitializerBase,
    TextFileIdTableInitializer,
    TextFileIndex,
    TextFileStringTableInitializer,
)
from aioexec.ops.math.cast import cast


class HasherSpec(NamedTuple):
    """The hash function for out-of-vocabulary keys: "fasthash", or "stronghash" with a key of two integers."""

    hasher: str
    key: Any


FastHashSpec = HasherSpec("fasthash", None)


class StrongHashSpec(HasherSpec):
    """A keyed hash (SipHash): colliding inputs cannot be found without the key, two integers.

    Raises:
        GraphValueError, GraphTypeError: the key is not two unsigned integers.
    """

    __slots__ = ()

    def __new__(cls, key: Any) -> StrongHashSpec:
        if len(key) != 2:
            raise GraphValueError(f"key must have size 2, got {len(key)}.")
        if not isinstance(key[0], int) or not isinstance(key[1], int):
            raise GraphTypeError("Invalid key. Must be unsigned integer values.")
        return super().__new__(cls, "stronghash", key)


class _OutOfVocabulary(LookupInterface):
    """A table that maps missing keys to one of `num_oov_buckets` additional ids, by their hash.

    Args:
        table: the table; None to hash all keys.
        looked_up: dtype of the keys in lookups.
    """

    def __init__(
        self,
        table: InitializableLookupTableBase | None,
        num_oov_buckets: int,
        hasher_spec: Any,
        looked_up: DType,
        name: str,
    ) -> None:
        super().__init__(looked_up, dt.int64)
        if not isinstance(hasher_spec, HasherSpec):
            raise GraphTypeError(f"`hasher_spec` must be of type HasherSpec, got {type(hasher_spec)}.")
        self._table = table
        self._num_oov_buckets = num_oov_buckets
        self._hasher = hasher_spec
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    @property
    def initializer(self) -> Operation:
        """The operation that initialises the table."""
        return no_op() if self._table is None else self._table.initializer

    @property
    def init(self) -> Operation:
        """The old name of `initializer`."""
        return self.initializer

    @property
    def resource_handle(self) -> Tensor | None:
        """The handle of the table; None without one."""
        return None if self._table is None else self._table.resource_handle

    def size(self, name: str | None = None) -> Tensor:
        with get_default_graph().name_scope(name or f"{self._name}_Size"):
            spare = convert_to_tensor(self._num_oov_buckets, dt.int64)
            total: Tensor = spare if self._table is None else self._table.size() + spare
        return total

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        tensor, result_of = as_keys(keys, self.key_dtype)
        self._check_keys(tensor)
        with get_default_graph().name_scope(name or f"{self._name}_Lookup"):
            return result_of(self._ids(tensor))

    def _ids(self, keys: Tensor) -> Tensor:
        if self._table is None:
            return self._hashed(keys)
        given = cast(keys, dt.int64) if self._table.key_dtype == dt.int64 else keys
        ids: Tensor = self._table.lookup(given)
        if self._num_oov_buckets == 0:
            return ids
        spare = self._hashed(given) + self._table.size()
        is_there = apply_op("NotEqual", ids, self._table.default_value)
        return apply_op("SelectV2", is_there, ids, spare)

    def _hashed(self, keys: Tensor) -> Tensor:
        text = keys if keys.dtype == dt.string else apply_op("AsString", keys)
        buckets: Tensor
        if self._hasher.hasher == "fasthash":
            buckets = apply_op(
                "StringToHashBucketFast", text, name="hash_bucket", num_buckets=self._num_oov_buckets
            )
        elif self._hasher.hasher == "stronghash":
            buckets = apply_op(
                "StringToHashBucketStrong",
                text,
                name="hash_bucket",
                num_buckets=self._num_oov_buckets,
                key=list(self._hasher.key),
            )
        else:
            raise GraphValueError(f"Found unknown hasher {self._hasher.hasher} in `hasher_spec`")
        return buckets


class IdTableWithHashBuckets(_OutOfVocabulary):
    """Maps strings to ids, with hash buckets for out-of-vocabulary keys.

    Args:
        table: a table from keys to ids; None to hash all keys.
        num_oov_buckets: number of hash buckets.
        key_dtype: dtype of the keys in lookups; the table's by default.

    Raises:
        GraphValueError: there is neither a table nor a bucket.
        GraphTypeError: keys are neither strings nor integers.
    """

    def __init__(
        self,
        table: InitializableLookupTableBase | None,
        num_oov_buckets: int,
        hasher_spec: Any = FastHashSpec,
        name: str | None = None,
        key_dtype: Any = None,
    ) -> None:
        own = dt.string if table is None else table.key_dtype
        asked = own if key_dtype is None else dt.as_dtype(key_dtype)
        if asked != dt.string and not asked.is_integer:
            raise GraphTypeError(f"Invalid `key_dtype`, expected string or integer, got {asked}.")
        if table is None and num_oov_buckets <= 0:
            raise GraphValueError("`oov_buckets` must be > 0 if no `table` is supplied.")
        if table is not None and asked.is_integer != own.is_integer:
            raise GraphTypeError(f"Invalid `key dtype`, expected {own} but got {asked}.")
        label = name or (f"{table.name}_id_table" if table is not None else "hash_bucket")
        super().__init__(table, num_oov_buckets, hasher_spec, asked, label)


class StaticVocabularyTable(_OutOfVocabulary):
    """Maps strings to ids; initialised once, with hash buckets for out-of-vocabulary keys.

    Args:
        initializer: an initialiser from keys to ids; None to hash all keys.
        num_oov_buckets: number of hash buckets.
        lookup_key_dtype: dtype of the keys in lookups; the initialiser's by default.

    Raises:
        GraphValueError: there is no bucket.
        GraphTypeError: keys are neither strings nor int64, or values are not int64.
    """

    def __init__(
        self,
        initializer: TableInitializerBase | None,
        num_oov_buckets: int,
        lookup_key_dtype: Any = None,
        name: str | None = None,
        experimental_is_anonymous: bool = False,
    ) -> None:
        if num_oov_buckets <= 0:
            raise GraphValueError("`num_oov_buckets` must be > 0; use StaticHashTable.")
        table = None
        if initializer is not None:
            self._check(initializer)
            table = StaticHashTable(initializer, -1, experimental_is_anonymous=experimental_is_anonymous)
        own = dt.string if initializer is None else initializer.key_dtype
        asked = own if lookup_key_dtype is None else dt.as_dtype(lookup_key_dtype)
        if asked != dt.string and not asked.is_integer:
            raise GraphTypeError(f"Invalid `lookup_key_dtype`, expected integer or string, got {asked}.")
        if own.is_integer != asked.is_integer:
            raise GraphTypeError(f"Invalid `key_dtype`, expected {own} but got {asked}.")
        label = name or ("hash_bucket" if table is None else table.name)
        super().__init__(table, num_oov_buckets, FastHashSpec, asked, label)

    @staticmethod
    def _check(initializer: TableInitializerBase) -> None:
        if initializer.key_dtype not in (dt.string, dt.int64):
            raise GraphTypeError(
                f"Invalid `key_dtype`, expected {dt.string} or {dt.int64}, got {initializer.key_dtype}."
            )
        if initializer.value_dtype != dt.int64:
            raise GraphTypeError(
                f"Invalid `value_dtype`, expected {dt.int64} but got {initializer.value_dtype}."
            )


# Functions


def _table_of_ids(
    table: HashTable, num_oov_buckets: int, hasher_spec: Any, dtype: DType, scope: str
) -> HashTable | IdTableWithHashBuckets:
    if num_oov_buckets == 0 and dtype in (dt.string, dt.int64):
        return table
    return IdTableWithHashBuckets(table, num_oov_buckets, hasher_spec, scope.rstrip("/"), dtype)


def _check_spare(num_oov_buckets: int) -> None:
    if num_oov_buckets < 0:
        raise GraphValueError(f"num_oov_buckets must be greater or equal than 0, got {num_oov_buckets}.")


def _check_file(vocabulary_file: Any, vocab_size: int | None) -> None:
    if vocabulary_file is None or (isinstance(vocabulary_file, str | bytes) and not vocabulary_file):
        raise GraphValueError("`vocabulary_file` must be specified and must not be empty.")
    if vocab_size is not None and vocab_size < 1:
        raise GraphValueError(f"`vocab_size` must be greater than 0, got {vocab_size}.")


def index_table_from_file(
    vocabulary_file: Any = None,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    hasher_spec: Any = FastHashSpec,
    key_dtype: Any = dt.string,
    name: str | None = None,
    key_column_index: int = TextFileIndex.WHOLE_LINE,
    value_column_index: int = TextFileIndex.LINE_NUMBER,
    delimiter: str = "\t",
) -> HashTable | IdTableWithHashBuckets:
    """Return a table from the lines (or a column) of a file to ids: their line numbers, or another column.

    Args:
        num_oov_buckets: number of hash buckets for missing keys, instead of `default_value`.

    Raises:
        GraphValueError, GraphTypeError: an argument is invalid.
    """
    _check_file(vocabulary_file, vocab_size)
    _check_spare(num_oov_buckets)
    dtype = dt.as_dtype(key_dtype)
    if dtype != dt.string and not dtype.is_integer:
        raise GraphTypeError("Only integer and string keys are supported.")
    with get_default_graph().name_scope(name or "string_to_index") as scope:
        with get_default_graph().name_scope("hash_table"):
            initializer = TextFileIdTableInitializer(
                vocabulary_file,
                key_column_index,
                value_column_index,
                vocab_size,
                delimiter,
                "table_init",
                dt.int64 if dtype.is_integer else dt.string,
            )
            table = HashTable(initializer, default_value)
        return _table_of_ids(table, num_oov_buckets, hasher_spec, dtype, scope)


def index_table_from_tensor(
    vocabulary_list: Any,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: Any = FastHashSpec,
    dtype: Any = dt.string,
    name: str | None = None,
) -> HashTable | IdTableWithHashBuckets:
    """Return a table from the elements of a vector to their positions.

    Raises:
        GraphValueError, GraphTypeError: an argument is invalid.
    """
    if vocabulary_list is None:
        raise GraphValueError("`vocabulary_list` must be specified.")
    _check_spare(num_oov_buckets)
    wanted = dt.as_dtype(dtype)
    if wanted != dt.string and not wanted.is_integer:
        raise GraphTypeError("Only integer and string keys are supported.")
    with get_default_graph().name_scope(name or "string_to_index") as scope:
        keys = convert_to_tensor(vocabulary_list)
        if keys.dtype.is_integer != wanted.is_integer or (not wanted.is_integer and keys.dtype != wanted):
            raise GraphValueError(f"Invalid `dtype`: Expected {wanted}, got {keys.dtype}.")
        with get_default_graph().name_scope("hash_table"):
            table_keys = cast(keys, dt.int64) if keys.dtype.is_integer else keys
            initializer = KeyValueTensorInitializer(table_keys, _positions(keys), name="table_init")
            table = HashTable(initializer, default_value)
        return _table_of_ids(table, num_oov_buckets, hasher_spec, wanted, scope)


def _positions(keys: Tensor) -> Tensor:
    positions: Tensor = cast(range_(apply_op("Size", keys)), dt.int64)
    return positions


def index_to_string_table_from_file(
    vocabulary_file: Any,
    vocab_size: int | None = None,
    default_value: str = "UNK",
    name: str | None = None,
    key_column_index: int = TextFileIndex.LINE_NUMBER,
    value_column_index: int = TextFileIndex.WHOLE_LINE,
    delimiter: str = "\t",
) -> HashTable:
    """Return a table from the line numbers of a file to its lines.

    Raises:
        GraphValueError: an argument is invalid.
    """
    _check_file(vocabulary_file, vocab_size)
    with get_default_graph().name_scope(name or "index_to_string"):
        initializer = TextFileStringTableInitializer(
            vocabulary_file, key_column_index, value_column_index, vocab_size, delimiter
        )
        return HashTable(initializer, default_value)


def index_to_string_table_from_tensor(
    vocabulary_list: Any, default_value: str = "UNK", name: str | None = None
) -> HashTable:
    """Return a table from positions in a vector to its elements.

    Raises:
        GraphValueError: `vocabulary_list` is None.
    """
    if vocabulary_list is None:
        raise GraphValueError("`vocabulary_list` must be specified.")
    with get_default_graph().name_scope(name or "index_to_string"):
        strings = convert_to_tensor(vocabulary_list, dt.string)
        initializer = KeyValueTensorInitializer(_positions(strings), strings, name="table_init")
        return HashTable(initializer, default_value)
