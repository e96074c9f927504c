"""Raw tensors: bytes to arrays and back, and what is refused."""

from contextlib import suppress

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from aioexec import dtypes as dt
from aioexec.errors import InvalidArgumentError, UnimplementedError
from aioexec.formats.message_fields import PIECE
from aioexec.serving.kserve.datatypes import datatype_of, datatype_or_name, dtype_of
from aioexec.serving.kserve.raw_tensors import count_of, decode_raw, encode_raw

NUMBERS = {
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
    "BF16": ml_dtypes.bfloat16,
}


@pytest.mark.parametrize("datatype", NUMBERS)
def test_numbers_are_their_memory(datatype):
    array = np.arange(6).astype(NUMBERS[datatype]).reshape(2, 3)

    content = encode_raw(array.T, "x")
    decoded = decode_raw(content, dtype_of(datatype, "x"), [3, 2], "x")

    assert content == array.T.tobytes()
    assert decoded.dtype == array.dtype
    np.testing.assert_array_equal(decoded, array.T)
    assert datatype_of(dt.as_dtype(array.dtype), "x") == datatype


def test_strings_have_their_length_before_them():
    array = np.array([[b"ab", b""]], object)

    content = encode_raw(array, "x")

    assert content == b"\2\0\0\0ab\0\0\0\0"
    np.testing.assert_array_equal(decode_raw(content, dt.string, [1, 2], "x"), array)


def test_large_numbers_are_not_copied():
    array = np.zeros(PIECE, np.float32)

    content = encode_raw(array, "x")
    decoded = decode_raw(content, dt.float32, [PIECE], "x")

    assert np.shares_memory(decoded, array)


@given(
    array=st.sampled_from([*NUMBERS.values()]).flatmap(
        lambda kind: hnp.arrays(
            np.dtype(kind) if kind is not ml_dtypes.bfloat16 else np.float16,
            hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5),
        )
    )
)
def test_any_numbers_come_back(array):
    decoded = decode_raw(encode_raw(array, "x"), dt.as_dtype(array.dtype), array.shape, "x")

    assert decoded.tobytes() == array.tobytes()
    assert decoded.shape == array.shape


@given(elements=st.lists(st.binary(max_size=20), max_size=10))
def test_any_strings_come_back(elements):
    array = np.fromiter(elements, object, len(elements))

    decoded = decode_raw(encode_raw(array, "x"), dt.string, [len(elements)], "x")

    assert decoded.tolist() == elements


@given(content=st.binary(max_size=40), shape=st.lists(st.integers(-2, 2**63 - 1), max_size=3))
def test_any_bytes_are_strings_or_an_invalid_argument(content, shape):
    with suppress(InvalidArgumentError):
        assert encode_raw(decode_raw(content, dt.string, shape, "x"), "x") == content


@pytest.mark.parametrize(
    ("dtype", "shape", "content", "message"),
    [
        (dt.float32, [2], b"\0" * 4, r"x: expected 8 bytes for float32\[2\], got 4"),
        (dt.float32, [-1], b"", r"x: expected dimensions of 0 or more, got \[-1\]"),
        (dt.float32, [0, 2**62], b"", "x: expected a shape that can be addressed"),
        (dt.float32, [1] * 65, b"", "x: expected at most 64 dimensions, got 65"),
        (dt.string, [2**40], b"\0" * 4, "x: expected at least .* lengths, got 4"),
        (dt.string, [1], b"\5\0\0\0abc", "x: element 0 ends at byte 9, expected at most 7"),
        (dt.string, [2], b"\4\0\0\0abcd", "x: element 1 ends at byte 12, expected at most 8"),
        (dt.string, [1], b"\1\0\0\0abc", "x: expected 5 bytes by the lengths of 1 elements, got 7"),
    ],
)
def test_bytes_of_another_size_are_refused(dtype, shape, content, message):
    with pytest.raises(InvalidArgumentError, match=message):
        decode_raw(content, dtype, shape, "x")


def test_a_scalar_has_one_element():
    assert count_of([], dt.float32, "x") == 1


def test_what_has_no_datatype_is_named():
    with pytest.raises(InvalidArgumentError, match=r"x: expected a datatype of \['BF16', .*got 'FP8'"):
        dtype_of("FP8", "x")
    with pytest.raises(InvalidArgumentError, match="got None"):
        dtype_of(None, "x")
    with pytest.raises(
        UnimplementedError, match="x: the Open Inference Protocol has no datatype for complex64"
    ):
        datatype_of(dt.complex64, "x")
    assert datatype_or_name(dt.complex64) == "complex64"
