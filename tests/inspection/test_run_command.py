"""`aioexec run`: feeds of every form, results printed, as JSON and in NumPy's files."""

import json

import numpy as np
import pytest

import aioexec as ax
from aioexec import cli


@pytest.fixture
def frozen(tmp_path):
    """A GraphDef: y = x * 2 + 1 of float32, and n, the joined strings s."""
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [None, 2], name="x")
        s = ax.placeholder_with_default(ax.constant(["a"]), None, name="s")
        k = ax.placeholder_with_default(3, [], name="k")
        ax.add(x * 2.0, 1.0, name="y")
        ax.string_join([s, s], name="joined")
        ax.identity(k, name="n")
    path = tmp_path / "frozen.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    return path


@pytest.fixture
async def saved(tmp_path):
    """The .meta beside a checkpoint, in which w is [1, 2] and not its initial value."""
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [None, 2], name="x")
        w = ax.get_variable("w", [2], initializer=ax.zeros_initializer())
        ax.identity(x * w, name="y")
        saver = ax.train.Saver()
        async with ax.Session(graph=graph) as session:
            await session.run(w.assign([1.0, 2.0]))
            return f"{await saver.save(session, str(tmp_path / 'model.ckpt'), global_step=7)}.meta"


def run(capsys, *arguments):
    status = cli.main(["run", *map(str, arguments)])
    shown = capsys.readouterr()
    assert (status, shown.err) == (0, "")
    return shown.out


def failure(capsys, *arguments):
    status = cli.main(["run", *map(str, arguments)])
    shown = capsys.readouterr()
    assert (status, shown.out, shown.err.count("\n")) == (1, "", 1)
    return shown.err


def test_values_are_json_and_results_are_printed(frozen, capsys):
    assert run(capsys, frozen, "x=[[1, 2.5]]", "--fetch", "y") == "y: float32 [1, 2]\n[[3. 6.]]\n"


def test_json_has_dtypes_shapes_and_values(frozen, capsys):
    shown = json.loads(
        run(capsys, frozen, "x=[[1, 2]]", 's=["é", "b"]', "--fetch", "y", "joined", "n", "--json")
    )

    assert shown == {
        "y": {"dtype": "float32", "shape": [1, 2], "values": [[3.0, 5.0]]},
        "joined": {"dtype": "string", "shape": [2], "values": ["éé", "bb"]},
        "n": {"dtype": "int32", "shape": [], "values": 3},
    }


def test_arrays_come_from_files_and_go_into_files(frozen, tmp_path, capsys):
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "all.npz", x=x, k=np.int64(5))

    run(capsys, frozen, f"x={tmp_path}/x.npy", "--fetch", "y", "-o", tmp_path / "y.npy")
    run(capsys, frozen, f"{tmp_path}/all.npz", "--fetch", "y", "joined", "n", "-o", tmp_path / "out.npz")
    one = run(capsys, frozen, f"k={tmp_path}/all.npz:k", "--fetch", "n")

    expected = (x * 2 + 1).astype(np.float32)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)
    with np.load(tmp_path / "out.npz") as written:
        np.testing.assert_array_equal(written["y"], expected)
        assert written["joined"].tolist() == [b"aa"]
        assert written["n"].item() == 5
    assert one == "n: int32 []\n5\n"


def test_without_fetches_all_results_are_computed(frozen, capsys):
    assert set(json.loads(run(capsys, frozen, "x=[[1, 2]]", "--json"))) == {"y:0", "joined:0", "n:0"}


def test_a_text_that_is_no_json_feeds_a_string(frozen, capsys):
    assert json.loads(run(capsys, frozen, "s=[1", "--fetch", "joined:0", "--json"))["joined:0"]["values"] == (
        "[1[1"
    )


def test_variables_come_from_the_checkpoint_beside_the_graph(saved, capsys):
    shown = json.loads(run(capsys, saved, "x=[[1, 1]]", "--fetch", "y", "--json"))

    assert shown["y"]["values"] == [[1.0, 2.0]]


def test_a_saved_model_has_inputs_and_outputs_by_name(tmp_path, capsys, saved_model):
    shown = json.loads(run(capsys, saved_model, "a=[1, 2]", "--json"))

    assert shown == {"doubled": {"dtype": "float32", "shape": [2], "values": [2.0, 4.0]}}
    assert "the signature needs a as well" in failure(capsys, saved_model)
    assert "no signature 'other'" in failure(capsys, saved_model, "a=[1]", "--signature", "other")


@pytest.fixture
def saved_model(tmp_path):
    """A SavedModel whose default signature doubles."""
    from aioexec.formats.protos import SavedModel

    message = SavedModel(saved_model_schema_version=1)
    meta_graph = message.meta_graphs.add()
    meta_graph.meta_info_def.tags.append("serve")
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [None], name="x")
        ax.multiply(x, 2.0, name="y")
    meta_graph.graph_def.CopyFrom(graph.as_graph_def())
    signature = meta_graph.signature_def["serving_default"]
    signature.inputs["a"].name, signature.outputs["doubled"].name = "x:0", "y:0"
    (tmp_path / "saved_model.pb").write_bytes(message.SerializeToString())
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x=[[1, 2]"], "x: expected JSON, such as [[1, 2]], or a .npy file, got '[[1, 2]'"),
        (["x=[[1], [2, 3]]"], "x: expected values of float32: "),
        (["k=1.5"], "k: expected values of int32: float64 does not fit"),
        (["s=[1]"], "s: expected values of string: got [1]"),
        (["z=1"], "the graph has no 'z'"),
        (["x"], "expected NAME=VALUE, NAME=FILE.npy, NAME=FILE.npz:KEY or FILE.npz, got 'x'"),
        (["x=gone.npy"], "gone.npy: no such file"),
        (["x=[[1, 2]]", "--fetch", "y", "n", "-o", "y.npy"], "y.npy: expected a file .npz for 2 results"),
        (["x=[[1, 2]]", "--fetch", "nothing"], "the graph has no 'nothing'"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(frozen, capsys, arguments, message):
    assert message in failure(capsys, frozen, *arguments)


def test_a_damaged_file_is_named(frozen, tmp_path, capsys):
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY no")

    assert "x.npy: no array in NumPy's format" in failure(capsys, frozen, f"x={tmp_path}/x.npy")


def test_a_model_that_is_not_there_is_named(tmp_path, capsys):
    assert "NotFoundError: " in failure(capsys, tmp_path / "gone.pb")
