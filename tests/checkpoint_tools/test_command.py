"""`aioexec checkpoint`: lists, compares, averages and converts checkpoints."""

import json
import tracemalloc

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from aioexec import cli
from aioexec.dtypes import as_dtype
from aioexec.formats.bundle_reader import BundleReader
from aioexec.formats.bundle_writer import BundleWriter

VALUES = {
    "half": np.array([1.0, 2.0], ml_dtypes.bfloat16),
    "names": np.array([b"a", b"bc"], object),
    "step": np.array(100, np.int64),
    "w": np.array([[1.0, 2.0, 4.0]], np.float32),
}


def write(prefix, values):
    with BundleWriter(str(prefix)) as writer:
        for name, value in sorted(values.items()):
            writer.add(name, value, as_dtype("string" if value.dtype == object else value.dtype))
        writer.finish()
    return str(prefix)


def read(prefix):
    with BundleReader(str(prefix)) as reader:
        return {name: reader.read(name, dtype) for name, dtype, _ in reader.tensors()}


@pytest.fixture
def first(tmp_path):
    return write(tmp_path / "model.ckpt-1", VALUES)


def checkpoint(capsys, *arguments, status=0):
    found = cli.main(["checkpoint", *map(str, arguments)])
    shown = capsys.readouterr()
    assert (found, shown.err) == (status, "")
    return shown.out


def failure(capsys, *arguments):
    status = cli.main(["checkpoint", *map(str, arguments)])
    shown = capsys.readouterr()
    assert (status, shown.out, shown.err.count("\n")) == (1, "", 1)
    return shown.err


def test_ls_shows_names_dtypes_shapes_and_sizes(first, capsys):
    lines = [line.split() for line in checkpoint(capsys, "ls", first).splitlines()]

    assert lines[0] == ["name", "dtype", "shape", "parameters", "size"]
    assert lines[1:5] == [
        ["half", "bfloat16", "[2]", "2", "4", "bytes"],
        ["names", "string", "[2]", "2"],
        ["step", "int64", "[]", "1", "8", "bytes"],
        ["w", "float32", "[1,", "3]", "3", "12", "bytes"],
    ]
    assert lines[5][1:] == ["4", "tensors,", "8", "parameters,", "24", "bytes"]


@pytest.mark.parametrize("suffix", ["", ".index", ".data-00000-of-00001"])
def test_ls_takes_any_file_of_a_checkpoint(first, capsys, suffix):
    found = json.loads(checkpoint(capsys, "ls", first + suffix, "--json"))

    assert (found["checkpoint"], found["parameters"], found["bytes"]) == (first, 8, 24)
    assert found["tensors"][3] == {
        "name": "w",
        "dtype": "float32",
        "shape": [1, 3],
        "parameters": 3,
        "bytes": 12,
    }


def test_ls_takes_a_folder_for_its_latest_checkpoint(first, tmp_path, capsys):
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-1"\n')

    assert json.loads(checkpoint(capsys, "ls", tmp_path, "--json"))["checkpoint"] == first


def test_diff_of_equal_checkpoints_has_status_0(first, capsys):
    assert checkpoint(capsys, "diff", first, first) == "4 tensors are equal\n"


def test_diff_shows_what_differs(first, tmp_path, capsys):
    changed = {
        "half": np.array([1.0, 2.5], ml_dtypes.bfloat16),
        "names": np.array([b"a", b"bd"], object),
        "step": np.array(100, np.int32),
        "w": np.array([[1.0, float("nan"), 4.25]], np.float32),
        "new": np.array(1.0),
    }
    second = write(tmp_path / "model.ckpt-2", changed)

    shown = checkpoint(capsys, "diff", first, second, status=1)
    found = json.loads(checkpoint(capsys, "diff", first, second, "--json", status=1))

    assert f"only in {second}: new" in shown
    assert "step: int64 [] is int32 []" in shown
    assert found["only_first"] == []
    assert found["only_second"] == ["new"]
    assert found["changed"] == {"step": ["int64 []", "int32 []"]}
    assert found["different"] == [
        {"name": "half", "elements": 2, "different": 1, "largest": 0.5},
        {"name": "names", "elements": 2, "different": 1, "largest": None},
        {"name": "w", "elements": 3, "different": 2, "largest": "NaN"},
    ]


