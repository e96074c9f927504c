"""Lists of tensors: encoding and decoding yield an equal list."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aioexec import dtypes
from aioexec.distributed.transport.variant_codec import is_variant, variant_from_proto, variant_to_proto
from aioexec.errors import InvalidArgumentError
from aioexec.formats.protos import DataType, TensorProto
from aioexec.resources.tensor_list import TensorList, boxed, list_in, list_of, reserved


def elements(found: TensorList) -> list[Any]:
    return [found.items.get(index) for index in range(found.length)]


def floats(*values: float) -> Any:
    return np.array(values, np.float32)


LISTS = {
    "empty": list_of(dtypes.float32, None, []),
    "of vectors": list_of(dtypes.float32, (2,), [floats(1, 2), floats(3, 4)]),
    "of strings": list_of(dtypes.string, (), [np.array(b"a", object), np.array(b"", object)]),
    "not set": reserved(dtypes.int64, (None, 3), 4),
    "set in part": reserved(dtypes.int64, (), 3).replaced(1, np.array(7)),
    "bounded": TensorList(dtypes.float32, (), list_of(dtypes.float32, (), []).items, 5),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_comes_as_it_left(name):
    left = LISTS[name]

    came = list_in(
        variant_from_proto(TensorProto.FromString(variant_to_proto(boxed(left)).SerializeToString()))
    )

    assert (came.dtype, came.dims, came.limit, came.length) == (
        left.dtype,
        left.dims,
        left.limit,
        left.length,
    )
    for found, wanted in zip(elements(came), elements(left), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_lists_of_lists_and_arrays_of_lists_travel():
    inner = LISTS["of vectors"]
    outer = list_of(dtypes.variant, (), [boxed(inner)])
    both = np.empty(2, object)
    both[:] = [outer, inner]

    came = variant_from_proto(variant_to_proto(both))

    assert came.shape == (2,)
    (element,) = elements(came[0])
    np.testing.assert_array_equal(elements(list_in(element))[1], [3, 4])


def test_only_what_is_neither_number_nor_string_is_a_variant():
    assert is_variant(boxed(LISTS["empty"]))
    assert not any(map(is_variant, [np.float32(1), np.array([b"a"], object), np.empty(0, object), None]))


def damaged(change: Any) -> TensorProto:
    proto = variant_to_proto(boxed(LISTS["set in part"]))
    change(proto.variant_val[0])
    return proto


BAD = [
    (lambda held: setattr(held, "type_name", "Secret"), "cannot be received"),
    (lambda held: setattr(held, "metadata", b""), "damaged"),
    (lambda held: setattr(held, "metadata", b"\xff" * 30), "damaged"),
    (lambda held: setattr(held, "metadata", b"\x01\x63" + held.metadata[3:]), "cannot lack"),
    (lambda held: setattr(held.tensors[0], "dtype", DataType.DT_FLOAT), "has an element of float32"),
    (lambda held: setattr(held, "metadata", b"\x00\x7f" + held.metadata[4:]), "damaged"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_a_list_that_contradicts_itself_is_refused(change, message):
    with pytest.raises(InvalidArgumentError, match=message):
        variant_from_proto(damaged(change))


def test_what_only_this_process_knows_does_not_travel():
    with pytest.raises(InvalidArgumentError, match="object cannot be sent to another task"):
        variant_to_proto(boxed(object()))


def test_something_else_than_a_variant_is_refused():
    with pytest.raises(InvalidArgumentError, match="expected a variant"):
        variant_from_proto(TensorProto(dtype=DataType.DT_FLOAT))


def test_one_list_does_not_stand_for_many():
    proto = variant_to_proto(boxed(LISTS["of vectors"]))
    proto.tensor_shape.dim.add(size=1 << 24)

    with pytest.raises(InvalidArgumentError, match="by 1 elements"):
        variant_from_proto(proto)


def test_elements_of_a_list_list_all_their_numbers():
    proto = variant_to_proto(boxed(LISTS["of vectors"]))
    element = proto.variant_val[0].tensors[0]
    element.ClearField("tensor_content")
    element.float_val.extend([1.0, 2.0])
    element.tensor_shape.dim[0].size = 1 << 20

    with pytest.raises(InvalidArgumentError, match="by 2 elements"):
        variant_from_proto(proto)
