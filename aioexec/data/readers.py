"""Datasets of the records of files under the names of `tf.data`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aioexec import dtypes
from aioexec.data.dataset import Dataset
from aioexec.data.interleaving import interleaved
from aioexec.data.structure import Component
from aioexec.errors import GraphTypeError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.ops.array.arrays import reshape
from aioexec.shapes import TensorShape

_BUFFER_SIZE = 256 * 1024

_STRINGS = Component(dtypes.string, TensorShape([]))


class _FileDataset(Dataset):
    """The records of files: each name becomes a dataset `read(name)`, whose op has `_kind` and these arguments."""

    def __init__(
        self, filenames: Any, read: Callable[[Tensor], Tensor], num_parallel_reads: Any = None
    ) -> None:
        names = dataset_of_names(filenames)

        def read_one_file(name: Tensor) -> Dataset:
            return Dataset(read(convert_to_tensor(name, dtypes.string, name="filename")), _STRINGS)

        if num_parallel_reads is None:
            found = names.flat_map(read_one_file)
        else:
            found = interleaved(names, read_one_file, num_parallel_reads)
        super().__init__(found._variant_tensor, _STRINGS, found._inputs)


def dataset_of_names(filenames: Any) -> Dataset:
    """Return a dataset of names: of a tensor of them, or a dataset.

    Raises:
        GraphTypeError: it is a dataset of other elements.
    """
    if isinstance(filenames, Dataset):
        if not isinstance(filenames.element_spec, Component) or filenames.element_spec.dtype != dtypes.string:
            raise GraphTypeError(
                "`filenames` must be a `tf.data.Dataset` of scalar `tf.string` elements, got "
                f"{filenames.element_spec!r}"
            )
        return filenames
    names = convert_to_tensor(filenames, dtypes.string)
    if names.dtype != dtypes.string:
        raise GraphTypeError("`filenames` must be a `tf.Tensor` of `tf.string` or a `tf.data.Dataset`")
    return Dataset.from_tensor_slices(reshape(names, [-1], name="flat_filenames"))


def _option(value: Any, default: Any, dtype: Any, name: str) -> Tensor:
    """Return an optional argument as a tensor."""
    if value is None:
        return constant(default, dtype, name=name)
    return convert_to_tensor(value, dtype, name=name)


def _compression(value: Any) -> Tensor:
    return _option(value, "", dtypes.string, "compression_type")


def _buffer_size(value: Any) -> Tensor:
    return _option(value, _BUFFER_SIZE, dtypes.int64, "buffer_size")


class TextLineDataset(_FileDataset):
    """The lines of text files, without their ends.

    Args:
        filenames: tensor or dataset of names.
        compression_type: "", "ZLIB" or "GZIP".
        buffer_size: bytes to read at once.

    Raises:
        GraphTypeError: the names are no strings.
    """

    def __init__(self, filenames: Any, compression_type: Any = None, buffer_size: Any = None) -> None:
        super().__init__(
            filenames,
            lambda name: apply_op(
                "TextLineDataset", name, _compression(compression_type), _buffer_size(buffer_size)
            ),
        )


class TFRecordDataset(_FileDataset):
    """The records of TFRecord files.

    Args:
        filenames: tensor or dataset of names.
        compression_type: "", "ZLIB" or "GZIP".
        buffer_size: bytes to read at once.
        num_parallel_reads: files read at once, whose records are taken in turn.

    Raises:
        GraphTypeError: the names are no strings.
    """

    def __init__(
        self,
        filenames: Any,
        compression_type: Any = None,
        buffer_size: Any = None,
        num_parallel_reads: Any = None,
    ) -> None:
        super().__init__(
            filenames,
            lambda name: apply_op(
                "TFRecordDataset", name, _compression(compression_type), _buffer_size(buffer_size)
            ),
            num_parallel_reads,
        )


class FixedLengthRecordDataset(_FileDataset):
    """The records of files with records of equal length.

    Args:
        filenames: tensor or dataset of names.
        record_bytes: length of a record.
        header_bytes, footer_bytes: bytes before and after all records; by default 0.
        buffer_size: bytes to read at once.
        compression_type: "", "ZLIB" or "GZIP".

    Raises:
        GraphTypeError: the names are no strings.
    """

    def __init__(
        self,
        filenames: Any,
        record_bytes: Any,
        header_bytes: Any = None,
        footer_bytes: Any = None,
        buffer_size: Any = None,
        compression_type: Any = None,
    ) -> None:
        def read(name: Tensor) -> Tensor:
            return apply_op(
                "FixedLengthRecordDatasetV2",
                name,
                _option(header_bytes, 0, dtypes.int64, "header_bytes"),
                convert_to_tensor(record_bytes, dtypes.int64, name="record_bytes"),
                _option(footer_bytes, 0, dtypes.int64, "footer_bytes"),
                _buffer_size(buffer_size),
                _compression(compression_type),
            )

        super().__init__(filenames, read)
