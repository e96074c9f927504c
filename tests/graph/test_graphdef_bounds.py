"""Short GraphDefs that expand to much memory or work: they are refused, or their cost stays small."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

import aioexec as ax
from aioexec.distributed.worker.partition_graphs import import_partition
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.formats.protos import AttrValue, GraphDef
from aioexec.graph.graph import Graph
from aioexec.graph.io.graphdef_import import import_graph_def
from aioexec.sessions.extending import extend_graph
from tests.campaigns import graph_extremes as extremes
from tests.graph.written import FLOAT, INT32, STRING, graph_def, no_op, node, of_type, placeholder, splat

REFUSED: dict[str, tuple[Callable[[], GraphDef], str]] = {
    "bodies that double": (extremes.functions_of_doubling_attributes, "bodies of functions come to too many"),
    "attributes that double": (extremes.attributes_that_double, "attributes that functions are called with"),
    "functions that call each other": (extremes.recursive_functions, "calls itself: f -> g -> f"),
    "many outputs": (extremes.many_outputs, "too many outputs"),
    "outputs in bodies": (extremes.wide_function_outputs, "too many outputs"),
    "elements that are not listed": (extremes.half_listed, "list fewer elements than they have"),
    "a dimension beyond 64 bits": (extremes.added_dims, "a dimension is at most 9223372036854775807"),
    "a rank beyond bounds": (extremes.deep_rank, "at most 254 dimensions, got 255"),
    "a shape beyond bounds": (extremes.doubled_shapes, "at most 254 dimensions, got 256"),
}


def _extended(source: GraphDef) -> None:
    """As a server does what clients send."""
    extend_graph(Graph(), source)


def _registered(source: GraphDef) -> None:
    """As a worker does what masters send."""
    import_partition(source)


@pytest.mark.slow
@pytest.mark.parametrize("read", [import_graph_def, _extended, _registered], ids=lambda each: each.__name__)
@pytest.mark.parametrize("kind", REFUSED)
def test_what_comes_to_too_much_is_refused_wherever_it_comes_from(graph, kind, read: Callable[[Any], object]):
    build, message = REFUSED[kind]

    with pytest.raises(InvalidArgumentError, match=message):
        read(build())

    assert graph.get_operations() == []


def test_shapes_of_functions_are_found_a_bounded_number_of_times(graph):
    """Each of 40 functions calls the one before with two shapes: the last would be called with 2^39."""
    import_graph_def(extremes.functions_of_doubling_shapes(), name="")

    found = sum(len(graph.functions[name]._shapes) for name in graph.functions)
    assert found < 1200


def test_functions_that_call_each_other_twice_are_not_expanded(graph):
    import_graph_def(extremes.doubling_functions(), name="")

    assert len(graph.get_operations()) == 2
    assert sum(len(graph.functions[name].graph.get_operations()) for name in graph.functions) == 119


@pytest.mark.parametrize("dtype", [FLOAT, STRING])
def test_one_element_stays_one_in_memory_and_when_it_is_exported(graph, dtype):
    import_graph_def(graph_def(splat("x", dtype, 2**25)), name="")

    value = graph.get_operation_by_name("x").attrs["value"]
    assert (value.shape, value.strides) == ((2**25,), (0,))
    assert graph.as_graph_def().ByteSize() < 200


def test_a_shape_rule_does_not_read_a_long_operand(graph):
    """Axes of 2^30 equal elements, which the kernel will refuse."""
    import_graph_def(extremes.splats_as_axes(), name="")

    assert graph.get_tensor_by_name("s0:0").dims is None


def test_sizes_of_as_many_parts_as_there_are_outputs_are_read(graph):
    parts = ax.split(ax.placeholder(ax.float32, [1500]), [1] * 1499 + [1])

    assert {part.dims for part in parts} == {(1,)}


def test_the_scopes_of_a_long_name_are_not_listed(graph):
    name = "a/" * 20_000
    import_graph_def(graph_def(no_op(f"{name}b")), name="")
    tracemalloc.start()
    try:
        import_graph_def(graph_def(no_op("a"), no_op("c")), name="")

        assert tracemalloc.get_traced_memory()[1] < 50 * len(name)
    finally:
        tracemalloc.stop()
    assert [op.name for op in graph.get_operations()[1:]] == ["a_1", "c"]


def test_back_edges_that_share_a_producer_leave_each_consumer_once(graph):
    merge = node("m", "Merge", ["x", "next", "y", "next"], T=of_type(INT32), N=AttrValue(i=4))
    following = node("next", "NextIteration", ["m"], T=of_type(INT32))
    import_graph_def(graph_def(placeholder("x", INT32), placeholder("y", INT32), merge, following), name="")

    merged, x, y, following = (graph.get_operation_by_name(name) for name in ("m", "x", "y", "next"))
    assert [tensor.op for tensor in merged.inputs] == [x, following, y, following]
    assert [op.outputs[0].consumers() for op in (x, y, following)] == [[merged]] * 3


def test_a_graph_that_was_refused_leaves_the_next_one_its_own_bounds(graph):
    with pytest.raises(GraphValueError):
        import_graph_def(extremes.half_listed())

    import_graph_def(graph_def(splat("x", FLOAT, 2**20, elements=2)))

    assert graph.get_tensor_by_name("import/x:0").dims == (2**20,)
