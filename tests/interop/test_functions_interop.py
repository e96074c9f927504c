"""Functions of TensorFlow's graphs have the same results here; ours run there."""

from __future__ import annotations

from typing import Any

import pytest

import aioexec as ax
from aioexec.graph.func_graph import FuncGraph
from aioexec.ops.functions.defun import Defun
from tests.interop import graphs_functions
from tests.interop.building import Builder, values
from tests.interop.comparing import difference, differences, imported, run_here, session_here

pytestmark = pytest.mark.interop

GRAPHS: dict[str, Builder] = {build.__name__: build for build in graphs_functions.GRAPHS}


@pytest.fixture(params=list(GRAPHS))
def recorded(request, recorder) -> Any:
    """Each graph in turn, with what it gave there."""
    return recorder.record(GRAPHS[request.param])


@pytest.mark.parametrize("jit", ["off", "eager"])
async def test_the_results_are_those_of_tensorflow(recorded, jit):
    assert recorded.graph_def.library.function

    assert differences(recorded, await run_here(recorded, jit)) == []


def test_what_was_imported_goes_back_as_it_came(recorded):
    exported = imported(recorded.graph_def).as_graph_def()

    came = {function.signature.name: function for function in recorded.graph_def.library.function}
    assert {function.signature.name: function for function in exported.library.function} == came


async def compare_there(tf: Any, graph: ax.Graph, fetches: list[str], feeds: list[dict[str, Any]]) -> None:
    """Run a graph built here in both, and compare."""
    written = tf.GraphDef.FromString(graph.as_graph_def().SerializeToString())
    async with session_here(graph, "off") as ours:
        here = [await ours.run(fetches, feed) for feed in feeds]

    with tf.Graph().as_default() as theirs:
        tf.import_graph_def(written, name="")
    with tf.Session(graph=theirs) as session:
        there = [session.run(fetches, feed) for feed in feeds]

    for ours_of_run, theirs_of_run in zip(here, there, strict=True):
        assert [difference(*pair, 1) for pair in zip(ours_of_run, theirs_of_run, strict=True)] == [""] * len(
            fetches
        )


async def test_functions_made_here_run_there(tf):
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [2], name="x")
        k = ax.constant([1.0, 2.0])

        @Defun(ax.float32)
        def inner(a):
            return a * k, ax.exp(a)

        @Defun(ax.float32, ax.float32, func_name="outer", out_names=["result"])
        def outer(Argument, b):
            first, second = inner(Argument)
            return first + second * b

        called = outer(x, 2.0, name="called")
        ax.identity(ax.gradients(called, x)[0], name="gradient")

    await compare_there(tf, graph, ["called:0", "gradient:0"], [{"x:0": values(1, 2)}])


async def test_conditionals_and_loops_made_here_run_there(tf):
    def body(name: str, dtypes: list[Any], build: Any) -> None:
        made = FuncGraph(name, graph)
        with made.as_default():
            made.outputs = [ax.convert_to_tensor(each) for each in build(*map(made.add_input, dtypes))]
        graph.add_function(made.as_function())

    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [2], name="x")
        body("twice", [ax.float32], lambda a: [a * 2.0])
        body("less", [ax.float32], lambda a: [a - 1.0])
        body("below", [ax.int32, ax.float32], lambda i, a: [i < 3])
        body("round", [ax.int32, ax.float32], lambda i, a: [i + 1, a * a])
        branches = {"then_branch": "twice", "else_branch": "less", "Tout": [ax.float32]}
        graph.create_op("StatelessIf", [x[0] > 0.0, x], name="if", attrs=branches)
        cases = {"branches": ["twice", "less"], "Tout": [ax.float32]}
        graph.create_op("StatelessCase", [ax.cast(x[1], ax.int32), x], name="case", attrs=cases)
        graph.create_op(
            "StatelessWhile", [ax.constant(0), x], name="while", attrs={"cond": "below", "body": "round"}
        )

    feeds = [{"x:0": values(seed, 2)} for seed in range(3)]
    await compare_there(tf, graph, ["if:0", "case:0", "while:0", "while:1"], feeds)
