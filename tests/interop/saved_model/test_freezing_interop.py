"""Frozen graphs of TensorFlow are loaded here, and ours there; a MetaGraph with a checkpoint of TensorFlow too."""

import asyncio

import numpy as np
import pytest

import aioexec as ax
from aioexec.python import freeze_graph
from tests.saved_model.writing import B, W, X, Y, write_model

pytestmark = pytest.mark.interop


@pytest.fixture
def trained(tf, tmp_path):
    """The path of a checkpoint with its graph that TensorFlow wrote, and a graph it froze."""
    with tf.Graph().as_default() as graph, tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 3], "x")
        w = tf.get_variable("w", initializer=W, use_resource=False)
        b = tf.get_variable("b", initializer=B, use_resource=True)
        tf.add(tf.matmul(x, w), b, name="y")
        session.run(tf.global_variables_initializer())
        prefix = tf.train.Saver().save(session, str(tmp_path / "model.ckpt"))
        frozen = tf.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["y"])
    (tmp_path / "frozen.pb").write_bytes(frozen.SerializeToString())
    return prefix, tmp_path / "frozen.pb"


async def test_a_graph_that_tensorflow_froze_is_loaded(trained):
    async with await ax.load(trained[1]) as model:
        found = await model(x=X)

    np.testing.assert_array_equal(found["y"], Y)


async def test_a_checkpoint_with_the_graph_of_tensorflow_is_loaded(trained):
    async with await ax.load(trained[0], inputs=["x"], outputs=["y"]) as model:
        found = await model(x=X)

    np.testing.assert_array_equal(found["y"], Y)


def test_a_graph_that_was_frozen_here_runs_in_tensorflow(tf, tmp_path):
    async def freeze() -> None:
        await write_model(tmp_path / "1")
        await freeze_graph.freeze_graph(
            *(None, None, True, None, "y", None, None, str(tmp_path / "frozen.pb"), True, ""),
            input_saved_model_dir=str(tmp_path / "1"),
        )

    asyncio.run(freeze())
    with tf.Graph().as_default(), tf.Session() as session:
        graph_def = tf.GraphDef.FromString((tmp_path / "frozen.pb").read_bytes())
        (y,) = tf.import_graph_def(graph_def, return_elements=["y:0"], name="")
        found = session.run(y, {"x:0": X})

    np.testing.assert_array_equal(found, Y)
    assert not {node.op for node in graph_def.node} & {"VariableV2", "VarHandleOp"}
