"""Datasets of the fields of CSV files."""

from __future__ import annotations

import csv
import glob
import gzip
import io
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.data.dataset import AUTOTUNE, Dataset
from aioexec.data.experimental.transformations import ignore_errors as without_errors, shuffled_epochs
from aioexec.data.interleaving import interleaved
from aioexec.data.readers import TextLineDataset, dataset_of_names
from aioexec.dtypes import DType
from aioexec.errors import GraphValueError
from aioexec.formats.sequential_files import read_whole
from aioexec.graph.convert import convert_to_tensor
from aioexec.ops.io.decoding import decode_csv

_DTYPES = (dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64)
"""Dtypes of a column, tried in this order; string if none fits."""


class CsvDataset(Dataset):
    """The records of CSV files as tuples of fields; a record is a line.

    Args:
        filenames: tensor or dataset of names.
        record_defaults: for each field its dtype, or a value for fields that are empty.
        compression_type: "", "ZLIB" or "GZIP".
        buffer_size: bytes to read at once.
        header: skip the first line of each file.
        field_delim: what separates fields.
        use_quote_delim: fields may stand in double quotes.
        na_value: a text that counts as empty.
        select_cols: the columns, in increasing order; by default all.
    """

    def __init__(
        self,
        filenames: Any,
        record_defaults: Sequence[Any],
        compression_type: Any = None,
        buffer_size: Any = None,
        header: bool = False,
        field_delim: str = ",",
        use_quote_delim: bool = True,
        na_value: str = "",
        select_cols: Sequence[int] | None = None,
    ) -> None:
        names = dataset_of_names(filenames)
        defaults = [_default(value) for value in record_defaults]

        def fields(line: Any) -> tuple[Any, ...]:
            found = decode_csv(
                line,
                defaults,
                field_delim,
                use_quote_delim,
                na_value=na_value,
                select_cols=None if select_cols is None else list(select_cols),
            )
            return tuple(found)

        lines = names.flat_map(
            lambda name: TextLineDataset(name, compression_type, buffer_size).skip(1 if header else 0)
        )
        found = lines.map(fields)
        super().__init__(found._variant_tensor, found.element_spec, [lines])


def _default(value: Any) -> Any:
    """Return the default of a field: an empty vector of its dtype if it must be there."""
    if isinstance(value, dtypes.DType | type):
        return convert_to_tensor([], dtypes.as_dtype(value))
    return [value] if not isinstance(value, list | tuple) and not hasattr(value, "shape") else value


def make_csv_dataset(
    file_pattern: Any,
    batch_size: Any,
    column_names: Sequence[str] | None = None,
    column_defaults: Sequence[Any] | None = None,
    label_name: str | None = None,
    select_columns: Sequence[Any] | None = None,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    header: bool = True,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: Any = 10000,
    shuffle_seed: Any = None,
    prefetch_buffer_size: Any = AUTOTUNE,
    num_parallel_reads: int = 1,
    sloppy: bool = False,
    num_rows_for_inference: int | None = 100,
    compression_type: str | None = None,
    ignore_errors: bool = False,
) -> Dataset:
    """Return batches of the columns of CSV files, as dicts, or as pairs with the column `label_name`.

    Names and dtypes that are not given are read from the files, by this call.

    Args:
        file_pattern: a pattern of names, or several.
        column_names: by default those in the first line.
        column_defaults: for each column its dtype, or a value for fields that are empty; by default inferred.
        select_columns: names or positions of the columns; by default all.
        num_epochs: repetitions; endless by default.
        num_parallel_reads: files read at once.
        num_rows_for_inference: rows that dtypes are inferred from; None for all.
        ignore_errors: leave rows out that cannot be parsed.

    Raises:
        GraphValueError: no file matches, names are missing, repeated or unknown, or the numbers of columns differ.
        OpError: a file cannot be read.
    """
    names = _matching(file_pattern)
    rows = _Rows(names, compression_type or "", field_delim, use_quote_delim)
    columns = rows.header(header) if column_names is None else list(column_names)
    if len(columns) != len(set(columns)):
        raise GraphValueError("Cannot have duplicate column names.")
    selected = None if select_columns is None else _positions(select_columns, columns)
    if column_defaults is None:
        defaults = rows.defaults(header, na_value, selected or range(len(columns)), num_rows_for_inference)
    else:
        defaults = list(column_defaults)
    if selected is not None:
        if len(defaults) != len(selected):
            raise GraphValueError("If specified, column_defaults and select_columns must have same length.")
        columns = [columns[place] for place in selected]
    if label_name is not None and label_name not in columns:
        raise GraphValueError("`label_name` provided must be one of the columns.")

    def records(name: Any) -> Dataset:
        found: Dataset = CsvDataset(
            name, defaults, compression_type, None, header, field_delim, use_quote_delim, na_value, selected
        )
        return found.apply(without_errors()) if ignore_errors else found

    def features(*fields: Any) -> Any:
        found = dict(zip(columns, fields, strict=True))
        return found if label_name is None else (found, found.pop(label_name))

    files = Dataset.from_tensor_slices(names)
    files = files.shuffle(len(names), shuffle_seed) if shuffle else files
    dataset = interleaved(files, records, num_parallel_reads, sloppy=sloppy)
    dataset = shuffled_epochs(dataset, num_epochs, shuffle_buffer_size if shuffle else None, shuffle_seed)
    batches = dataset.batch(batch_size, drop_remainder=num_epochs is None)
    return batches.map(features).prefetch(prefetch_buffer_size)


