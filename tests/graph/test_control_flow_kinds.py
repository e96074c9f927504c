"""Whether control-flow operations belong to conditionals or loops."""

from __future__ import annotations

import pytest

import aioexec as ax
from aioexec.graph import control_flow_kinds as kinds


@pytest.fixture
def graph():
    with ax.Graph().as_default() as graph:
        pred, limit = ax.placeholder(ax.bool, ()), ax.constant(3)
        ax.cond(pred, lambda: limit + 1, lambda: ax.while_loop(lambda i: i < limit, lambda i: i + 1, [limit]))
        ax.while_loop(lambda i: i < limit, lambda i: ax.cond(pred, lambda: i + 1, lambda: limit), [0])
        yield graph


def found(graph, kind):
    return {op.name for op in graph.get_operations() if kind(op)}


def test_switches_are_of_conditionals_or_of_loops(graph):
    of_pivots = {"cond/Switch", "while/cond/Switch"}
    of_loops = {"cond/while/Switch_1", "while/Switch"}
    of_conditionals = {"cond/add/Switch", "cond/while/Switch", "while/cond/add/Switch"}

    assert found(graph, kinds.IsLoopSwitch) == of_loops
    assert found(graph, kinds.IsCondSwitch) == of_conditionals
    assert found(graph, kinds.IsSwitch) - of_loops - of_conditionals - {"while/cond/Switch_1"} == of_pivots


def test_merges_are_of_conditionals_or_of_loops(graph):
    assert found(graph, kinds.IsLoopMerge) == {"cond/while/Merge", "while/Merge"}
    assert found(graph, kinds.IsCondMerge) == {"cond/Merge", "while/cond/Merge"}
    assert found(graph, kinds.IsMerge) == found(graph, kinds.IsLoopMerge) | found(graph, kinds.IsCondMerge)


def test_ways_into_and_out_of_a_loop_are_recognised(graph):
    assert found(graph, kinds.IsLoopExit) == {"cond/while/Exit", "while/Exit"}
    enters = found(graph, kinds.IsLoopEnter)
    assert enters - found(graph, kinds.IsLoopConstantEnter) == {"cond/while/Enter", "while/Enter"}
    assert "while/Less/Enter" in enters
