"""DType objects and the conversion of Python values; the expected values were checked against TensorFlow."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from aioexec import dtypes
from aioexec.dtypes import as_dtype, infer_dtype, to_array
from aioexec.errors import GraphTypeError, GraphValueError, OpError

# DataType of tensorflow/core/framework/types.proto
ENUM = {
    "float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6, "string": 7, "complex64": 8,
    "int64": 9, "bool": 10, "qint8": 11, "quint8": 12, "qint32": 13, "bfloat16": 14, "qint16": 15,
    "quint16": 16,
    "uint16": 17, "complex128": 18, "float16": 19, "resource": 20, "variant": 21, "uint32": 22, "uint64": 23,
}  # fmt: skip


@pytest.mark.parametrize(("name", "enum"), ENUM.items())
def test_each_type_is_one_object_under_all_its_names(name, enum):
    dtype = as_dtype(name)

    assert dtype is getattr(dtypes, name)
    assert dtype is as_dtype(enum) is dtypes.DType(enum) is as_dtype(dtype)
    assert dtype is copy.deepcopy(dtype) is pickle.loads(pickle.dumps(dtype))
    assert (dtype.name, dtype.as_datatype_enum) == (name, enum)
    assert dtype.numpy == np.dtype(dtype.as_numpy_dtype)
    if name not in ("resource", "variant"):
        assert as_dtype(dtype.numpy) is dtype


@pytest.mark.parametrize(("name", "enum"), ENUM.items())
def test_each_type_has_a_reference_form(name, enum):
    dtype, ref = as_dtype(name), as_dtype(f"{name}_ref")

    assert ref is as_dtype(enum + 100) is dtype.as_ref is dtype._as_ref is ref.as_ref
    assert ref is getattr(dtypes, f"{name}_ref")
    assert (ref.is_ref, ref._is_ref_dtype, dtype.is_ref) == (True, True, False)
    assert ref.base_dtype is dtype
    assert ref != dtype
    assert dtype.is_compatible_with(ref)
    assert not ref.is_compatible_with(dtype)
    assert ref.is_integer == dtype.is_integer


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("half", "float16"), ("float", "float32"), ("double", "float64"), ("float_ref", "float32_ref"),
        (float, "float32"), (int, "int32"), (bool, "bool"), (complex, "complex128"), (str, "string"),
        (bytes, "string"), (np.float32, "float32"), (np.dtype(">f4"), "float32"), (np.longlong, "int64"),
        (np.dtype("S3"), "string"), (np.str_, "string"), (object, "string"), (np.arange(2), "int64"),
        (ml_dtypes.bfloat16, "bfloat16"), (np.dtype(ml_dtypes.bfloat16), "bfloat16"),
    ],
)  # fmt: skip
def test_as_dtype_accepts_what_means_a_type(value, expected):
    assert as_dtype(value).name == expected


@pytest.mark.parametrize(
    "value", [None, True, "bogus", 0, 99, 200, 1.0, np.longdouble, np.dtype("M8[s]"), [1], dict]
)
def test_as_dtype_refuses_what_means_none(value):
    with pytest.raises(GraphTypeError, match="expected a dtype"):
        as_dtype(value)


def test_equality_takes_numpy_types_and_names():
    assert dtypes.float32 == np.float32
    assert dtypes.float32 == "float32"
    assert np.dtype("float32") == dtypes.float32
    assert dtypes.float32 != np.float64
    assert dtypes.float32 != "bogus"
    assert dtypes.float32 not in (None, object())
    assert {dtypes.float32: 1}[as_dtype("float")] == 1


CLASSES = {
    "is_bool": {"bool"},
    "is_floating": {"float16", "bfloat16", "float32", "float64"},
    "is_complex": {"complex64", "complex128"},
    "is_integer": {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"},
    "is_unsigned": {"uint8", "uint16", "uint32", "uint64"},
    "is_quantized": {"qint8", "quint8", "qint16", "quint16", "qint32"},
    "is_numpy_compatible": ENUM.keys() - {"resource", "variant"},
}


@pytest.mark.parametrize("claim", CLASSES)
def test_each_claim_holds_for_exactly_its_types(claim):
    assert {name for name in ENUM if getattr(as_dtype(name), claim)} == CLASSES[claim]


def test_ranges_and_sizes():
    assert (dtypes.int8.min, dtypes.int8.max, dtypes.uint64.max) == (-128, 127, 2**64 - 1)
    assert dtypes.float32.max == np.finfo(np.float32).max
    assert float(dtypes.bfloat16.max) == float.fromhex("0x1.FEp127")
    assert (dtypes.float32.limits, dtypes.uint8.limits, dtypes.int8.limits) == ((0, 1), (0, 255), (0, 127))
    assert (dtypes.float16.size, dtypes.complex128.size, dtypes.qint32.size) == (2, 16, 4)
    assert dtypes.string.size == dtypes.variant.size == 0
    assert dtypes.complex64.real_dtype is dtypes.float32
    assert dtypes.complex128_ref.real_dtype is dtypes.float64
    assert dtypes.int32_ref.real_dtype is dtypes.int32_ref


@pytest.mark.parametrize("name", ["bool", "string", "complex64", "qint8", "resource"])
def test_types_without_order_have_no_extremes(name):
    for extreme in ("min", "max"):
        with pytest.raises(TypeError, match=f"{name} has no {extreme}imum value"):
            getattr(as_dtype(name), extreme)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.5, "float32"), (3, "int32"), (2**31, "int64"), (-(2**31), "int32"), (2**63, "uint64"),
        (True, "bool"),
        (1j, "complex128"), ("a", "string"), (b"a", "string"), ([True, 1], "int32"), ([1, 2.5], "float32"),
        ([np.float64(1)], "float32"), ([np.float16(1)], "float16"), ([np.float32(1), 1.0], "float32"),
        ([], "float32"), ([[], []], "float32"), (np.float64(1), "float64"), (np.int64(1), "int64"),
        (np.array(["a"]), "string"), ([[1], [2**40]], "int64"), (np.arange(3), "int64"), ((1, 2), "int32"),
        (ml_dtypes.bfloat16(1), "bfloat16"), ([ml_dtypes.bfloat16(1)], "bfloat16"),
    ],
)  # fmt: skip
def test_the_inferred_type_is_tensorflows(value, expected):
    assert infer_dtype(value).name == expected
    assert as_dtype(to_array(value).dtype).name == expected


@pytest.mark.parametrize(
    ("value", "name", "expected"),
    [
        (1, "float32", np.float32(1)),
        (0.1, "float16", np.float16(0.1)),
        (300, "float64", np.float64(300)),
        ([1, 2.5], "float64", np.array([1, 2.5])),
        (True, "int32", np.int32(1)),
        (True, "float32", np.float32(1)),
        (1, "complex64", np.complex64(1)),
        (1, "bfloat16", ml_dtypes.bfloat16(1)),
        (1e300, "float32", np.float32(np.inf)),
        (float("nan"), "float32", np.float32(np.nan)),
        (2**70, "float64", np.float64(2.0**70)),
        ([], "int32", np.array([], np.int32)),
        ([[], []], "string", np.empty((2, 0), object)),
        ([np.arange(2), [3, 4]], "float32", np.array([[0, 1], [3, 4]], np.float32)),
        (np.array([0.1]), "float32", np.array([0.1], np.float32)),
        (np.array([7, 255]), "uint8", np.array([7, 255], np.uint8)),
        (np.array([True]), "float32", np.array([1], np.float32)),
        (np.array([1, 2], object), "int32", np.array([1, 2], np.int32)),
        (range(3), "int64", np.arange(3)),
    ],
)
def test_numbers_move_up_and_within_a_class(value, name, expected):
    array = to_array(value, name)

    assert type(array) is np.ndarray
    assert array.dtype == as_dtype(name).numpy
    np.testing.assert_array_equal(array, expected, strict=True)


@pytest.mark.parametrize(
    ("value", "name", "message"),
    [
        (1.5, "int32", "Expected int32, got 1.5 of type 'float' instead"),
        (1.0, "int32", "Expected int32, got 1.0 of type 'float' instead"),
        ([1, [2.5]][1], "int64", "Expected int64, got 2.5 of type 'float' instead"),
        ([[1, 2], [3, 4.5]], "int32", "Expected int32, got 4.5 of type 'float' instead"),
        (1, "bool", "Expected bool, got 1 of type 'int' instead"),
        (1, "string", "Expected string, got 1 of type 'int' instead"),
        (["a", 1], "string", "Expected string, got 1 of type 'int' instead"),
        (["a", 1], None, "Expected string, got 1 of type 'int' instead"),
        ("a", "float32", "Expected float32, got 'a' of type 'str' instead"),
        (1j, "float32", "Expected float32, got 1j of type 'complex' instead"),
        ([None], "float32", "Expected float32, got None of type 'NoneType' instead"),
        ({"a": 1}, None, "Expected a number or string, got {'a': 1} of type 'dict' instead"),
        (np.array([1.5]), "int32", "Expected int32, got an array of float64 shaped (1,) instead"),
        (np.array([1]), "bool", "Expected bool, got an array of int64 shaped (1,) instead"),
        (np.array([1]), "string", "Expected string, got an array of int64 shaped (1,) instead"),
    ],
)
def test_nothing_moves_down(value, name, message):
    with pytest.raises(GraphTypeError) as info:
        to_array(value, name)

    assert str(info.value) == message


@pytest.mark.parametrize(
    ("value", "name", "message"),
    [
        (300, "int8", "Expected int8, got 300, which does not fit"),
        (-1, "uint8", "Expected uint8, got -1, which does not fit"),
        (np.array([2**40]), "int32", f"Expected int32, got {2**40}, which does not fit"),
        (2**70, None, f"Expected int64, got {2**70}, which does not fit"),
        (2**70, "int32", f"Expected int32, got {2**70}, which does not fit"),
        ([2**63, -1], "int64", f"Expected int64, got [{2**63}, -1], which does not fit"),
        (None, None, "Expected a number, string, array or nested list of them, got None"),
        ([[1], [2, 3]], None, "Expected lists of equal length at each depth, got [[1], [2, 3]]"),
        ([["a"], ["b", "c"]], None, None),
        ([np.zeros(2), np.zeros(3)], "float32", None),
    ],
)
def test_values_that_cannot_be_held_are_named(value, name, message):
    with pytest.raises(GraphValueError) as info:
        to_array(value, name)

    assert message is None or str(info.value) == message


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("é", "é".encode()),
        (b"a\0", b"a\0"),
        (["a", b"b\0"], [b"a", b"b\0"]),
        ([["a", "b"], ["c", "d"]], [[b"a", b"b"], [b"c", b"d"]]),
        (np.array(["a", "b"]), [b"a", b"b"]),
        (np.array([b"x"]), [b"x"]),
        (np.array(["u"], object), [b"u"]),
        (np.str_("s"), b"s"),
        (np.zeros((2, 0), "S2"), [[], []]),
        (np.zeros(0, "U2"), []),
        (np.zeros(0, object), []),
    ],
)
def test_strings_become_bytes_objects(value, expected):
    for dtype in (None, dtypes.string):
        array = to_array(value, dtype)

        assert array.dtype == np.object_
        assert array.tolist() == expected
        assert all(type(leaf) is bytes for leaf in array.ravel())


def test_an_array_of_the_right_type_is_not_copied():
    numbers, words = np.arange(3.0), np.array([b"a"], object)

    assert to_array(numbers, dtypes.float64) is numbers
    assert to_array(numbers) is numbers
    assert to_array(words, dtypes.string) is words


def test_foreign_byte_order_becomes_native():
    array = to_array(np.array([1, 2], ">i4"))

    assert array.dtype == np.dtype("=i4")
    assert array.tolist() == [1, 2]


def test_quantized_values_come_from_integers_and_keep_their_dtype():
    array = to_array([1, 255], dtypes.quint8)

    assert as_dtype(array.dtype) is dtypes.quint8
    assert array["quint8"].tolist() == [1, 255]
    with pytest.raises(GraphValueError, match="256"):
        to_array([256], dtypes.quint8)
    with pytest.raises(GraphTypeError, match="of type 'float'"):
        to_array([1.5], dtypes.quint8)


def test_a_resource_is_boxed_whole():
    handle = [1, [2]]

    boxed = to_array(handle, dtypes.resource)

    assert boxed.shape == ()
    assert boxed.item() is handle


@pytest.mark.slow
def test_importing_dtypes_loads_no_protobuf():
    command = "import sys, aioexec.dtypes; sys.exit('google.protobuf' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", command], check=False).returncode == 0


@pytest.mark.parametrize(
    "value", [10**400, [1.5, 10**400], [[-(10**400)]], [10**5000]], ids=["one", "list", "nested", "long"]
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "complex64", "int64"])
def test_an_integer_beyond_every_number_of_the_dtype_does_not_fit(value, dtype):
    with pytest.raises(OpError, match=f"Expected {dtype}, got .*(does not fit|of type)"):
        dtypes.to_array(value, dtype)


def test_integers_of_uint64_stand_beside_small_ones():
    assert to_array([0, 2**64 - 1], "uint64").tolist() == [0, 2**64 - 1]