def _matching(file_pattern: Any) -> list[str]:
    patterns = file_pattern if isinstance(file_pattern, list | tuple) else [file_pattern]
    if not patterns:
        raise GraphValueError("File pattern is empty.")
    found = sorted(name for pattern in patterns for name in glob.glob(os.fsdecode(pattern)))
    if not found:
        raise GraphValueError(f"No files match {file_pattern}.")
    return found


def _positions(selected: Sequence[Any], columns: Sequence[str]) -> list[int]:
    """Return the positions of columns given by names or positions, in increasing order."""
    known: Mapping[str, int] = {name: place for place, name in enumerate(columns)}
    found = []
    for each in selected:
        place = known.get(each) if isinstance(each, str) else each
        if place is None or not 0 <= place < len(columns):
            raise GraphValueError(f"Value '{each}' is not present in `column_names`.")
        found.append(place)
    if len(set(found)) < len(found):
        raise GraphValueError("`select_cols` contains duplicate columns")
    return sorted(found)


class _Rows:
    """The rows of files, read while a graph is built."""

    def __init__(self, names: Sequence[str], compression: str, delimiter: str, quotes: bool) -> None:
        self._names = names
        self._compression = compression
        self._delimiter = delimiter
        self._quotes = quotes

    def _of(self, name: str) -> Iterator[list[str]]:
        content = read_whole(name)
        if self._compression:
            content = gzip.decompress(content) if self._compression == "GZIP" else zlib.decompress(content)
        text = io.StringIO(content.decode(errors="replace"), newline="")
        if self._quotes:
            yield from csv.reader(text, delimiter=self._delimiter)
        else:
            yield from csv.reader(text, delimiter=self._delimiter, quoting=csv.QUOTE_NONE)

    def header(self, is_there: bool) -> list[str]:
        """Return the names of columns in the first lines, which are alike."""
        if not is_there:
            raise GraphValueError("Cannot infer column names without a header line.")
        first, *others = (next(self._of(name), []) for name in self._names)
        if any(other != first for other in others):
            raise GraphValueError("Files have different column names in the header row.")
        return first

    def defaults(
        self, has_header: bool, na_value: str, selected: Sequence[int], count: int | None
    ) -> list[Any]:
        """Return a default for each selected column, by the values of the first `count` rows."""
        kinds: list[int] = [0] * len(selected)
        rows = (row for name in self._names for row in islice(self._of(name), 1 if has_header else 0, None))
        for row in islice(rows, count):
            for number, place in enumerate(selected):
                if place >= len(row):
                    raise GraphValueError(
                        "Problem inferring types: CSV row has different number of fields than expected."
                    )
                kinds[number] = _fitting(row[place], na_value, kinds[number])
        found = [(*_DTYPES, dtypes.string)[kind] for kind in kinds]
        return [convert_to_tensor([b"" if dtype == dtypes.string else 0], dtype) for dtype in found]


def _fitting(text: str, na_value: str, kind: int) -> int:
    """Return the first kind of column, from `kind` on, that has a value of this text."""
    if text in ("", na_value):
        return kind
    while kind < len(_DTYPES) and not _is_of(text, _DTYPES[kind]):
        kind += 1
    return kind


def _is_of(text: str, dtype: DType) -> bool:
    try:
        value = int(text) if dtype.is_integer else float(text)
    except ValueError:
        return False
    if dtype == dtypes.float64:
        return True
    information = np.iinfo(dtype.numpy) if dtype.is_integer else np.finfo(dtype.numpy)
    return bool(information.min <= value <= information.max)
