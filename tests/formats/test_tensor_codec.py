"""Values and shapes as protos: round trips, TensorFlow's bytes, and inconsistent protos."""

import tracemalloc
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as npst

from aioexec import dtypes
from aioexec.dtypes import as_dtype
from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError
from aioexec.formats.protos import (
    DataType,
    ResourceHandleProto,
    TensorProto,
    TensorShapeProto,
    VariantTensorDataProto,
)
from aioexec.formats.tensor_codec import (
    MakeNdarray,
    decode_tensor,
    encode_tensor,
    make_tensor_proto,
    shape_from_proto,
    shape_to_proto,
)

NUMPY_KINDS = [
    *(np.float16, np.float32, np.float64, ml_dtypes.bfloat16, np.complex64, np.complex128, np.bool_),
    *(np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64),
]
QUANTIZED = [dtypes.qint8, dtypes.qint16, dtypes.qint32, dtypes.quint8, dtypes.quint16]


def proto_of(dtype: str, shape: list[int], **fields: Any) -> TensorProto:
    proto = TensorProto(dtype=f"DT_{dtype}", **fields)
    proto.tensor_shape.SetInParent()
    for size in shape:
        proto.tensor_shape.dim.add(size=size)
    return proto


def assert_same(actual: np.ndarray, expected: np.ndarray) -> None:
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    if expected.dtype.hasobject:
        assert actual.tolist() == expected.tolist()
    else:
        assert actual.tobytes() == expected.tobytes()


@st.composite
def numeric_arrays(draw: st.DrawFn) -> np.ndarray:
    kind = np.dtype(draw(st.sampled_from(NUMPY_KINDS)))
    shape = draw(npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    size = int(np.prod(shape)) * kind.itemsize
    data = np.frombuffer(draw(st.binary(min_size=size, max_size=size)), np.uint8)
    return ((data & 1) if kind == np.bool_ else data).view(kind).reshape(shape)


@given(numeric_arrays())
def test_a_numeric_array_survives_bit_for_bit(array):
    proto = TensorProto.FromString(encode_tensor(array).SerializeToString())

    # A signalling NaN becomes quiet when it passes through a Python float, so NaNs are compared as such.
    decoded = decode_tensor(proto)
    if array.dtype.kind in "fc" and np.isnan(array).any():
        np.testing.assert_array_equal(decoded, array)
        assert decoded.dtype == array.dtype
    else:
        assert_same(decoded, array)


@given(
    npst.arrays(
        np.object_, npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3), elements=st.binary()
    )
)
def test_an_array_of_strings_survives(array):
    assert_same(decode_tensor(encode_tensor(array, dtypes.string)), array)


