"""Ops of datasets that read files: lines, TFRecords, records of equal length."""

from __future__ import annotations

from aioexec.graph.kernels.kernel import plain
from aioexec.ops.common.elementwise import Array
from aioexec.ops.datasets.pieces import Lengths, fixed_length_records, lines, place_of, records
from aioexec.ops.datasets.variants import METADATA, register_dataset, scalar_in
from aioexec.ops.strings.elements import scalar_bytes
from aioexec.resources.datasets.files import Open, RecordsDataset
from aioexec.resources.tensor_list import boxed


def _dataset(names: Array, open_file: Open) -> Array:
    return boxed(RecordsDataset(tuple(bytes(name) for name in names.ravel()), open_file))


def _compression(value: Array) -> str:
    compression = scalar_bytes(value, "compression_type").decode(errors="replace")
    place_of(b"", compression, 0)
    return compression


def _text_lines(names: Array, compression: Array, size: Array) -> Array:
    return _dataset(names, lines(_compression(compression), scalar_in(size, "buffer_size")))


def _tf_records(names: Array, compression: Array, size: Array, *offsets: Array) -> Array:
    return _dataset(names, records(_compression(compression), scalar_in(size, "buffer_size")))


def _fixed_length(
    names: Array, header: Array, record: Array, footer: Array, size: Array, *compression: Array
) -> Array:
    lengths = Lengths(
        scalar_in(header, "header_bytes"),
        scalar_in(record, "record_bytes"),
        scalar_in(footer, "footer_bytes"),
    )
    lengths.check()
    kind = _compression(*compression) if compression else ""
    return _dataset(names, fixed_length_records(lengths, kind, scalar_in(size, "buffer_size")))


_FILES = "filenames:string, compression_type:string, buffer_size:int64"
for _name, _kernel in (("TextLineDataset", _text_lines), ("TFRecordDataset", _tf_records)):
    register_dataset(_name, _FILES, METADATA, plain(_kernel), None, 0, 0, is_stateful=True)
_FIXED = "filenames:string, header_bytes:int64, record_bytes:int64, footer_bytes:int64, buffer_size:int64"
register_dataset(
    "FixedLengthRecordDataset", _FIXED, METADATA, plain(_fixed_length), None, 0, 0, 0, 0, is_stateful=True
)
register_dataset(
    "FixedLengthRecordDatasetV2",
    f"{_FIXED}, compression_type:string",
    METADATA,
    plain(_fixed_length),
    None,
    0,
    0,
    0,
    0,
    0,
    is_stateful=True,
)
