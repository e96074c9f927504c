"""The encoding of lists of tensors in messages between tasks: TensorFlow's encoding of its variants.

A variant consists of the name of its type, tensors, and metadata bytes that depend on the type. Those of a list are numbers
(the count and indices of unset elements, the dtype, the maximum length) and the shape of its elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from aioexec import dtypes
from aioexec.dtypes import as_dtype
from aioexec.errors import DataLossError, InvalidArgumentError
from aioexec.formats.protos import DataType, TensorProto, TensorShapeProto, VariantTensorDataProto
from aioexec.formats.sorted_table import decode_varint, encode_varint
from aioexec.formats.tensor_codec import decode_tensor, encode_tensor, shape_from_proto, shape_to_proto
from aioexec.resources.tensor_list import TensorList, list_of

_LIST: Final = "tensorflow::TensorList"
_UNSIGNED: Final = (1 << 64) - 1

Array = np.ndarray[Any, Any]


def is_variant(value: Any) -> bool:
    """Whether a value is an array of dtype object, other than strings."""
    return (
        isinstance(value, np.ndarray)
        and value.dtype.hasobject
        and value.size > 0
        and not isinstance(value.item(0), bytes | str)
    )


def variant_to_proto(value: Array) -> TensorProto:
    """A variant tensor as a message.

    Raises:
        InvalidArgumentError: the tensor contains objects other than lists.
    """
    proto = TensorProto(dtype=DataType.DT_VARIANT)
    proto.tensor_shape.CopyFrom(shape_to_proto(value.shape))
    for content in value.ravel():
        if not isinstance(content, TensorList):
            raise InvalidArgumentError(f"a {type(content).__name__} cannot be sent to another task")
        _write_list(proto.variant_val.add(), content)
    return proto


def variant_from_proto(proto: TensorProto) -> Array:
    """The variant tensor that a message describes.

    Each element must be listed: repeated elements, which other tensors allow, would let a message of a few bytes allocate any
    amount of memory.

    Raises:
        InvalidArgumentError: the message is inconsistent, or contains objects other than lists.
    """
    if proto.dtype != DataType.DT_VARIANT:
        raise InvalidArgumentError(f"expected a variant, got a tensor of dtype number {proto.dtype}")
    contents: Any = decode_tensor(proto, max_bytes=0)
    boxes = np.empty(contents.shape, np.object_)
    for index in np.ndindex(contents.shape):
        boxes[index] = _read_list(contents[index])
    return boxes


def _write_list(held: VariantTensorDataProto, content: TensorList) -> None:
    held.type_name = _LIST
    unset = []
    for index in range(content.length):
        item = content.items.get(index)
        if item is None:
            unset.append(index)
        else:
            held.tensors.append(variant_to_proto(item) if is_variant(item) else encode_tensor(item))
    numbers = [len(unset), *unset, content.dtype.as_datatype_enum, content.limit & _UNSIGNED]
    shape = shape_to_proto(content.dims).SerializeToString()
    held.metadata = b"".join(map(encode_varint, numbers)) + shape


def _read_list(held: VariantTensorDataProto) -> TensorList:
    if held.type_name != _LIST:
        raise InvalidArgumentError(
            f"a variant of type {held.type_name!r} cannot be received; expected {_LIST}"
        )
    metadata = held.metadata
    try:
        numbers = _Numbers(metadata)
        unset = {next(numbers) for _ in range(min(next(numbers), len(metadata)))}
        dtype = as_dtype(next(numbers))
        limit = next(numbers)
        dims = shape_from_proto(TensorShapeProto.FromString(metadata[numbers.position :]))
    except (DataLossError, TypeError, ValueError) as error:
        raise InvalidArgumentError(f"a list whose description is damaged: {error}") from error
    length = len(unset) + len(held.tensors)
    if any(index >= length for index in unset):
        raise InvalidArgumentError(f"a list of {length} elements cannot lack those at {sorted(unset)}")
    tensors = iter(held.tensors)
    items = [None if index in unset else _element(next(tensors), dtype) for index in range(length)]
    made = list_of(dtype, dims, items)  # type: ignore[arg-type]  # None is an unset element
    return TensorList(dtype, dims, made.items, limit - (1 << 64) if limit >> 63 else limit)


def _element(proto: TensorProto, dtype: dtypes.DType) -> Array:
    if proto.dtype != dtype.as_datatype_enum:
        raise InvalidArgumentError(f"a list of {dtype.name} has an element of {as_dtype(proto.dtype).name}")
    return variant_from_proto(proto) if dtype is dtypes.variant else decode_tensor(proto, max_bytes=0)


class _Numbers(Iterator[int]):
    """Reads varints from the start of some bytes; `position` is after the last one read."""

    def __init__(self, data: bytes) -> None:
        self._data = data  # the bytes
        self.position = 0

    def __next__(self) -> int:
        value, self.position = decode_varint(self._data, self.position)
        return value
