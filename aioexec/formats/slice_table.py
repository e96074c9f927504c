"""TensorFlow's checkpoint format V1: sorted tables of tensor slices, one file per shard.

The empty key of a table holds a SavedTensorSliceMeta that lists its tensors and their slices; the key of a slice
(`TensorSlice.key`) holds its elements in the field of their dtype. A tensor saved at once is one slice.
"""

from __future__ import annotations

import glob
import math
import os
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, Self

import numpy as np

from aioexec import dtypes as dt
from aioexec.dtypes import DType, as_dtype
from aioexec.errors import (
    DataLossError,
    GraphTypeError,
    InvalidArgumentError,
    NotFoundError,
    UnimplementedError,
)
from aioexec.formats.bundle_entries import Array, Proceed, go_on
from aioexec.formats.bundle_reader import listed, parsed, type_name
from aioexec.formats.checkpoint_files import InputFile, OutputFile, sync_folder
from aioexec.formats.paths import local_path
from aioexec.formats.protos import SavedSliceMeta, SavedTensorSlices, TensorProto
from aioexec.formats.sorted_table import SortedTable, TableWriter
from aioexec.formats.tensor_codec import count_listed, decode_tensor, list_elements
from aioexec.formats.tensor_slice import (
    ShapeAndSlice,
    TensorSlice,
    covers,
    index,
    intersection,
    sizes_of,
    within,
)

_META_KEY: Final = b""
_VERSION: Final = 1
_MAX_MESSAGE: Final = (1 << 31) - 1
_BYTES_OF_ELEMENT: Final = 10  # upper bound of the encoded size of an integer
_MAX_RANK: Final = 64
_STORABLE: Final = frozenset(
    {
        *(dt.float16, dt.float32, dt.float64, dt.complex64, dt.complex128, dt.bool_, dt.string),
        *(dt.int8, dt.int16, dt.int32, dt.int64, dt.uint8, dt.qint8, dt.quint8, dt.qint32),
    }
)


# Writing


