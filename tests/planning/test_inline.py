"""Inlining of function bodies: names, parts that are omitted, limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import aioexec as ax
from aioexec.errors import InvalidArgumentError, NotFoundError, UnimplementedError
from aioexec.graph.func_graph import FuncGraph
from aioexec.graph.kernels.kernel import Role
from aioexec.planning.control_flow import inline
from aioexec.planning.control_flow.frames import frames
from aioexec.planning.control_flow.inline import inline_bodies
from aioexec.planning.control_flow.lower_control_flow import LOWERINGS
from aioexec.planning.subgraph import Node, Subgraph
from tests.planning.planned import pruned


@pytest.fixture
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


def body(name: str, dtypes: Sequence[Any], build: Callable[..., Any]) -> str:
    graph = ax.get_default_graph()
    made = FuncGraph(name, graph)
    with made.as_default():
        result = build(*(made.add_input(dtype) for dtype in dtypes))
        made.outputs = [
            ax.convert_to_tensor(each) for each in (result if isinstance(result, list) else [result])
        ]
    graph.add_function(made.as_function())
    return name


def called(f: str, *inputs: Any, name: str | None = None) -> Any:
    tensors = [ax.convert_to_tensor(value) for value in inputs]
    return ax.get_default_graph().create_op(f, tensors, name=name).outputs[0]


def inlined(*fetches: Any) -> Subgraph:
    """The checked subgraph for some fetches."""
    found = pruned(fetches)
    inline_bodies(found, LOWERINGS)
    found.check_invariants()
    frames(found)
    assert not any(node.row.role in LOWERINGS for node in found.nodes)
    return found


def names(subgraph: Subgraph) -> dict[str, str]:
    return {node.name: node.row.name for node in subgraph.nodes}


def test_nodes_of_a_body_are_named_after_the_caller_and_their_own_name(graph):
    body("inner", [ax.float32], lambda x: x * 2.0)
    body("outer", [ax.float32], lambda x: called("inner", x, name="nested") + 1.0)
    x = ax.placeholder(ax.float32, [], name="x")

    found = names(inlined(called("outer", x, name="call"), called("outer", x, name="again")))

    inside = {"nested/mul/y": "Const", "nested/mul": "Mul", "add/y": "Const", "add": "AddV2"}
    expected = {f"{call}/{name}": op for call in ("call", "again") for name, op in inside.items()}
    assert found == {"x": "Placeholder", **expected}


def test_what_outputs_and_state_do_not_need_is_left_out(graph):
    body("f", [ax.float32, ax.float32], lambda x, y: [x + 1.0, ax.exp(y)])
    op = graph.create_op("f", [ax.constant(1.0), ax.constant(2.0, name="unused")], name="call")

    assert not {"call/Exp", "unused"} & names(inlined(op.outputs[0])).keys()


def test_names_of_the_graph_are_not_taken(graph):
    body("f", [ax.float32], lambda x: ax.identity(x * 2.0, name="mul_1"))
    op = called("f", 1.0, name="call")
    ax.exp(1.0, name="call/mul_1/")

    assert "call_1/mul_1" in names(inlined(op))


def test_names_are_the_same_in_every_plan(graph):
    body("below", [ax.int32], lambda i: i < 3)
    body("round", [ax.int32], lambda i: i + 1)
    loop = graph.create_op("While", [ax.constant(0)], attrs={"cond": "below", "body": "round"})

    assert names(inlined(loop.outputs[0])) == names(inlined(loop.outputs[0]))


def test_a_group_of_colocated_nodes_is_renamed_with_its_body(graph):
    def grouped(x: Any) -> Any:
        with ax.colocate_with(x.op), ax.name_scope("inside"):
            first = x + 1.0
        with ax.colocate_with(first.op):
            return first * 2.0

    body("f", [ax.float32], grouped)

    found = inlined(called("f", 1.0, name="call"))

    groups = {node.name: node.op.attrs.get("_class") for node in found.nodes}
    assert groups["call/mul"] == groups["call/inside/add"] == ("loc:@call/arg",)


def test_what_never_changes_in_a_loop_enters_once(graph):
    body("below", [ax.int32, ax.float32], lambda i, k: i < 3)
    body("round", [ax.int32, ax.float32], lambda i, k: [i + ax.cast(k, ax.int32), k])
    attrs = {"cond": "below", "body": "round", "parallel_iterations": 0}
    loop = graph.create_op("While", [ax.constant(0), ax.constant(1.0)], name="loop", attrs=attrs)

    found = inlined(loop.outputs[0])

    enters = [node.op.attrs for node in found.nodes if node.row.role is Role.ENTER]
    assert [attrs["is_constant"] for attrs in enters] == [False, True]
    assert {attrs["frame_name"] for attrs in enters} == {"loop"}
    assert {attrs["parallel_iterations"] for attrs in enters} == {1}
    assert sum(node.row.role is Role.MERGE for node in found.nodes) == 1


def test_frames_in_a_body_are_its_callers_own(graph):
    body("f", [ax.float32], lambda x: ax.while_loop(lambda y: y < 9.0, lambda y: y * 2.0, [x]))

    found = inlined(called("f", called("f", 1.0, name="one"), name="two"))

    named = {node.op.attrs["frame_name"] for node in found.nodes if node.row.role is Role.ENTER}
    assert named == {"one/while/while_context", "two/while/while_context"}


def test_a_subgraph_without_calls_stays_what_it_is(graph):
    found = pruned([ax.constant(1.0) + 2.0])
    before: list[Node] = list(found.nodes)

    inline_bodies(found, LOWERINGS)

    assert found.nodes == before


def test_functions_that_double_at_each_level_are_refused(graph):
    body("f0", [ax.float32], lambda x: x + 1.0)
    for k in range(1, 40):
        body(f"f{k}", [ax.float32], lambda x, k=k: called(f"f{k - 1}", called(f"f{k - 1}", x)))
    few = called("f5", 1.0)
    many = called("f39", 1.0)

    assert len(inlined(few).nodes) == 1 + 2 * 2**5
    with pytest.raises(
        InvalidArgumentError, match=f"nodes in the places they are called from; at most {inline.LARGEST}"
    ):
        inlined(many)


BAD = {
    "missing function": ({"then_branch": "nobody"}, NotFoundError, "Function 'nobody' is not defined"),
    "other inputs": (
        {"then_branch": "two"},
        InvalidArgumentError,
        r"its attr 'then_branch', takes \['float32', 'float32'\]",
    ),
    "other outputs": (
        {"else_branch": "whole"},
        InvalidArgumentError,
        r"its attr 'else_branch', returns \['int32'\]",
    ),
}


@pytest.mark.parametrize("kind", list(BAD))
def test_bodies_that_do_not_fit_are_refused(graph, kind):
    attrs, error, message = BAD[kind]
    body("one", [ax.float32], lambda x: x + 1.0)
    body("two", [ax.float32] * 2, lambda x, y: x + y)
    body("whole", [ax.float32], lambda x: ax.cast(x, ax.int32))
    given = {"then_branch": "one", "else_branch": "one", "Tout": [ax.float32], **attrs}
    op = graph.create_op("If", [ax.constant(True), ax.constant(1.0)], attrs=given)

    with pytest.raises(error, match=message):
        inlined(op.outputs[0])


def test_a_condition_must_return_one_value(graph):
    body("both", [ax.int32], lambda i: [i < 3, i < 4])
    body("round", [ax.int32], lambda i: i + 1)
    op = graph.create_op("While", [ax.constant(0)], attrs={"cond": "both", "body": "round"})

    with pytest.raises(InvalidArgumentError, match="its attr 'cond', must return one value, got 2"):
        inlined(op.outputs[0])


def test_a_symbolic_gradient_takes_what_the_function_takes_and_gradients_of_its_outputs(graph):
    body("f", [ax.float32], lambda x: x * x)
    op = graph.create_op("SymbolicGradient", [ax.constant(1.0)] * 3, attrs={"f": "f", "Tout": [ax.float32]})

    with pytest.raises(InvalidArgumentError, match=r"takes \['float32', 'float32'\], which does not fit"):
        inlined(op.outputs[0])


def test_a_symbolic_gradient_of_what_has_none_is_refused(graph):
    body("f", [ax.float32], lambda x: ax.get_default_graph().create_op("MatrixExponential", [x]).outputs[0])
    inputs = [ax.constant([[1.0]]), ax.constant([[1.0]])]
    op = graph.create_op("SymbolicGradient", inputs, attrs={"f": "f", "Tout": [ax.float32]})

    with pytest.raises(UnimplementedError, match="'SymbolicGradient' of function 'f': No gradient"):
        inlined(op.outputs[0])
