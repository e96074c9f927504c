"""Files of safetensors: the library reads ours, we read the library's, and damage is found."""

import json

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from aioexec import dtypes
from aioexec.errors import DataLossError, InvalidArgumentError, NotFoundError
from aioexec.formats.safetensors import DTYPES, SafetensorsReader, SafetensorsWriter

ARRAYS = {
    "a/weights": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b": np.array([1.5, -2.0]),
    "flags": np.array([True, False, True]),
    "step": np.array(7, np.int64),
    "empty": np.zeros((0, 4), np.float16),
    "small": np.array([-1, 2], np.int8),
}


def write(path, arrays):
    described = [(name, dtypes.as_dtype(value.dtype), value.shape) for name, value in arrays.items()]
    with SafetensorsWriter(str(path), described) as writer:
        for name in writer.order:
            writer.add(name, arrays[name])
        writer.finish()


def read(path):
    with SafetensorsReader(str(path)) as reader:
        return {name: reader.read(name) for name, _, _ in reader.tensors()}


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)
        assert found[name].dtype == value.dtype


def test_the_library_reads_what_we_write(tmp_path):
    write(tmp_path / "x.safetensors", ARRAYS)

    assert_same(safetensors.numpy.load_file(tmp_path / "x.safetensors"), ARRAYS)


def test_we_read_what_the_library_writes(tmp_path):
    safetensors.numpy.save_file(ARRAYS, tmp_path / "x.safetensors", metadata={"format": "np"})

    assert_same(read(tmp_path / "x.safetensors"), ARRAYS)


@pytest.mark.parametrize("name", DTYPES.values())
def test_every_dtype_comes_back(tmp_path, name):
    dtype = dtypes.as_dtype(name)
    arrays = {"x": np.array([[0, 1, 1]]).astype(dtype.as_numpy_dtype)}
    write(tmp_path / "x.safetensors", arrays)

    assert_same(read(tmp_path / "x.safetensors"), arrays)


def test_bfloat16_has_its_bytes_in_the_file(tmp_path):
    write(tmp_path / "x.safetensors", {"x": np.array([1.0], ml_dtypes.bfloat16)})

    assert (tmp_path / "x.safetensors").read_bytes()[-2:] == b"\x80\x3f"


def test_data_is_aligned(tmp_path):
    write(tmp_path / "x.safetensors", {"a": ARRAYS["small"], "z": ARRAYS["b"]})

    data = (tmp_path / "x.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    assert length % 8 == 0
    assert json.loads(data[8 : 8 + length])["z"]["data_offsets"] == [0, 16]


def test_an_unfinished_file_does_not_appear(tmp_path):
    (tmp_path / "x.safetensors").write_bytes(b"before")
    with SafetensorsWriter(str(tmp_path / "x.safetensors"), [("a", dtypes.float32, (2,))]):
        pass

    assert (tmp_path / "x.safetensors").read_bytes() == b"before"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_dtype_that_the_format_lacks_is_refused(tmp_path):
    with pytest.raises(InvalidArgumentError, match="'a': safetensors has no dtype string"):
        SafetensorsWriter(str(tmp_path / "x"), [("a", dtypes.string, (2,))])


def file_with(tmp_path, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    (tmp_path / "x").write_bytes(len(text).to_bytes(8, "little") + text + data)
    return str(tmp_path / "x")


def entry(begin, end, shape=(1,), dtype="U8"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


@pytest.mark.parametrize(
    ("header", "data", "message"),
    [
        (b"no", b"", "no JSON"),
        (b"[" * 100_000, b"", "no JSON"),
        (b"[]", b"", "no object"),
        (b'{"a":1,"a":2}', b"", "occurs twice"),
        ({"a": 1}, b"", "without dtype"),
        ({"a": entry(0, 2)}, b"12", "of 2 bytes for uint8"),
        ({"a": entry(0, 1, [-1])}, b"1", "of shape"),
        ({"a": entry(0, 1), "b": entry(0, 1)}, b"1", "without gaps"),
        ({"a": entry(0, 1), "b": entry(2, 3)}, b"123", "without gaps"),
        ({"a": entry(-1, 0)}, b"", "without gaps"),
        ({"a": entry(0, 1)}, b"", "without gaps"),
        ({"a": entry(0, 1)}, b"12", "without gaps"),
        ({"a": entry(0, 1 << 60, [1 << 60])}, b"1", "without gaps"),
    ],
)
def test_damage_is_found_before_anything_is_read(tmp_path, header, data, message):
    with pytest.raises(DataLossError, match=rf"x: expected .* safetensors, got .*{message}"):
        SafetensorsReader(file_with(tmp_path, header, data))


def test_a_length_beyond_the_file_or_any_reason_is_damage(tmp_path):
    for length in (1 << 20, 1 << 62):
        (tmp_path / "x").write_bytes(length.to_bytes(8, "little"))
        with pytest.raises(DataLossError):
            SafetensorsReader(str(tmp_path / "x"))


def test_a_dtype_from_the_future_is_named(tmp_path):
    with pytest.raises(InvalidArgumentError, match="'a' has the dtype F4"):
        SafetensorsReader(file_with(tmp_path, {"a": entry(0, 1, dtype="F4")}, b"1"))


def test_files_and_tensors_that_are_missing_are_named(tmp_path):
    with pytest.raises(NotFoundError, match="gone"):
        SafetensorsReader(str(tmp_path / "gone"))
    with SafetensorsReader(file_with(tmp_path, {})) as reader, pytest.raises(NotFoundError, match="'a'"):
        reader.read("a")
