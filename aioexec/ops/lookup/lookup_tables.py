"""The table classes that users create: initialised once (`HashTable`, `StaticHashTable`), or mutable."""

from __future__ import annotations

from typing import Any

from aioexec import dtypes as dt
from aioexec.dtypes import DType
from aioexec.errors import GraphTypeError
from aioexec.graph.apply import apply_no_output_op, apply_op, apply_tuple_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.sparse_tensor import SparseTensor, is_sparse
from aioexec.ops.control_flow.dependencies import group
from aioexec.ops.lookup import tables  # noqa: F401  (registers ops)
from aioexec.ops.lookup.table_initializers import KeysAndValues, TableInitializerBase


class LookupInterface(KeysAndValues):
    """The interface of tables, which map keys of one dtype to values of another."""

    @property
    def name(self) -> str:
        raise NotImplementedError

    @property
    def resource_handle(self) -> Any:
        """The handle of the table."""
        raise NotImplementedError

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of keys."""
        raise NotImplementedError

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """Return the values of keys; for a SparseTensor of keys, a SparseTensor."""
        raise NotImplementedError

    def __getitem__(self, keys: Any) -> Any:
        return self.lookup(keys)

    def _check_keys(self, keys: Any) -> None:
        if keys.dtype.base_dtype != self._key_dtype:
            raise GraphTypeError(
                f"Dtype of argument `keys` must be {self._key_dtype}, received: {keys.dtype}"
            )


def as_keys(keys: Any, dtype: DType) -> tuple[Tensor, Any]:
    """Return the tensor of keys, and a function that converts their values: to a SparseTensor if one was given."""
    if not is_sparse(keys):
        return convert_to_tensor(keys, dtype, name="keys"), lambda values: values
    sparse = SparseTensor.from_value(keys)
    return sparse.values, lambda values: SparseTensor(sparse.indices, values, sparse.dense_shape)


class _Table(LookupInterface):
    """A table with a handle and a default value for missing keys."""

    def __init__(
        self,
        op_type: str,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        name: str,
        *inputs: Any,
        **attrs: Any,
    ) -> None:
        super().__init__(key_dtype, value_dtype)
        self._default_value = convert_to_tensor(default_value, self._value_dtype)
        attrs.setdefault("container", get_default_graph().default_container)
        self._resource_handle = apply_op(
            op_type, *inputs, name=name, key_dtype=self._key_dtype, value_dtype=self._value_dtype, **attrs
        )
        self._name: str = self._resource_handle.op.name.split("/")[-1]

    @property
    def resource_handle(self) -> Tensor:
        """The handle of the table."""
        return self._resource_handle

    @property
    def default_value(self) -> Tensor:
        """The value of missing keys."""
        return self._default_value

    @property
    def name(self) -> str:
        return self._name

    def size(self, name: str | None = None) -> Tensor:
        return apply_op("LookupTableSizeV2", self._resource_handle, name=name or f"{self._name}_Size")

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        return self._found(keys, self._default_value, name)

    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """Return all keys and their values, in unspecified order."""
        graph, handle = get_default_graph(), self._resource_handle
        with (
            graph.name_scope(name or f"{self._name}_lookup_table_export_values"),
            graph.colocate_with(handle.op),
        ):
            keys, values = apply_tuple_op(
                "LookupTableExportV2", handle, Tkeys=self._key_dtype, Tvalues=self._value_dtype
            )
        keys.set_shape((None, *([None] * self._key_rank)))
        if self._default_value.dims is not None:
            values.set_shape((None, *(self._default_value.dims or (1,) * self._key_rank)))
        return keys, values

    _key_rank = 0
    """The rank of a key in exports; scalar keys of a dense table are exported as vectors of one element."""

    def _found(self, keys: Any, default: Any, name: str | None) -> Any:
        tensor, result_of = as_keys(keys, self._key_dtype)
        self._check_keys(tensor)
        values = apply_op(
            "LookupTableFindV2", self._resource_handle, tensor, default, name=name or f"{self._name}_Lookup"
        )
        if self._default_value.dims is not None and tensor.dims is not None and not self._key_rank:
            values.set_shape((*tensor.dims, *self._default_value.dims))
        return result_of(values)


class InitializableLookupTableBase(_Table):
    """A table that `initializer` fills once."""

    def __init__(
        self, default_value: Any, initializer: TableInitializerBase, shared_name: str | None, name: str
    ) -> None:
        super().__init__(
            "HashTableV2",
            initializer.key_dtype,
            initializer.value_dtype,
            default_value,
            name,
            shared_name=initializer.shared_name if shared_name is None else shared_name,
        )
        self._default_value.shape.assert_has_rank(0)
        self._initializer = initializer.initialize(self)

    @property
    def initializer(self) -> Operation:
        """The operation that initialises the table."""
        return self._initializer

    @property
    def init(self) -> Operation:
        """The old name of `initializer`."""
        return self._initializer


class StaticHashTable(InitializableLookupTableBase):
    """A table that is initialised once; `tables_initializer` initialises all tables of a graph.

    Args:
        initializer: a TableInitializerBase: the source of the entries.
        default_value: value of missing keys.
    """

    def __init__(
        self,
        initializer: TableInitializerBase,
        default_value: Any,
        name: str | None = None,
        experimental_is_anonymous: bool = False,
    ) -> None:
        shared_name = "" if experimental_is_anonymous else None
        super().__init__(default_value, initializer, shared_name, name or "hash_table")


class HashTable(InitializableLookupTableBase):
    """`StaticHashTable` under its name in TensorFlow 1.x.

    Args:
        shared_name: tables of one name are shared by the sessions of a container.
    """

    def __init__(
        self,
        initializer: TableInitializerBase,
        default_value: Any,
        shared_name: str | None = None,
        name: str = "hash_table",
    ) -> None:
        super().__init__(default_value, initializer, shared_name, name)


class _Mutable(_Table):
    """A table that steps can change."""

    def insert(self, keys: Any, values: Any, name: str | None = None) -> Operation:
        """Return an operation that sets the values of keys."""
        tensor = convert_to_tensor(keys, self._key_dtype, name="keys")
        return apply_no_output_op(
            "LookupTableInsertV2",
            self._resource_handle,
            tensor,
            convert_to_tensor(values, self._value_dtype, name="values"),
            name=name or f"{self._name}_lookup_table_insert",
        )

    def remove(self, keys: Any, name: str | None = None) -> Operation:
        """Return an operation that removes keys."""
        tensor = convert_to_tensor(keys, self._key_dtype, name="keys")
        return apply_no_output_op(
            "LookupTableRemoveV2",
            self._resource_handle,
            tensor,
            name=name or f"{self._name}_lookup_table_remove",
        )


class MutableHashTable(_Mutable):
    """A hash table that steps can change; values are scalars or vectors.

    Args:
        default_value: value of missing keys; it has the shape of a value.
        checkpoint: whether to add it to the collection SAVEABLE_OBJECTS, for savers.
        shared_name: tables of one name are shared by the sessions of a container.
    """

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        name: str = "MutableHashTable",
        checkpoint: bool = True,
        shared_name: str | None = None,
    ) -> None:
        default = convert_to_tensor(default_value, dt.as_dtype(value_dtype))
        vectors: dict[str, Any] = {"value_shape": default.dims} if default.dims != () else {}
        super().__init__(
            "MutableHashTableOfTensorsV2" if vectors else "MutableHashTableV2",
            key_dtype,
            value_dtype,
            default,
            name,
            shared_name=shared_name or "",
            **vectors,
        )
        if checkpoint:
            get_default_graph().add_to_collection(GraphKeys.SAVEABLE_OBJECTS, self)

    def lookup(  # type: ignore[override]  # the arguments of TensorFlow's
        self, keys: Any, dynamic_default_values: Any = None, name: str | None = None
    ) -> Any:
        """Return the values of keys.

        Args:
            dynamic_default_values: default values per key, instead of the table's default.
        """
        default = self._default_value if dynamic_default_values is None else dynamic_default_values
        return self._found(keys, default, name)


class DenseHashTable(_Mutable):
    """A mutable table in TensorFlow's dense layout (open addressing); two reserved keys cannot be used.

    Args:
        default_value: value of missing keys; it has the shape of a value.
        empty_key, deleted_key: reserved keys that mark buckets in `export` as empty or deleted; they have the shape of a key.
        initial_num_buckets: a power of 2.
        checkpoint, shared_name: as of `MutableHashTable`.
    """

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        empty_key: Any,
        deleted_key: Any,
        initial_num_buckets: int | None = None,
        name: str = "MutableDenseHashTable",
        checkpoint: bool = True,
        shared_name: str | None = None,
    ) -> None:
        default = convert_to_tensor(default_value, dt.as_dtype(value_dtype))
        empty = convert_to_tensor(empty_key, dt.as_dtype(key_dtype), name="empty_key")
        super().__init__(
            "MutableDenseHashTableV2",
            key_dtype,
            value_dtype,
            default,
            name,
            empty,
            convert_to_tensor(deleted_key, dt.as_dtype(key_dtype), name="deleted_key"),
            shared_name=shared_name or "",
            value_shape=default.dims,
            initial_num_buckets=initial_num_buckets,
        )
        self._key_rank = 1 if empty.dims is None else max(len(empty.dims), 1)
        if checkpoint:
            get_default_graph().add_to_collection(GraphKeys.SAVEABLE_OBJECTS, self)

    insert_or_assign = _Mutable.insert
    erase = _Mutable.remove


def tables_initializer(name: str = "init_all_tables") -> Operation:
    """Return an operation that initialises all tables of the graph."""
    return group(*get_default_graph().get_collection(GraphKeys.TABLE_INITIALIZERS), name=name)


def initialize_all_tables(name: str = "init_all_tables") -> Operation:
    """The old name of `tables_initializer`."""
    return tables_initializer(name)
