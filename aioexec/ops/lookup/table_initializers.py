"""Sources of tables that are initialised once: tensors, or lines of a text file."""

from __future__ import annotations

from typing import Any, Final

from aioexec import dtypes as dt
from aioexec.dtypes import DType
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.formats import vocabulary_file
from aioexec.graph.apply import apply_no_output_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Operation


class TextFileIndex:
    """Column numbers with a special meaning: the whole line, or its number."""

    WHOLE_LINE: Final = vocabulary_file.WHOLE_LINE
    LINE_NUMBER: Final = vocabulary_file.LINE_NUMBER


class KeysAndValues:
    """The base of classes that map keys of one dtype to values of another."""

    def __init__(self, key_dtype: Any, value_dtype: Any) -> None:
        self._key_dtype = dt.as_dtype(key_dtype)
        self._value_dtype = dt.as_dtype(value_dtype)

    @property
    def key_dtype(self) -> DType:
        return self._key_dtype

    @property
    def value_dtype(self) -> DType:
        return self._value_dtype


class TableInitializerBase(KeysAndValues):
    """The base of initialisers: the source of a table of these dtypes."""

    @property
    def shared_name(self) -> str:
        """The shared name of tables with the same source; "" if undefined."""
        return ""

    def initialize(self, table: Any) -> Operation:
        """Return an operation that fills a table.

        Raises:
            GraphTypeError: the dtypes of the table differ.
        """
        raise NotImplementedError

    def _check(self, table: Any) -> None:
        for what in ("key", "value"):
            wanted, has = getattr(self, f"{what}_dtype"), getattr(table, f"{what}_dtype")
            if wanted != has:
                raise GraphTypeError(
                    f"Invalid {what} dtype for table, expected {has.name} but got {wanted.name}."
                )

    def _listed(self, op: Operation) -> Operation:
        get_default_graph().add_to_collection(GraphKeys.TABLE_INITIALIZERS, op)
        return op


class KeyValueTensorInitializer(TableInitializerBase):
    """Keys and values from two tensors.

    Args:
        keys, values: vectors of equal length.
        key_dtype, value_dtype: the dtypes to convert them to.
    """

    def __init__(
        self, keys: Any, values: Any, key_dtype: Any = None, value_dtype: Any = None, name: str | None = None
    ) -> None:
        self._name = name or "key_value_init"
        with get_default_graph().name_scope(self._name):
            self._keys = convert_to_tensor(keys, key_dtype, name="keys")
            self._values = convert_to_tensor(values, value_dtype, name="values")
        super().__init__(self._keys.dtype, self._values.dtype)

    def initialize(self, table: Any) -> Operation:
        self._check(table)
        with get_default_graph().name_scope(self._name):
            return self._listed(
                apply_no_output_op("InitializeTableV2", table.resource_handle, self._keys, self._values)
            )


class TextFileInitializer(TableInitializerBase):
    """Entries from the lines of a text file.

    Args:
        filename: name of a text file; a string or a string tensor.
        key_index, value_index: column number, or `TextFileIndex.WHOLE_LINE` or `LINE_NUMBER`.
        vocab_size: number of lines to read; by default all.
        delimiter: the character between columns.
        value_index_offset: added to line numbers.

    Raises:
        GraphValueError: the file name is empty, a column is out of range, or the dtype of a column is not supported.
    """

    def __init__(
        self,
        filename: Any,
        key_dtype: Any,
        key_index: int,
        value_dtype: Any,
        value_index: int,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str | None = None,
        value_index_offset: int = 0,
    ) -> None:
        super().__init__(key_dtype, value_dtype)
        if not isinstance(filename, str | bytes) and not hasattr(filename, "graph"):
            raise GraphValueError(f"filename must be a string or a tensor, got {filename!r}")
        if filename in ("", b""):
            raise GraphValueError("Filename required")
        self._check_column("key", key_index, self.key_dtype)
        self._check_column("value", value_index, self.value_dtype)
        if vocab_size is not None and vocab_size <= 0:
            raise GraphValueError(f"`vocab_size` should be > 0, got {vocab_size}")
        self._filename = filename
        self._indices = key_index, value_index
        self._vocab_size = -1 if vocab_size is None else vocab_size
        self._delimiter = delimiter
        self._offset = value_index_offset
        self._name = name or "text_file_init"

    @staticmethod
    def _check_column(what: str, index: int, dtype: DType) -> None:
        if index < TextFileIndex.WHOLE_LINE:
            raise GraphValueError(f"Invalid {what} index {index}.")
        if index == TextFileIndex.LINE_NUMBER and dtype != dt.int64:
            raise GraphValueError(
                f"Signature mismatch. {what.capitalize()}s must be dtype {dt.int64.name}, got {dtype.name}."
            )
        if index == TextFileIndex.WHOLE_LINE and dtype != dt.string and not dtype.is_integer:
            raise GraphValueError(
                f"Signature mismatch. {what.capitalize()}s must be integer or string, got {dtype.name}."
            )

    @property
    def shared_name(self) -> str:
        if not isinstance(self._filename, str):
            return ""
        parts = ["hash_table", self._filename]
        if self._vocab_size != -1:
            parts.append(str(self._vocab_size))
        key, value = self._indices
        return "_".join([*parts, str(key), str(value), *([str(self._offset)] if self._offset else [])])

    def initialize(self, table: Any) -> Operation:
        self._check(table)
        graph = get_default_graph()
        with graph.name_scope(self._name):
            filename = convert_to_tensor(self._filename, dt.string, name="asset_filepath")
            graph.add_to_collection(GraphKeys.ASSET_FILEPATHS, filename)
            op = apply_no_output_op(
                "InitializeTableFromTextFileV2",
                table.resource_handle,
                filename,
                key_index=self._indices[0],
                value_index=self._indices[1],
                vocab_size=self._vocab_size,
                delimiter=self._delimiter,
                offset=self._offset,
            )
            return self._listed(op)


class TextFileStringTableInitializer(TextFileInitializer):
    """From line numbers to strings."""

    def __init__(
        self,
        filename: Any,
        key_column_index: int = TextFileIndex.LINE_NUMBER,
        value_column_index: int = TextFileIndex.WHOLE_LINE,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str = "text_file_string_table_init",
    ) -> None:
        super().__init__(
            filename, dt.int64, key_column_index, dt.string, value_column_index, vocab_size, delimiter, name
        )


class TextFileIdTableInitializer(TextFileInitializer):
    """From strings, or integers, to line numbers."""

    def __init__(
        self,
        filename: Any,
        key_column_index: int = TextFileIndex.WHOLE_LINE,
        value_column_index: int = TextFileIndex.LINE_NUMBER,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str = "text_file_id_table_init",
        key_dtype: Any = dt.string,
    ) -> None:
        super().__init__(
            filename, key_dtype, key_column_index, dt.int64, value_column_index, vocab_size, delimiter, name
        )