@given(npst.arrays(np.object_, (3,), elements=st.binary(max_size=300)))
def test_strings_in_content_are_lengths_and_then_bytes(array):
    def varint(number: int) -> bytes:
        return bytes([number]) if number < 128 else bytes([number % 128 + 128, number // 128])

    content = b"".join(varint(len(text)) for text in array) + b"".join(array)

    assert_same(decode_tensor(proto_of("STRING", [3], tensor_content=content)), array)


@pytest.mark.parametrize("dtype", QUANTIZED, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("shape", [(), (3,), (0, 2)])
def test_quantized_arrays_survive(dtype, shape):
    array = np.full(shape, 7, dtype.numpy[0]).view(dtype.numpy)

    proto = encode_tensor(array)

    assert proto.dtype == dtype.as_datatype_enum
    assert_same(decode_tensor(proto), array)


def test_handles_and_variants_survive_as_their_protos():
    handles = np.empty(2, np.object_)
    handles[:] = [ResourceHandleProto(name="v"), ResourceHandleProto(name="w")]
    variants = np.empty((), np.object_)
    variants[()] = VariantTensorDataProto(type_name="list")

    assert_same(decode_tensor(encode_tensor(handles, dtypes.resource)), handles)
    assert_same(decode_tensor(encode_tensor(variants, dtypes.variant)), variants)
    with pytest.raises(GraphTypeError, match="Expected ResourceHandleProto elements"):
        encode_tensor(variants, dtypes.resource)


def test_a_handle_in_content_is_read():
    piece = ResourceHandleProto(name="v").SerializeToString()

    decoded = decode_tensor(proto_of("RESOURCE", [], tensor_content=bytes([len(piece)]) + piece))

    assert decoded.item().name == "v"


def test_arrays_of_other_byte_order_or_layout_are_written_in_row_major_little_endian():
    expected = np.arange(6, dtype=np.int32).reshape(2, 3)

    assert_same(decode_tensor(encode_tensor(expected.astype(">i4"))), expected)
    assert_same(decode_tensor(encode_tensor(np.asfortranarray(expected))), expected)
    assert_same(decode_tensor(encode_tensor(np.repeat(expected, 2, axis=0)[::2])), expected)


def test_a_decoded_array_is_the_callers_own():
    proto = encode_tensor(np.array([1.0, 2.0], np.float32))

    decode_tensor(proto)[0] = 9.0

    assert_same(decode_tensor(proto), np.array([1.0, 2.0], np.float32))


# TensorFlow 2.21's bytes of tf.make_tensor_proto(values, dtype, shape), deterministically serialised.
BY_TENSORFLOW = [
    (1, None, None, "080312003a0101"),
    (-1, None, None, "080312003a0affffffffffffffffff01"),
    (1.5, None, None, "080112002a040000c03f"),
    (2**40, None, None, "080912005206808080808020"),
    ([1, 2**40], None, None, "0809120412020802221001000000000000000000000000010000"),
    (2**63, None, None, "081712008a010a80808080808080808001"),
    (True, None, None, "080a12005a0101"),
    ([True, False], None, None, "080a1204120208025a020100"),
    ("a", None, None, "08071200420161"),
    ("é", None, None, "080712004202c3a9"),
    ([b"a\0"], None, None, "080712041202080142026100"),
    ([b"a", "b"], None, None, "0807120412020802420161420162"),
    (np.array([b"a", b"bc"]), None, None, "080712041202080242016142026263"),
    (1j, None, None, "0812120062100000000000000000000000000000f03f"),
    ([], None, None, "080112021200"),
    ([[]], None, None, "08011206120208011200"),
    (np.float64(1), None, None, "080212003208000000000000f03f"),
    ([np.float64(1)], None, None, "08011204120208012a040000803f"),
    ([1, 2.5], None, None, "080112041202080222080000803f00002040"),
    (np.array([1, 2]), None, None, "0809120412020802221001000000000000000200000000000000"),
    (1, "float32", None, "080112002a040000803f"),
    (True, "int32", None, "080312003a0101"),
    (np.array([1, 2]), "float32", None, "080112041202080222080000803f00000040"),
    (np.array([1.5, 2]), "int32", None, "080312041202080222080100000002000000"),
    (np.array([True, False]), "int32", None, "080312041202080222080100000000000000"),
    ([1, 2], None, [2, 2], "0803120812020802120208023a020102"),
    ([1, 2, 3, 4], None, [2, 2], "080312081202080212020802221001000000020000000300000004000000"),
    ([1], None, [], "080312003a0101"),
    (1, None, [2], "08031204120208023a0101"),
    ("a", None, [2], "0807120412020802420161"),
    ([], "float32", [2], "0801120412020802"),
    ([], "string", None, "080712021200"),
    (1, "complex64", None, "080812004a080000803f00000000"),
    ([1.5, 2], "float16", None, "08131204120208022204003e0040"),
    ([1.5, 2], "bfloat16", None, "080e1204120208022204c03f0040"),
    (1, "float16", None, "081312006a028078"),
    (1, "bfloat16", None, "080e12006a02807f"),
    ([0, 1], "uint16", None, "08111204120208023a020001"),
    ([0, 1], "uint32", None, "081612041202080222080000000001000000"),
    (1, "uint32", None, "0816120082010101"),
    ([1.0, 2.0], "float32_ref", None, "080112041202080222080000803f00000040"),
]


@pytest.mark.parametrize(("values", "dtype", "shape", "expected"), BY_TENSORFLOW)
def test_make_tensor_proto_writes_what_tensorflow_writes(values, dtype, shape, expected):
    proto = make_tensor_proto(values, dtype, shape)

    assert proto.SerializeToString(deterministic=True).hex() == expected.replace(" ", "")


def test_make_tensor_proto_checks_the_shape():
    with pytest.raises(GraphValueError, match="Expected at most 2 values for shape"):
        make_tensor_proto([1, 2, 3], shape=[2])
    with pytest.raises(GraphTypeError, match=r"Expected values of shape \(2, 2\), got \(4,\)"):
        make_tensor_proto([1, 2, 3, 4], shape=[2, 2], verify_shape=True)
    with pytest.raises(GraphTypeError, match="Expected one value or 4, got 2"):
        make_tensor_proto([1, 2], shape=[4], allow_broadcast=True)
    with pytest.raises(GraphTypeError, match="Expected a fully defined shape"):
        make_tensor_proto(1, shape=[None])
    with pytest.raises(GraphValueError, match="got both"):
        make_tensor_proto(1, shape=[2], verify_shape=True, allow_broadcast=True)
    assert make_tensor_proto([1, 2], shape=[2], verify_shape=True) == make_tensor_proto([1, 2])


def test_make_tensor_proto_refuses_values_of_another_type():
    with pytest.raises(GraphTypeError, match=r"Expected int32, got 1\.5 of type 'float' instead"):
        make_tensor_proto(1.5, dtype="int32")
    with pytest.raises(GraphTypeError, match="Expected string, got 1 of type 'int' instead"):
        make_tensor_proto(1, dtype="string")
    with pytest.raises(GraphValueError, match="300"):
        make_tensor_proto(300, dtype="uint8")


LISTED = [
    (proto_of("FLOAT", [3], float_val=[2.0]), np.array([2, 2, 2], np.float32)),
    (proto_of("FLOAT", [3], float_val=[2.0, 5.0]), np.array([2, 5, 5], np.float32)),
    (proto_of("DOUBLE", [2, 2], double_val=[1.0]), np.ones((2, 2))),
    (proto_of("INT32", [2]), np.zeros(2, np.int32)),
    (proto_of("INT32", []), np.array(0, np.int32)),
    (proto_of("INT8", [2], int_val=[-1]), np.array([-1, -1], np.int8)),
    (
        proto_of("UINT8", [1], int_val=[300]),
        np.array([44], np.uint8),
    ),  # the low bits, as TensorFlow's C++ reads it
    (proto_of("INT64", [], int64_val=[-(2**63)]), np.array(-(2**63))),
    (proto_of("UINT64", [], uint64_val=[2**64 - 1]), np.array(2**64 - 1, np.uint64)),
    (proto_of("UINT32", [], uint32_val=[2**32 - 1]), np.array(2**32 - 1, np.uint32)),
    (proto_of("HALF", [2], half_val=[0x3C00]), np.array([1, 1], np.float16)),
    (proto_of("BFLOAT16", [2], half_val=[0x3FC0, 0x8000]), np.array([1.5, -0.0], ml_dtypes.bfloat16)),
    (proto_of("COMPLEX64", [2], scomplex_val=[1.0, 2.0]), np.array([1 + 2j] * 2, np.complex64)),
    (proto_of("COMPLEX128", [1], dcomplex_val=[1.0, 2.0]), np.array([1 + 2j])),
    (proto_of("BOOL", [3], bool_val=[True, False]), np.array([True, False, False])),
    (proto_of("BOOL", [2], tensor_content=b"\x02\x00"), np.array([True, False])),
    (proto_of("STRING", [2], string_val=[b"ab"]), np.array([b"ab", b"ab"], np.object_)),
    (proto_of("STRING", [2]), np.array([b"", b""], np.object_)),
    (proto_of("STRING", [2], tensor_content=b"\x02\x02ab\xff\x00"), np.array([b"ab", b"\xff\0"], np.object_)),
    (proto_of("FLOAT", [0, 3]), np.zeros((0, 3), np.float32)),
    (proto_of("INT32", [1], int_val=[1], tensor_content=b"\x02\0\0\0"), np.array([2], np.int32)),
]


@pytest.mark.parametrize(("proto", "expected"), LISTED)
def test_both_forms_are_read_as_tensorflow_reads_them(proto, expected):
    assert_same(decode_tensor(proto), expected)
    assert_same(MakeNdarray(proto), expected)


BAD = [
    (TensorProto(), "expected a supported dtype, got number 0"),
    (TensorProto(dtype=DataType.DT_FLOAT_REF), "got float32_ref"),
    (TensorProto(dtype=DataType.DT_FLOAT8_E5M2), "expected a supported dtype, got number 24"),
    (proto_of("FLOAT", [-1]), r"expected a fully defined shape, got \[-1\]"),
    (proto_of("FLOAT", [2, -5]), r"got \[2, -5\]"),
    (TensorProto(dtype="DT_FLOAT", tensor_shape=TensorShapeProto(unknown_rank=True)), "got an unknown rank"),
    (proto_of("FLOAT", [1] * 65), "expected at most 64 dimensions, got 65"),
    (proto_of("FLOAT", [2**62], float_val=[1.0]), "expected at most 9223372036854775807 bytes"),
    (proto_of("STRING", [2**40], string_val=[b"a"]), "expected at most 268435456 bytes"),
    (proto_of("FLOAT", [2**39], float_val=[1.0]), "expected at most 4294967296 bytes"),
    (proto_of("FLOAT", [2**39], float_val=[1.0, 2.0]), "expected at most 268435456 bytes"),
    (proto_of("FLOAT", [2**62, 2**62]), "by shape"),
    (proto_of("FLOAT", [0, 2**62, 2**62]), "by shape"),
    (proto_of("FLOAT", [2], tensor_content=b"\0" * 7), "expected 8 bytes of content, got 7"),
    (proto_of("FLOAT", [2], tensor_content=b"\0" * 9), "expected 8 bytes of content, got 9"),
    (proto_of("FLOAT", [0], tensor_content=b"\0"), "expected 0 bytes of content, got 1"),
    (proto_of("FLOAT", [1], float_val=[1.0, 2.0]), "expected at most 1 numbers"),
    (proto_of("COMPLEX64", [2], scomplex_val=[1.0]), "2 an element, got 1"),
    (proto_of("STRING", [1], string_val=[b"a", b"b"]), "expected at most 1 elements, got 2"),
    (proto_of("STRING", [3], tensor_content=b"\0\0"), "expected at least 3 bytes of content, got 2"),
    (proto_of("STRING", [1], tensor_content=b"\x02a"), "expected 3 bytes of content by its lengths, got 2"),
    (proto_of("STRING", [1], tensor_content=b"\x01ab"), "expected 2 bytes of content by its lengths, got 3"),
    (proto_of("STRING", [1], tensor_content=b"\xff"), "whole varints"),
    (proto_of("STRING", [1], tensor_content=b"\xff" * 11), "whole varints"),
    (proto_of("RESOURCE", [1], tensor_content=b"\x01\xff"), "expected a serialised ResourceHandleProto"),
    (proto_of("VARIANT", [1], tensor_content=b"\x01\xff"), "expected a serialised VariantTensorDataProto"),
]


@pytest.mark.parametrize(("proto", "message"), BAD)
def test_a_proto_that_contradicts_itself_is_an_invalid_argument(proto, message):
    with pytest.raises(InvalidArgumentError, match=message):
        decode_tensor(proto)


def test_one_element_that_stands_for_all_is_never_written_out():
    for proto in (
        proto_of("FLOAT", [2**10, 2**20], float_val=[1.5]),
        proto_of("COMPLEX64", [2**28], scomplex_val=[1.0, 2.0]),
    ):
        array = decode_tensor(proto)

        assert not array.flags.writeable
        assert encode_tensor(array, proto.dtype) == proto


def test_the_elements_of_a_large_value_are_not_python_objects_at_once():
    value = np.arange(1 << 20) % 3 == 0
    tracemalloc.start()
    try:
        proto = encode_tensor(value)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 2 << 20
    np.testing.assert_array_equal(proto.bool_val, value)


def test_the_memory_of_a_value_can_be_bounded():
    proto = proto_of("FLOAT", [4], float_val=[1.0])

    assert decode_tensor(proto, max_bytes=16).shape == (4,)
    with pytest.raises(InvalidArgumentError, match="expected at most 15 bytes, got 16"):
        decode_tensor(proto, max_bytes=15)


@given(st.binary(max_size=60))
def test_any_parsed_bytes_decode_or_are_an_invalid_argument(data):
    proto = TensorProto(dtype=DataType.DT_STRING)
    proto.tensor_shape.dim.add(size=len(data) // 3)
    proto.tensor_content = data

    try:
        decoded = decode_tensor(proto)
    except InvalidArgumentError:
        return
    assert decoded.shape == (len(data) // 3,)


@given(st.none() | st.lists(st.none() | st.integers(0, 2**40), max_size=5).map(tuple))
def test_a_shape_survives(dims):
    assert shape_from_proto(shape_to_proto(dims)) == dims


def test_a_shape_has_tensorflows_bytes():
    assert shape_to_proto((None, 2)).SerializeToString().hex() == "120b08ffffffffffffffffff0112020802"
    assert shape_to_proto(None).SerializeToString().hex() == "1801"
    assert shape_to_proto(()).SerializeToString().hex() == ""


def test_a_shape_that_contradicts_itself_is_an_invalid_argument():
    with pytest.raises(InvalidArgumentError, match=r"dimensions of -1 or more, got \[-2\]"):
        shape_from_proto(TensorShapeProto(dim=[TensorShapeProto.Dim(size=-2)]))
    with pytest.raises(InvalidArgumentError, match="no dimensions of an unknown rank"):
        shape_from_proto(TensorShapeProto(unknown_rank=True, dim=[TensorShapeProto.Dim(size=1)]))


def test_every_dtype_has_a_codec():
    known = [as_dtype(number) for number in range(1, 24)]

    for dtype in known:
        decoded = decode_tensor(TensorProto(dtype=DataType.Name(dtype.as_datatype_enum)))
        assert decoded.dtype == dtype.numpy
