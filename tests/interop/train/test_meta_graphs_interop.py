"""Meta graphs from TensorFlow to here and back: imported programs continue as in their origin, and are exported alike."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.formats import protos
from aioexec.graph.io.proto_functions import get_collection_proto_type
from aioexec.train.checkpoints.meta_graph_import import import_scoped_meta_graph
from aioexec.train.checkpoints.meta_graphs import export_scoped_meta_graph
from aioexec.train.off_loop import off_loop
from tests.interop.train.handed_over import (
    PROGRAMS,
    STEPS,
    Here,
    There,
    as_in_first_versions,
    names_in_collections,
)

pytestmark = pytest.mark.interop

CASES = [(name, scope) for name in sorted(PROGRAMS) for scope in (None, "inside/of")]


async def handed_over(giver: Any, taker: Any, program: str, scope: str | None, folder: Path) -> None:
    """Train in one engine, save; go on in both; compare losses, collections, and what is exported then."""
    path = str(folder / "model")
    graph = giver.built(PROGRAMS[program])
    before = await giver.trained(graph, STEPS[:2], saved=path)
    expected = await giver.trained(graph, STEPS[2:], restored=path)

    there = await off_loop(taker.imported, f"{path}.meta", scope)
    losses = await taker.trained(there, STEPS[2:], restored=path)

    assert len(set(map(float, [*before, *expected]))) == len(STEPS)  # it learns
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    again = await off_loop(giver.imported, f"{path}.meta", scope)
    assert names_in_collections(there) == names_in_collections(again)
    assert described(taker.exported(there)) == described(giver.exported(again))


def described(meta_graph: bytes) -> dict[str, list[Any]]:
    """The messages in the collections of a meta graph."""
    parsed = protos.MetaGraphDef.FromString(meta_graph)
    found = {}
    for key, items in parsed.collection_def.items():
        kind = get_collection_proto_type(key)
        values = getattr(items, items.WhichOneof("kind")).value
        found[key] = [kind.FromString(value) for value in values] if kind else list(values)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("program", "scope"), CASES)
async def test_what_tensorflow_trained_trains_on_here(
    tf: Any, program: str, scope: str | None, tmp_path: Path
) -> None:
    await handed_over(There(tf), Here(), program, scope, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("program", "scope"), CASES)
async def test_what_was_trained_here_trains_on_in_tensorflow(
    tf: Any, program: str, scope: str | None, tmp_path: Path
) -> None:
    await handed_over(Here(), There(tf), program, scope, tmp_path)


# Parts of graphs


def build_two_layers(m: Any) -> None:
    """A layer that takes its input from another, with a loop in it.

    Nothing in it waits for something outside: TensorFlow exports such inputs, and refuses to have them bound.
    """
    with m.name_scope("first"):
        x = m.placeholder(m.float32, [2], name="x")
    with m.variable_scope("second"):
        weights = m.get_variable("weights", initializer=m.constant([2.0, 3.0]))
        y = m.multiply(x, weights, name="y")
        total = m.while_loop(lambda i, z: i < 3, lambda i, z: [i + 1, z + y], [0, y], name="loop")[1]
        m.add_to_collection("totals", m.identity(total, name="total"))


UNBOUND = ["$unbound_inputs_first/x"]


def part(tf: Any, engine: str) -> bytes:
    """The second layer, exported without its scope."""
    if engine == "tensorflow":
        with tf.Graph().as_default(), as_in_first_versions(tf):
            build_two_layers(tf)
            exported, _ = importlib.import_module(META_GRAPH).export_scoped_meta_graph(export_scope="second")
    else:
        with ax.Graph().as_default():
            build_two_layers(ax)
            exported, _ = export_scoped_meta_graph(export_scope="second")
    return bytes(exported.SerializeToString())


META_GRAPH = "tensorflow.python.framework.meta_graph"


@pytest.mark.parametrize("engine", ["tensorflow", "here"])
async def test_a_part_of_a_graph_goes_into_a_graph_of_the_other_engine(tf: Any, engine: str) -> None:
    exported = part(tf, engine)
    names = sorted(name.decode() for name in described(exported)["unbound_inputs"])

    with tf.Graph().as_default():
        x = tf.constant([10.0, 100.0])
        module = importlib.import_module(META_GRAPH)
        variables = module.import_scoped_meta_graph(
            tf.MetaGraphDef.FromString(exported), import_scope="in", input_map=dict.fromkeys(UNBOUND, x)
        )
        with tf.Session() as session:
            session.run(variables["weights:0"].initializer)
            theirs = session.run(tf.get_collection("totals"))
    with ax.Graph().as_default() as graph:
        x = ax.constant([10.0, 100.0])
        meta_graph = protos.MetaGraphDef.FromString(exported)
        variables = import_scoped_meta_graph(
            meta_graph, import_scope="in", input_map=dict.fromkeys(UNBOUND, x)
        )
        async with ax.Session(graph=graph) as session:
            await session.run(variables["weights:0"].initializer)
            ours = await session.run(graph.get_collection("totals"))

    assert names == UNBOUND
    np.testing.assert_array_equal(ours, [[80, 1200]])
    np.testing.assert_array_equal(theirs, ours)


def test_a_part_of_a_graph_is_described_as_tensorflow_describes_it(tf: Any) -> None:
    ours, theirs = described(part(tf, "here")), described(part(tf, "tensorflow"))

    assert ours == theirs


@pytest.mark.parametrize("strip", [False, True])
def test_tensorflow_knows_the_ops_that_a_meta_graph_lists(tf: Any, strip: bool) -> None:
    """Definitions agree in what readers go by: which arguments and attributes there are, and their defaults."""
    registry = importlib.import_module("tensorflow.python.framework.op_def_registry")
    exported = ax.train.export_meta_graph(graph=Here().built(PROGRAMS["averages"]), strip_default_attrs=strip)

    for op in exported.meta_info_def.stripped_op_list.op:
        theirs = protos.OpDef.FromString(registry.get(op.name).SerializeToString())
        assert [arg.name for arg in op.input_arg] == [arg.name for arg in theirs.input_arg]
        assert [arg.name for arg in op.output_arg] == [arg.name for arg in theirs.output_arg]
        assert [(each.name, each.type, each.default_value) for each in op.attr] == [
            (each.name, each.type, each.default_value) for each in theirs.attr
        ]
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(tf.MetaGraphDef.FromString(exported.SerializeToString()))
    assert graph.get_collection("loss")
