"""`aioexec inspect` shows inputs, outputs, ops and sizes of every kind of file."""

import json

import pytest

import aioexec as ax
from aioexec import cli
from aioexec.formats.protos import DataType, GraphDef, SavedModel


@pytest.fixture
def graph_def():
    """y = x @ w + b, with a variable w and a constant b."""
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [None, 3], name="x")
        w = ax.get_variable("w", [3, 4], use_resource=True)
        ax.add(ax.matmul(x, w), ax.constant([1.0, 2.0, 3.0, 4.0], name="b"), name="y")
    return graph.as_graph_def()


def inspect(capsys, *arguments):
    status = cli.main(["inspect", *map(str, arguments)])
    shown = capsys.readouterr()
    assert (status, shown.err) == (0, "")
    return shown.out


def inspected(capsys, path):
    return json.loads(inspect(capsys, path, "--json"))


def test_a_graph_has_inputs_outputs_ops_and_parameters(graph_def, tmp_path, capsys):
    (tmp_path / "graph.pb").write_bytes(graph_def.SerializeToString())

    found = inspected(capsys, tmp_path / "graph.pb")

    (graph,) = found["graphs"]
    assert found["kind"] == "GraphDef"
    assert graph["inputs"] == [{"key": "x", "tensor": "x:0", "dtype": "float32", "shape": [None, 3]}]
    assert [each["tensor"] for each in graph["outputs"] if each["key"] == "y"] == ["y:0"]
    assert graph["variables"] == [
        {"name": "w", "kind": "variable", "dtype": "float32", "shape": [3, 4], "parameters": 12, "bytes": 48}
    ]
    assert [each for each in graph["constants"] if each["name"] == "b"] == [
        {"name": "b", "kind": "constant", "dtype": "float32", "shape": [4], "parameters": 4, "bytes": 16}
    ]
    assert graph["ops"]["MatMul"] == 1
    assert graph["nodes"] == len(graph_def.node)
    assert graph["unsupported"] == []


def test_a_graph_is_shown_as_tables(graph_def, tmp_path, capsys):
    (tmp_path / "graph.pb").write_bytes(graph_def.SerializeToString())

    rows = [line.split() for line in inspect(capsys, tmp_path / "graph.pb").splitlines()]

    assert ["input", "x", "x:0", "float32", "[?,", "3]"] in rows
    assert ["MatMul", "1"] in rows
    assert ["w", "variable", "float32", "[3,", "4]", "12", "48", "bytes"] in rows


def test_ops_that_are_not_known_are_named(tmp_path, capsys):
    message = GraphDef()
    message.node.add(name="a", op="FrobnicateV7")
    message.node.add(name="b", op="function")
    message.library.function.add().signature.name = "function"
    message.library.function[0].node_def.add(name="c", op="Quux")
    (tmp_path / "graph.pb").write_bytes(message.SerializeToString())

    assert inspected(capsys, tmp_path / "graph.pb")["graphs"][0]["unsupported"] == ["FrobnicateV7", "Quux"]
    assert "ops that aioexec lacks: FrobnicateV7, Quux" in inspect(capsys, tmp_path / "graph.pb")


def test_a_saved_model_has_signatures(graph_def, tmp_path, capsys):
    message = SavedModel(saved_model_schema_version=1)
    meta_graph = message.meta_graphs.add()
    meta_graph.meta_info_def.tags.append("serve")
    meta_graph.graph_def.CopyFrom(graph_def)
    signature = meta_graph.signature_def["serving_default"]
    signature.method_name = "tensorflow/serving/predict"
    signature.inputs["images"].name = "x:0"
    signature.inputs["images"].dtype = DataType.DT_FLOAT
    signature.outputs["scores"].name = "y:0"
    signature.outputs["scores"].tensor_shape.unknown_rank = True
    (tmp_path / "saved_model.pb").write_bytes(message.SerializeToString())

    for path in (tmp_path, tmp_path / "saved_model.pb"):
        found = inspected(capsys, path)
        (graph,) = found["graphs"]
        assert (found["kind"], graph["tags"]) == ("SavedModel", ["serve"])
        assert graph["signatures"] == {
            "serving_default": {
                "method": "tensorflow/serving/predict",
                "inputs": [{"key": "images", "tensor": "x:0", "dtype": "float32", "shape": []}],
                "outputs": [{"key": "scores", "tensor": "y:0", "dtype": "unknown", "shape": None}],
            }
        }
    assert "signature serving_default (tensorflow/serving/predict)" in inspect(capsys, tmp_path)


async def saved(folder):
    with ax.Graph().as_default() as graph:
        ax.get_variable("w", [2], initializer=ax.zeros_initializer())
        initialize, saver = ax.global_variables_initializer(), ax.train.Saver()
        async with ax.Session(graph=graph) as session:
            await session.run(initialize)
            return str(await saver.save(session, str(folder / "model.ckpt")))


@pytest.fixture
async def checkpoint(tmp_path):
    return await saved(tmp_path)


@pytest.mark.parametrize("suffix", ["", ".index"])
def test_a_checkpoint_is_listed(checkpoint, capsys, suffix):
    found = inspected(capsys, checkpoint + suffix)

    assert [(each["name"], each["shape"]) for each in found["tensors"]] == [("w", [2])]


def test_a_meta_graph_has_its_variables(checkpoint, capsys):
    found = inspected(capsys, f"{checkpoint}.meta")

    assert found["kind"] == "MetaGraphDef"
    assert [each["name"] for each in found["graphs"][0]["variables"]] == ["w"]


def test_a_folder_means_its_latest_checkpoint(checkpoint, tmp_path, capsys):
    assert inspected(capsys, tmp_path)["checkpoint"] == checkpoint


@pytest.mark.parametrize(("name", "content"), [("gone", None), ("text.pb", b"not a graph"), ("empty", b"")])
def test_what_is_no_model_is_said_in_a_line(tmp_path, capsys, name, content):
    if content is not None:
        (tmp_path / name).write_bytes(content)

    status = cli.main(["inspect", str(tmp_path / name)])

    shown = capsys.readouterr()
    assert (status, shown.out, shown.err.count("\n")) == (1, "", 1)
    assert name in shown.err
