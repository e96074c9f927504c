"""Checkpoints of TensorFlow restored here and vice versa: both formats, every dtype, slices, and the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec import dtypes as dt
from aioexec.errors import OpError
from aioexec.graph.apply import apply_any_op, apply_list_op, apply_no_output_op

pytestmark = pytest.mark.interop

NAMES = (
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128", "bool", "string"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("qint8", "quint8", "qint16", "quint16", "qint32"),
)
FIRST_FORMAT = tuple(
    name for name in NAMES if name not in ("bfloat16", "uint16", "uint32", "uint64", "qint16", "quint16")
)
SHAPES = ((), (3,), (0, 4), (2, 3, 5))
PARTS = ["8 3 0,3:-", "8 3 3,5:0,1", "8 3 3,5:1,2"]
GRID = np.arange(24, dtype=np.int32).reshape(8, 3)


def made(name: str, shape: tuple[int, ...]) -> Any:
    generator = np.random.default_rng(len(name))
    if name == "string":
        lengths = generator.integers(0, 300, shape)
        return (
            np.vectorize(lambda length: generator.bytes(length), otypes=[object])(lengths)
            if lengths.size
            else (np.zeros(shape, object))
        )
    dtype = dt.as_dtype(name)
    if name == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    return generator.integers(0, 100, (*shape, dtype.size), np.uint8).view(dtype.numpy)[..., 0]


def everything(names: tuple[str, ...]) -> dict[str, Any]:
    return {f"{name}/{k}": made(name, shape) for name in names for k, shape in enumerate(SHAPES)}


def many() -> dict[str, Any]:
    """Names that are long and begin differently: an index of several blocks."""
    generator = np.random.default_rng(3)
    return {f"{generator.bytes(300).hex()}{k}": np.float32(k) for k in range(700)}


CONTENTS = {"all dtypes": everything(NAMES), "many tensors": many()}


class There:
    """Runs one op in TensorFlow."""

    def __init__(self, tf: Any) -> None:
        self.tf = tf

    def run(self, op: str, **inputs: Any) -> Any:
        import tensorflow

        with self.tf.Graph().as_default(), self.tf.Session() as session:
            return session.run(getattr(tensorflow.raw_ops, op)(**inputs))

    def save(self, op: str, path: str, values: dict[str, Any], places: list[str] | None = None) -> None:
        import tensorflow

        with self.tf.Graph().as_default(), self.tf.Session() as session:
            feeds, tensors = {}, []
            for name, value in values.items():
                tensor = self.tf.placeholder(self.tf.as_dtype(dtype_name(name, value)), np.shape(value))
                feeds[tensor] = value
                tensors.append(tensor)
            session.run(
                getattr(tensorflow.raw_ops, op)(**saving(op, path, list(values), tensors, places)), feeds
            )

    def restore(self, path: str, names: list[str], types: list[str], places: list[str] | None = None) -> Any:
        return self.run(
            "RestoreV2",
            prefix=path,
            tensor_names=names,
            shape_and_slices=places or [""] * len(names),
            dtypes=[self.tf.as_dtype(name) for name in types],
        )


@pytest.fixture
def there(tf) -> There:
    return There(tf)


def dtype_name(name: str, value: Any) -> str:
    head = name.partition("/")[0]
    return head if head in NAMES else dt.as_dtype(np.asarray(value).dtype).name


def saving(op: str, path: str, names: list[str], tensors: Any, places: list[str] | None) -> dict[str, Any]:
    if op == "SaveV2":
        return {
            "prefix": path,
            "tensor_names": names,
            "shape_and_slices": places or [""] * len(names),
            "tensors": tensors,
        }
    where = {} if places is None else {"shapes_and_slices": places}
    return {"filename": path, "tensor_names": names, **where, "data": tensors}


async def save_here(op: str, path: str, values: dict[str, Any], places: list[str] | None = None) -> None:
    with ax.Graph().as_default():
        feeds = {
            ax.placeholder(dtype_name(name, value), np.shape(value)): value for name, value in values.items()
        }
        given = saving(op, path, list(values), list(feeds), places)
        async with ax.Session() as session:
            await session.run(apply_any_op(op, *given.values()), feeds)


async def restore_here(path: str, names: list[str], types: list[str], places: list[str] | None = None) -> Any:
    with ax.Graph().as_default():
        restored = apply_list_op("RestoreV2", path, names, places or [""] * len(names), dtypes=types)
        async with ax.Session() as session:
            return await session.run(restored)


def assert_same(results: Any, values: Any) -> None:
    for result, value in zip(results, values, strict=True):
        assert np.shape(result) == np.shape(value)
        np.testing.assert_array_equal(bits(result), bits(value))


def bits(value: Any) -> Any:
    """Bytes, but for strings: packages do not agree on NumPy dtypes for what NumPy lacks."""
    array = np.asarray(value, object if isinstance(value, bytes) else None)
    return array if array.dtype == object else np.frombuffer(array.tobytes(), np.uint8)


@pytest.fixture(params=list(CONTENTS))
def values(request) -> dict[str, Any]:
    return CONTENTS[request.param]


def types_of(values: dict[str, Any]) -> list[str]:
    return [dtype_name(name, value) for name, value in values.items()]


async def test_what_tensorflow_saved_is_restored_here(there, tmp_path, values):
    path = str(tmp_path / "a")
    there.save("SaveV2", path, values)

    assert_same(await restore_here(path, list(values), types_of(values)), values.values())


async def test_what_is_saved_here_is_restored_by_tensorflow(there, tmp_path, values):
    path = str(tmp_path / "a")
    await save_here("SaveV2", path, values)

    assert_same(there.restore(path, list(values), types_of(values)), values.values())


async def test_both_write_the_same_files(there, tmp_path, values):
    for folder in ("ours", "theirs"):
        (tmp_path / folder).mkdir()
    await save_here("SaveV2", str(tmp_path / "ours" / "a"), values)
    there.save("SaveV2", str(tmp_path / "theirs" / "a"), values)

    assert_same_files(tmp_path)


async def test_both_write_the_same_files_in_the_first_format(there, tmp_path):
    values = everything(FIRST_FORMAT)
    for folder in ("ours", "theirs"):
        (tmp_path / folder).mkdir()
    await save_here("Save", str(tmp_path / "ours" / "a"), values)
    there.save("Save", str(tmp_path / "theirs" / "a"), values)

    assert_same_files(tmp_path)
    for folder in ("ours", "theirs"):
        path = str(tmp_path / folder / "a")
        assert_same(await restore_here(path, list(values), types_of(values)), values.values())


def assert_same_files(folder: Path) -> None:
    ours, theirs = (
        {path.name: path.read_bytes() for path in (folder / name).iterdir()} for name in ("ours", "theirs")
    )
    assert ours.keys() == theirs.keys()
    for name, content in ours.items():
        assert content == theirs[name], name


@pytest.mark.parametrize("op", ["SaveV2", "SaveSlices"])
async def test_parts_are_joined_and_cut_alike(there, tmp_path, op):
    wanted = ["", "8 3 -:-", "8 3 2,4:1,2", "8 3 7,1:0,1", *PARTS]
    names, types = ["p"] * len(wanted), ["int32"] * len(wanted)
    for folder in ("ours", "theirs"):
        (tmp_path / folder).mkdir()
    ours, theirs = str(tmp_path / "ours" / "a"), str(tmp_path / "theirs" / "a")
    there.run(op, **saving(op, theirs, ["p"] * 3, [GRID[:3], GRID[3:, :1], GRID[3:, 1:]], PARTS))
    with ax.Graph().as_default():
        async with ax.Session() as session:
            given = saving(op, ours, ["p"] * 3, [GRID[:3], GRID[3:, :1], GRID[3:, 1:]], PARTS)
            await session.run(apply_any_op(op, *given.values()))

    assert_same_files(tmp_path)
    assert_same(await restore_here(theirs, names, types, wanted), there.restore(ours, names, types, wanted))


async def test_merged_bundles_have_the_same_files(there, tmp_path):
    with ax.Graph().as_default():
        async with ax.Session() as session:
            for folder in ("ours", "theirs"):
                (tmp_path / folder).mkdir()
                shards = [str(tmp_path / f"{folder}-shard{k}" / "x") for k in range(3)]
                for k, shard in enumerate(shards):
                    place = f"6 {2 * k},2"
                    there.run(
                        "SaveV2", **saving("SaveV2", shard, ["p", f"v{k}"], [[1.0, k], [k]], [place, ""])
                    )
                target = str(tmp_path / folder / "a")
                if folder == "theirs":
                    there.run("MergeV2Checkpoints", checkpoint_prefixes=shards, destination_prefix=target)
                else:
                    await session.run(apply_no_output_op("MergeV2Checkpoints", shards, target))

    assert_same_files(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ours", "theirs"]


@pytest.mark.parametrize(
    ("names", "types", "places"),
    [
        (["zz"], ["float32"], [""]),
        (["w"], ["int32"], [""]),
        (["w"], ["float32"], ["3 2 0,1:-"]),
        (["w"], ["float32"], ["2 2"]),
        (["p"], ["int32"], [""]),
        (["p"], ["int32"], ["8 3 2,2:-"]),
        (["w", "p"], ["float32"], ["", ""]),
    ],
)
async def test_refusals_are_of_one_class_and_say_the_same(there, tmp_path, names, types, places):
    path = str(tmp_path / "a")
    given = saving("SaveV2", path, ["w", "p"], [np.eye(2, dtype=np.float32), GRID[:3]], ["", PARTS[0]])
    there.run("SaveV2", **given)
    with pytest.raises(Exception) as theirs:  # noqa: PT011  (its class is looked at)
        there.restore(path, names, types, places)

    with pytest.raises(OpError) as ours:
        await restore_here(path, names, types, places)

    if isinstance(theirs.value, ValueError):
        assert isinstance(ours.value, ValueError)
    else:
        assert type(ours.value).__name__ == type(theirs.value).__name__
        assert ours.value.message.partition(": ")[2].partition(";")[0].partition("[[")[0] in str(theirs.value)