class SliceTableWriter:
    """Writes a checkpoint file; no file exists before `finish`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._tensors: dict[str, SavedSliceMeta] = {}
        self._data: dict[bytes, bytes] = {}

    def add(self, name: str, value: Array, dtype: DType, place: ShapeAndSlice | None = None) -> None:
        """Add a tensor or a slice of one.

        Raises:
            UnimplementedError: the format does not support the dtype.
            InvalidArgumentError: dtype or full shape differ from those of an earlier slice, or the slice is too large.
        """
        if dtype not in _STORABLE:
            raise UnimplementedError(f"Saving data type {dtype.name} not yet supported")
        if dtype is not dt.string and value.size * max(_BYTES_OF_ELEMENT, dtype.size) > _MAX_MESSAGE:
            raise InvalidArgumentError(
                f"Tensor slice is too large to serialize: {name!r} {list(value.shape)}"
            )
        part = TensorSlice.whole(value.ndim) if place is None else place.part
        part.to_proto(self._tensor(name, value.shape if place is None else place.shape, dtype).slice.add())
        saved = SavedTensorSlices()
        saved.data.name = name
        saved.data.slice.SetInParent()
        part.to_proto(saved.data.slice)
        saved.data.data.SetInParent()
        list_elements(saved.data.data, value, dtype)
        self._data[part.key(name)] = saved.SerializeToString()

    def _tensor(self, name: str, shape: Sequence[int], dtype: DType) -> SavedSliceMeta:
        known = self._tensors.get(name)
        if known is None:
            known = self._tensors[name] = SavedSliceMeta(name=name, type=dtype.as_datatype_enum)
            known.shape.SetInParent()
            for size in shape:
                known.shape.dim.add(size=size)
        elif [dim.size for dim in known.shape.dim] != list(shape) or known.type != dtype.as_datatype_enum:
            raise InvalidArgumentError(
                f"Mismatching shapes or types: parts of {name!r} as {dtype.name}{list(shape)}"
            )
        return known

    def finish(self, proceed: Proceed = go_on) -> None:
        """Write the file and move it into place."""
        with OutputFile(self._path) as file:
            table = TableWriter(file)
            meta = SavedTensorSlices()
            meta.meta.tensor.extend(self._tensors[name] for name in sorted(self._tensors))
            meta.meta.versions.producer = _VERSION
            table.add(_META_KEY, meta.SerializeToString())
            for key in sorted(self._data):
                proceed()
                table.add(key, self._data[key])
            table.finish()
            file.commit()
        sync_folder(self._path)


# Reading


class _Tensor(NamedTuple):
    """A tensor of the tables; `parts` maps each of its slices to the table that contains it."""

    dtype: DType
    shape: tuple[int, ...]
    parts: dict[TensorSlice, SortedTable]


class SliceTableReader:
    """Reads the files that match a pattern as one checkpoint; a context manager.

    Raises:
        NotFoundError: no file matches.
        DataLossError: a file is damaged or is not a checkpoint table.
    """

    def __init__(self, pattern: str, proceed: Proceed = go_on) -> None:
        self._pattern = pattern
        self._proceed = proceed
        self._files: list[InputFile] = []
        self._tensors: dict[str, _Tensor] = {}
        local = local_path(pattern)
        paths = [local] if os.path.isfile(local) else sorted(glob.glob(local))
        if not paths:
            raise NotFoundError(
                f"Unsuccessful TensorSliceReader constructor: Failed to find any matching files for {pattern}"
            )
        try:
            for path in paths:
                self._files.append(InputFile(path))
                self._add(self._files[-1])
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for file in self._files:
            file.close()

    def tensors(self) -> Iterator[tuple[str, DType, tuple[int, ...]]]:
        """Yield name, dtype and shape of each tensor, in the order of names."""
        for name, tensor in sorted(self._tensors.items()):
            yield name, tensor.dtype, tensor.shape

    def check_name(self, name: str) -> None:
        """Raise NotFoundError if the checkpoint has no such tensor."""
        if name not in self._tensors:
            raise NotFoundError(f'Tensor name "{name}" not found in checkpoint files {self._pattern}')

    def read(self, name: str, dtype: DType, wanted: ShapeAndSlice | None = None) -> Array:
        """Read a tensor or a slice of it.

        Raises:
            NotFoundError: the checkpoint has no such tensor.
            InvalidArgumentError: dtype or shape differ, or the saved slices do not cover the requested one.
            DataLossError: the data is damaged.
        """
        self.check_name(name)
        tensor = self._tensors[name]
        if tensor.dtype != dtype:
            raise InvalidArgumentError(
                f"Expected to restore a tensor of type {type_name(dtype)}, got a tensor of type "
                f"{type_name(tensor.dtype)} instead: tensor_name = {name}"
            )
        if wanted is not None and wanted.shape != tensor.shape:
            raise InvalidArgumentError(
                f"Shape in shape_and_slice spec does not match the shape in the save file: {listed(wanted.shape)}, "
                f"save file shape: {listed(tensor.shape)}"
            )
        box = tuple((0, size) for size in tensor.shape) if wanted is None else wanted.box
        places = {part.box(tensor.shape): part for part in tensor.parts}
        if not covers(places, box):
            raise InvalidArgumentError(f"RestoreOp: could not find all of tensor {name!r} in {self._pattern}")
        result: Array | None = None
        for place, part in places.items():
            both = intersection(place, box)
            if both is None:
                continue
            self._proceed()
            value = self._part(name, tensor, part, sizes_of(place))
            if result is None:  # allocated only when there is data to copy: sizes in the file are not trusted
                result = np.empty(sizes_of(box), dtype.numpy)
            result[index(within(both, box))] = value[index(within(both, place))]
        return np.empty(sizes_of(box), dtype.numpy) if result is None else result

    def _add(self, file: InputFile) -> None:
        table = SortedTable(file)
        meta = parsed(SavedTensorSlices, table.get(_META_KEY) or b"", file.path).meta
        if meta.versions.min_consumer > _VERSION or _VERSION in meta.versions.bad_consumers:
            raise InvalidArgumentError(f"{file.path}: Checkpoint min consumer version above {_VERSION}")
        for proto in meta.tensor:
            shape = tuple(dim.size for dim in proto.shape.dim)
            if min(shape, default=0) < 0 or len(shape) > _MAX_RANK or math.prod(shape) > 1 << 59:
                raise DataLossError(f"{file.path}: tensor {proto.name!r} has the shape {list(shape)}")
            dtype = self._dtype(file, proto)
            known = self._tensors.setdefault(proto.name, _Tensor(dtype, shape, {}))
            if (known.dtype, known.shape) != (dtype, shape):
                raise InvalidArgumentError(
                    f"{file.path}: tensor {proto.name!r} has another dtype or shape in another file"
                )
            for part in proto.slice:
                known.parts[TensorSlice.from_proto(part)] = table

    def _dtype(self, file: InputFile, proto: Any) -> DType:
        try:
            dtype = as_dtype(int(proto.type))
        except GraphTypeError:
            dtype = dt.variant
        if dtype not in _STORABLE:
            raise DataLossError(f"{file.path}: tensor {proto.name!r} has the unknown dtype {proto.type}")
        return dtype

    def _part(self, name: str, tensor: _Tensor, part: TensorSlice, shape: tuple[int, ...]) -> Array:
        data = tensor.parts[part].get(part.key(name))
        if data is None:
            raise DataLossError(f"{self._pattern}: part {part} of tensor {name!r} is missing")
        proto: TensorProto = parsed(SavedTensorSlices, data, self._pattern).data.data
        proto.dtype = tensor.dtype.as_datatype_enum
        for size in shape:
            proto.tensor_shape.dim.add(size=size)
        if count_listed(proto, tensor.dtype) != math.prod(shape):
            raise DataLossError(
                f"{self._pattern}: part {part} of tensor {name!r} does not have the elements of shape {list(shape)}"
            )
        return decode_tensor(proto)
