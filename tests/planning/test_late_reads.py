"""A consumer that waits for a write to a reference variable reads the reference when it runs; all others read the snapshot."""

from __future__ import annotations

from typing import Any

import pytest

from aioexec.planning.late_reads import read_late
from aioexec.planning.subgraph import Subgraph
from tests.planning.planned import Binder, pruned
from tests.tiers import constant, feed, graph, op, read, reference, resource


def rewritten(fetches: list[Any], feeds: list[Any] | None = None) -> Subgraph:
    subgraph = pruned(fetches, feeds or [])
    read_late(subgraph, Binder())
    subgraph.check_invariants()
    return subgraph


def inputs_of(subgraph: Subgraph, name: str) -> tuple[list[str], list[str]]:
    """The inputs and control inputs of a node."""
    (node,) = (node for node in subgraph.nodes if node.name == name)
    return [producer.name for producer, _ in node.inputs], [control.name for control in node.controls]


def test_who_waits_for_a_write_takes_the_reference_and_still_waits_for_the_snapshot():
    with graph() as g:
        v = reference([], name="v")
        snapshot = op("Identity", v, name="read")
        add = op("AssignAdd", v, constant(1.0), name="add")
        with g.control_dependencies([op("NoOp", name="unrelated")]):
            op("Neg", snapshot, name="apart")
        with g.control_dependencies([add]):
            after = op("Neg", snapshot, name="after")

    assert inputs_of(rewritten([after]), "after") == (["v"], ["add", "read"])


@pytest.mark.parametrize("kind", ["before", "unordered", "asked for", "fed", "computed"])
def test_others_keep_the_snapshot(kind: str):
    with graph() as g:
        v, x = reference([], name="v"), feed([])
        snapshot = op("Identity", v, name="read")
        with g.control_dependencies([snapshot] if kind == "asked for" else []):
            add = op("AssignAdd", v, x)
        with g.control_dependencies([add] if kind == "before" else []):
            now = op("Identity", v, name="now")
        used = {"before": now, "computed": op("Abs", snapshot, name="computed")}.get(kind, snapshot)
        with g.control_dependencies([] if kind == "unordered" else [add]):
            result = op("Neg", used, name="result")
        feeds = [x, snapshot] if kind == "fed" else [x]

    taken, _ = inputs_of(rewritten([result, add], feeds), "result")
    assert taken == [{"before": "now", "computed": "computed"}.get(kind, "read")]


def test_a_resource_and_another_variable_are_not_read_late():
    with graph() as g:
        v, w, r = reference([], name="v"), reference([], name="w"), resource([], name="r")
        snapshot, value = op("Identity", v, name="read"), read(r)
        writes = [op("AssignAdd", w, constant(1.0)), op("AssignAddVariableOp", r, constant(1.0))]
        with g.control_dependencies(writes):
            result = op("Add", snapshot, value, name="result")

    assert inputs_of(rewritten([result]), "result")[0] == ["read", value.op.name]


def test_no_more_is_waited_for_than_before():
    """The reference of another write, which waits for something else, is not taken."""
    with graph() as g:
        v = reference([], name="v")
        snapshot = op("Identity", v, name="read")
        with g.control_dependencies([op("NoOp")]):
            other = op("AssignSub", op("Assign", v, constant(1.0), name="other"), constant(2.0))
        add = op("AssignAdd", v, constant(1.0), name="add")
        with g.control_dependencies([add]):
            after = op("Neg", snapshot, name="after")

    assert inputs_of(rewritten([other, after]), "after") == (["v"], ["add", "read"])
