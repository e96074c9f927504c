"""Freezing of a graph in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import aioexec as ax
from aioexec.errors import GraphValueError, NotFoundError
from aioexec.formats.proto_files import read_proto
from aioexec.python.freeze_graph import freeze_graph
from aioexec.train.off_loop import off_loop


@pytest.fixture
async def model(tmp_path: Path) -> dict[str, Any]:
    """The arguments that freeze the product of a placeholder and a variable, 3."""
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, name="x")
        with ax.device("/cpu:0"):
            ax.multiply(x, ax.get_variable("v", initializer=1.0), name="y")
        saver = ax.train.Saver()
        async with ax.Session() as session:
            await session.run(ax.assign(ax.global_variables()[0], 3.0))
            checkpoint = await saver.save(session, str(tmp_path / "model"))
    await off_loop(ax.train.write_graph, graph, str(tmp_path), "graph.pbtxt")
    return {
        "input_graph": str(tmp_path / "graph.pbtxt"),
        "input_saver": "",
        "input_binary": False,
        "input_checkpoint": checkpoint,
        "output_node_names": "y",
        "restore_op_name": "save/restore_all",
        "filename_tensor_name": "save/Const:0",
        "output_graph": str(tmp_path / "frozen.pb"),
        "clear_devices": True,
        "initializer_nodes": "",
    }


async def output(path: str) -> Any:
    graph_def = await off_loop(read_proto, path, ax.GraphDef)
    assert not any(node.device or node.op.startswith("Variable") for node in graph_def.node)
    with ax.Graph().as_default() as graph:
        ax.import_graph_def(graph_def, name="")
        async with ax.Session() as session:
            return await session.run("y:0", {graph.get_tensor_by_name("x:0"): 2.0})


async def test_variables_become_constants(model):
    await freeze_graph(**model)

    assert await output(model["output_graph"]) == 6


async def test_the_graph_may_be_in_a_meta_graph(model):
    model |= {"input_graph": None, "input_meta_graph": f"{model['input_checkpoint']}.meta"}

    await freeze_graph(**model)

    assert await output(model["output_graph"]) == 6


async def test_initializers_run_after_the_variables_are_restored(model):
    await freeze_graph(**{**model, "initializer_nodes": "v/Assign"})

    assert await output(model["output_graph"]) == 2


async def test_what_is_missing_is_an_error(model):
    with pytest.raises(GraphValueError, match="supply the name of a node"):
        await freeze_graph(**{**model, "output_node_names": ""})
    with pytest.raises(GraphValueError, match="expected a graph, a MetaGraphDef or a SavedModel"):
        await freeze_graph(**{**model, "input_graph": ""})
    with pytest.raises(NotFoundError):
        await freeze_graph(**{**model, "input_checkpoint": model["input_checkpoint"] + "-1"})
    with pytest.raises(NotFoundError, match="somewhere"):
        await freeze_graph(**model, input_saved_model_dir="somewhere")
