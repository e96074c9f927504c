"""Graphs built by TensorFlow yield the same results here, by NumPy kernels and by native programs."""

import pytest

from aioexec.formats.protos import GraphDef, NodeDef
from aioexec.formats.tensor_codec import decode_tensor, encode_tensor
from tests.interop import (
    graphs_forward,
    graphs_frozen,
    graphs_gradients,
    graphs_recognized,
    graphs_reference,
    graphs_training,
)
from tests.interop.building import Builder
from tests.interop.comparing import Recorded, Recorder, differences, imported, run_here

pytestmark = pytest.mark.interop

MODULES = (
    graphs_forward,
    graphs_frozen,
    graphs_gradients,
    graphs_recognized,
    graphs_training,
    graphs_reference,
)
GRAPHS: dict[str, Builder] = {
    f"{module.__name__.rpartition('_')[2]}-{build.__name__}": build
    for module in MODULES
    for build in module.GRAPHS
}


@pytest.fixture(params=list(GRAPHS))
def recorded(request, recorder: Recorder) -> Recorded:
    """Each graph in turn."""
    return recorder.record(GRAPHS[request.param])


@pytest.mark.parametrize("jit", ["off", "eager"])
async def test_the_results_are_those_of_tensorflow(recorded, jit):
    assert differences(recorded, await run_here(recorded, jit)) == []


def test_what_is_imported_is_exported_as_it_was(recorded):
    exported = imported(recorded.graph_def).as_graph_def()

    ours, theirs = plain_nodes(exported), plain_nodes(recorded.graph_def)
    assert ours.keys() == theirs.keys()
    for name, node in theirs.items():
        assert ours[name] == node


def plain_nodes(graph_def: GraphDef) -> dict[str, NodeDef]:
    """Nodes by name; constants in one form, and without TensorFlow 2's additional attributes."""
    nodes = {}
    for held in graph_def.node:
        node = NodeDef(name=held.name, op=held.op, input=held.input, device=held.device, attr=held.attr)
        if node.op == "Const":
            value = decode_tensor(node.attr["value"].tensor)
            node.attr["value"].tensor.CopyFrom(encode_tensor(value))
        nodes[node.name] = node
    return nodes


def has_gradient_of_product(recorded: Recorded) -> bool:
    """Whether a product or convolution was made for the gradient of another."""
    of_product = (
        node.op.startswith("Conv2DBackprop")
        or (node.op in ("MatMul", "BatchMatMulV2") and "_grad" in node.name)
        for node in recorded.graph_def.node
    )
    return any(of_product)


def test_there_are_as_many_graphs_of_each_kind_as_claimed(recorder):
    everything = [recorder.record(build) for build in GRAPHS.values()]

    assert len(everything) >= 60
    assert sum(len(each.graph_def.node) > 30 for each in everything) >= 20
    assert sum(has_gradient_of_product(each) for each in everything) >= 20
    assert sum(each.train is not None and len(each.results) == 20 for each in everything) >= 10
    assert sum("VariableV2" in each.op_types for each in everything) >= 10


def test_training_in_tensorflow_changes_the_loss_so_that_the_comparison_means_something(recorder):
    for name, build in GRAPHS.items():
        recorded = recorder.record(build)
        if recorded.train is not None:
            losses = [float(values[0]) for values in recorded.results]
            assert len(set(losses)) > 15, name
