"""Cost models: the steps that feed them, their costs, and their export."""

from __future__ import annotations

import pytest

from aioexec.formats.protos import CostGraphDef, GraphDef
from aioexec.observability.cost_model import CostModel, CostModelManager, is_measured
from aioexec.observability.step_stats import NodeRecord, OutputRecord

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


def record(name: str, spent: int, *shapes: tuple[int, ...]) -> NodeRecord:
    outputs = [OutputRecord(slot, "float32", shape, 4 * shape[0]) for slot, shape in enumerate(shapes)]
    return NodeRecord(CPU, name, "Op", 0, 1000, 1000 + spent, 1, tuple(outputs), ())


@pytest.mark.parametrize(
    ("every", "after", "measured"),
    [
        (0, 0, []),
        (1, 0, [0, 1, 2, 3, 4, 5, 6, 7]),
        (3, 0, [2, 5]),
        (1, 5, [5, 6, 7]),
        (2, 3, [4, 6]),
        (9, 0, []),
    ],
)
def test_the_last_of_each_so_many_steps_is_measured_after_those_left_out(
    every: int, after: int, measured: list[int]
):
    assert [step for step in range(8) if is_measured(step, every, after)] == measured


def test_a_model_keeps_the_mean_and_least_time_and_the_most_memory_of_each_node():
    model = CostModel()

    model.record_step([record("a", 4_000, (2,)), record("b", 100)])
    model.record_step([record("a", 1_000, (8,)), record("b", 300)])
    model.record_step([record("a", 7_000, (4,))])

    a, b = model.nodes["a"], model.nodes["b"]
    assert (model.steps, a.count, a.mean, a.least, a.nbytes) == (3, 3, 4_000, 1_000, 32)
    assert (b.count, b.mean, b.least, b.nbytes) == (2, 200, 100, 0)


def test_a_node_in_a_loop_counts_each_time_it_ran():
    model = CostModel()

    model.record_step([record("a", 10), record("a", 30)])

    assert (model.steps, model.nodes["a"].count, model.nodes["a"].mean) == (1, 2, 20)


def graph_def() -> GraphDef:
    graph = GraphDef()
    graph.node.add(name="x", op="Const", device=CPU)
    graph.node.add(name="split", op="Split", device=CPU, input=["x"])
    graph.node.add(name="y", op="Add", device=CPU, input=["split:1", "split", "^x"])
    return graph


def test_a_cost_graph_has_the_nodes_with_their_costs_and_who_precedes_them():
    model = CostModel()
    model.record_step([record("split", 1_500, (2,), (3,)), record("y", 2, (5,))])
    cost_graph = CostGraphDef()
    cost_graph.node.add(name="of another partition")

    model.add_to_cost_graph(cost_graph, graph_def())

    _, x, split, y = cost_graph.node
    assert [(node.name, node.id, node.device) for node in (x, split, y)] == [
        ("x", 1, CPU),
        ("split", 2, CPU),
        ("y", 3, CPU),
    ]
    assert [(info.preceding_node, info.preceding_port) for info in y.input_info] == [(2, 1), (2, 0)]
    assert list(y.control_input) == [1]
    assert [node.is_final for node in (x, split, y)] == [False, False, True]
    assert [node.compute_cost for node in (x, split, y)] == [0, 2, 1], "microseconds, rounded up"
    assert [node.inaccurate for node in (x, split, y)] == [True, False, False]
    assert [(info.size, info.shape.dim[0].size, info.dtype) for info in split.output_info] == [
        (8, 2, 1),
        (12, 3, 1),
    ]


def test_an_output_that_was_never_seen_is_told_as_unknown():
    """A dead output of a Switch, for instance."""
    model = CostModel()
    model.record_step([NodeRecord(CPU, "split", "Op", 0, 0, 0, 1, (OutputRecord(1, "int32", (), 4),), ())])
    cost_graph = CostGraphDef()

    model.add_to_cost_graph(cost_graph, graph_def())

    first, second = cost_graph.node[1].output_info
    assert (first.size, first.shape.unknown_rank, second.size) == (-1, True, 4)


def test_a_manager_has_a_model_for_each_graph():
    manager = CostModelManager()
    one = manager.find_or_create("one")
    one.record_step([record("a", 5)])

    assert manager.find_or_create("one") is one
    two = manager.find_or_create("two")
    assert manager.export() == {"one": one, "two": two}
    assert two.nodes == {}

    manager.remove("one")
    manager.remove("one")
    assert manager.export() == {"two": two}