def test_diff_counts_neighbouring_large_integers_and_not_nans_or_signs_of_zeros(tmp_path, capsys):
    one = write(tmp_path / "one", {"n": np.array([2**62]), "x": np.array([np.nan, 0.0])})
    other = write(tmp_path / "other", {"n": np.array([2**62 + 1]), "x": np.array([np.nan, -0.0])})

    found = json.loads(checkpoint(capsys, "diff", one, other, "--json", status=1))

    assert [each["name"] for each in found["different"]] == ["n"]
    assert found["equal"] == 1


def test_average_is_the_mean_of_floats_and_the_last_of_others(first, tmp_path, capsys):
    second = write(
        tmp_path / "model.ckpt-2",
        {**VALUES, "w": np.array([[2.0, 4.0, 4.0]], np.float32), "step": np.array(200, np.int64)},
    )

    shown = json.loads(checkpoint(capsys, "average", first, second, "-o", tmp_path / "mean.ckpt", "--json"))

    found = read(tmp_path / "mean.ckpt")
    assert shown == {"output": str(tmp_path / "mean.ckpt"), "tensors": 4, "left_out": []}
    np.testing.assert_array_equal(found["w"], np.array([[1.5, 3.0, 4.0]], np.float32))
    np.testing.assert_array_equal(found["half"], VALUES["half"])
    assert found["w"].dtype == np.float32
    assert (found["step"].item(), found["names"].tolist()) == (200, [b"a", b"bc"])


def test_average_refuses_checkpoints_of_other_tensors(first, tmp_path, capsys):
    fewer = write(tmp_path / "fewer", {"w": VALUES["w"]})
    other = write(tmp_path / "other", {**VALUES, "w": np.zeros(3, np.float32)})

    assert "'half' is in one of them only" in failure(capsys, "average", first, fewer, "-o", tmp_path / "m")
    assert "have 'w' in two dtypes" in failure(capsys, "average", first, other, "-o", tmp_path / "m")
    assert not list(tmp_path.glob("m.*"))


def test_safetensors_and_back_without_strings(first, tmp_path, capsys):
    file = tmp_path / "model.safetensors"

    shown = checkpoint(capsys, "to-safetensors", first, "-o", file)
    checkpoint(capsys, "from-safetensors", file, "-o", tmp_path / "back.ckpt")

    expected = {name: value for name, value in VALUES.items() if name != "names"}
    back = read(tmp_path / "back.ckpt")
    assert "left out, as safetensors has no string: names" in shown
    assert back.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(back[name], value)
    found = json.loads(checkpoint(capsys, "diff", first, file, "--json", status=1))
    assert (found["only_first"], found["equal"], found["different"]) == (["names"], 3, [])


def test_a_file_of_the_library_becomes_a_checkpoint_whatever_its_name(tmp_path, capsys):
    safetensors.numpy.save_file({"w": VALUES["w"]}, tmp_path / "weights")

    checkpoint(capsys, "from-safetensors", tmp_path / "weights", "-o", tmp_path / "model.ckpt")

    np.testing.assert_array_equal(read(tmp_path / "model.ckpt")["w"], VALUES["w"])


def test_memory_is_bounded_by_the_largest_tensor(tmp_path, capsys):
    megabyte = 1 << 20
    source = write(tmp_path / "large", {f"v{k}": np.zeros(megabyte // 4, np.float32) for k in range(32)})

    tracemalloc.start()
    try:
        checkpoint(capsys, "to-safetensors", source, "-o", tmp_path / "x.safetensors")
        checkpoint(capsys, "from-safetensors", tmp_path / "x.safetensors", "-o", tmp_path / "y")
        checkpoint(capsys, "average", source, tmp_path / "y", "-o", tmp_path / "z")
        checkpoint(capsys, "diff", source, tmp_path / "z")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 12 * megabyte


@pytest.mark.parametrize("arguments", [["ls", "gone"], ["diff", "gone", "gone"], ["ls", "gone.safetensors"]])
def test_a_checkpoint_that_is_not_there_is_named_in_a_line(capsys, arguments):
    assert "gone" in failure(capsys, *arguments)


def test_without_a_subcommand_usage_is_shown(capsys):
    with pytest.raises(SystemExit) as left:
        cli.main(["checkpoint"])

    assert left.value.code == 2
    assert "SUBCOMMAND" in capsys.readouterr().err
