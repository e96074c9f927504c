"""Graphs whose variables become constants, written to one file and loaded from it; graphs beside checkpoints."""

import os
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import DataLossError, InvalidArgumentError, NotFoundError
from aioexec.python import freeze_graph
from tests.saved_model.writing import NUMBERS, WORDS, X, Y, signatures_in_default_graph, write_model

freeze = freeze_graph.freeze_graph


@pytest.fixture
async def checkpoint(tmp_path):
    """The path of a checkpoint of the model, with its graph in three forms beside it."""
    vocabulary = tmp_path / "vocabulary.txt"
    vocabulary.write_text("a\nb\nc\n")
    prefix = str(tmp_path / "model.ckpt")
    with ax.Graph().as_default() as graph:
        signatures_in_default_graph(str(vocabulary))
        saver = ax.train.Saver()
        async with ax.Session(graph=graph) as session:
            await session.run(ax.global_variables_initializer())
            await saver.save(session, prefix, global_step=3)
            (tmp_path / "graph.pb").write_bytes(graph.as_graph_def().SerializeToString())
            (tmp_path / "saver.pb").write_bytes(saver.as_saver_def().SerializeToString())
    return f"{prefix}-3"


async def frozen(checkpoint: str, **arguments: Any) -> str:
    """Freeze the model; returns the path."""
    path = os.path.join(os.path.dirname(checkpoint), "frozen.pb")
    given: dict[str, Any] = {
        "input_graph": None,
        "input_saver": None,
        "input_binary": True,
        "input_checkpoint": checkpoint,
        "output_node_names": "y",
        "restore_op_name": None,
        "filename_tensor_name": None,
        "output_graph": path,
        "clear_devices": True,
        "initializer_nodes": "",
    }
    await freeze(**{**given, **arguments})
    return path


@pytest.mark.parametrize(
    "source",
    [
        {"input_graph": "graph.pb"},
        {"input_graph": "graph.pb", "input_saver": "saver.pb"},
        {"input_meta_graph": "model.ckpt-3.meta"},
        {"input_saved_model_dir": "1", "input_checkpoint": None},
    ],
)
async def test_a_graph_is_frozen_from_each_form_and_loaded(tmp_path, checkpoint, source):
    if "input_saved_model_dir" in source:
        await write_model(tmp_path / "1")
    named = {key: None if name is None else str(tmp_path / name) for key, name in source.items()}

    async with await ax.load(await frozen(checkpoint, **named)) as model:
        assert not {op.type for op in model.graph.get_operations()} & {"VariableV2", "VarHandleOp"}
        (signature,) = model.signatures.values()
        found = await model(x=X)

    assert (list(signature.inputs), list(signature.outputs)) == (["x"], ["y"])
    np.testing.assert_array_equal(found["y"], Y)


async def test_some_variables_may_be_left(tmp_path, checkpoint):
    graph_def = await freeze_graph.freeze_graph_with_def_protos(
        ax.GraphDef.FromString((tmp_path / "graph.pb").read_bytes()),
        *(None, checkpoint, "y", None, None, None, False, None),
        variable_names_blacklist="b",
    )

    ops = {node.name: node.op for node in graph_def.node}
    assert (ops["w"], ops["b"]) == ("Const", "VarHandleOp")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"input_checkpoint": "/none"}, NotFoundError, "Input checkpoint '/none' doesn't exist"),
        ({"output_node_names": ""}, InvalidArgumentError, "supply the name of a node to output_node_names"),
        ({}, InvalidArgumentError, "expected a graph, a MetaGraphDef or a SavedModel"),
        ({"input_graph": "/none"}, NotFoundError, "/none"),
    ],
)
async def test_what_is_missing_is_an_error(checkpoint, arguments, error, message):
    with pytest.raises(error, match=message):
        await frozen(checkpoint, **arguments)


@pytest.mark.parametrize("name", ["", "model.ckpt-3", "model.ckpt-3.meta"])
async def test_a_graph_beside_a_checkpoint_is_loaded_with_its_tables(tmp_path, checkpoint, name):
    async with await ax.load(
        tmp_path / name,
        inputs={"x": "x:0", "word": "word"},
        outputs={"y": "y", "number": "number:0"},
    ) as model:
        found = await model.signature().run({"x": X, "word": WORDS})

    np.testing.assert_array_equal(found["y"], Y)
    assert found["number"].tolist() == NUMBERS


async def test_a_training_graph_has_no_signature_by_itself(tmp_path, checkpoint):
    async with await ax.load(checkpoint) as model:
        assert model.signatures == {}
        with pytest.raises(NotFoundError, match=r"no signature 'serving_default', only \[\]"):
            await model(x=X)


async def test_a_graph_without_its_checkpoint_is_an_error(tmp_path, checkpoint):
    os.unlink(f"{checkpoint}.index")

    with pytest.raises(NotFoundError, match="expected a checkpoint with the variables"):
        await ax.load(checkpoint)


@pytest.mark.parametrize("data", [b"", b"<html>", b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x02\x0a\x00"])
async def test_a_file_with_another_content_is_an_error(tmp_path, data):
    (tmp_path / "graph.pb").write_bytes(data)

    with pytest.raises(DataLossError, match=r"graph\.pb"):
        await ax.load(tmp_path / "graph.pb")


@pytest.mark.parametrize("which", ["inputs", "outputs"])
async def test_a_name_that_the_graph_lacks_is_an_error(tmp_path, checkpoint, which):
    names: dict[str, Any] = {which: ["nothing"]}

    with pytest.raises(
        InvalidArgumentError, match="'nothing': expected a tensor of the graph, got 'nothing:0'"
    ):
        await ax.load(tmp_path / "graph.pb", **names)
