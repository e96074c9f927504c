"""Passes: their order, those that the options enable, and their dumps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from aioexec import dtypes
from aioexec.errors import AlreadyExistsError
from aioexec.planning.passes import (
    BUILT_IN,
    L0,
    L1,
    DefaultOptions,
    Grouping,
    OptimizationPassRegistry,
    optimization_passes,
)
from aioexec.planning.subgraph import Bind, Subgraph
from tests.planning.planned import Binder, names, pruned
from tests.tiers import constant, feed, graph, op


class Recording:
    """Passes that leave their name in a list."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def named(self, name: str):
        def run(subgraph: Subgraph, bind: Bind) -> None:
            self.ran.append(name)

        run.__name__ = name
        return run


def nothing() -> Subgraph:
    return Subgraph([], [], [], [])


def test_a_group_runs_its_passes_by_phase_and_then_as_registered():
    recording, registry = Recording(), OptimizationPassRegistry()
    for phase, name in ((2, "late"), (0, "first"), (1, "middle"), (0, "second"), (-1, "early")):
        registry.register(Grouping.POST_PLACEMENT, phase, recording.named(name))
    registry.register(Grouping.PRE_PLACEMENT, 9, recording.named("elsewhere"))

    registry.run_grouping(Grouping.POST_PLACEMENT, nothing(), Binder())

    assert recording.ran == ["early", "first", "second", "middle", "late"]


@given(st.lists(st.tuples(st.sampled_from(list(Grouping)), st.integers(-2, 2))))
def test_every_pass_is_listed_once_in_the_order_it_runs(registered: list[tuple[Grouping, int]]):
    recording, registry = Recording(), OptimizationPassRegistry()
    for i, (grouping, phase) in enumerate(registered):
        registry.register(grouping, phase, recording.named(str(i)))

    for grouping in Grouping:
        registry.run_grouping(grouping, nothing(), Binder())

    order = list(Grouping)
    expected = sorted(
        range(len(registered)), key=lambda i: (order.index(registered[i][0]), registered[i][1], i)
    )
    assert recording.ran == [str(i) for i in expected]
    assert [line.rpartition("/")[2] for line in registry.describe().splitlines()] == recording.ran


def test_a_pass_is_registered_once_in_a_phase_and_can_be_taken_out():
    recording, registry = Recording(), OptimizationPassRegistry()
    run = recording.named("run")
    registry.register(Grouping.POST_PARTITIONING, 1, run)
    registry.register(Grouping.POST_PARTITIONING, 2, run)

    with pytest.raises(AlreadyExistsError, match="post_partitioning/1/run"):
        registry.register(Grouping.POST_PARTITIONING, 1, run)
    registry.unregister(run)

    assert registry.passes(Grouping.POST_PARTITIONING) == []


def test_the_subgraph_is_told_after_each_pass():
    with graph():
        y = op("Neg", op("Neg", constant(1.0), name="a"), name="b")
    dumped: list[tuple[str, str]] = []
    subgraph = pruned([y])

    OptimizationPassRegistry(BUILT_IN).run_grouping(
        Grouping.POST_REWRITE_FOR_EXEC, subgraph, Binder(), dump=lambda *each: dumped.append(each)
    )

    assert [name for name, _ in dumped] == [
        "post_rewrite_for_exec/0/fold_constants",
        "post_rewrite_for_exec/1/merge_common_subexpressions",
        "post_rewrite_for_exec/2/drop_identities",
        "post_rewrite_for_exec/3/read_before_loops",
        "post_rewrite_for_exec/3/fold_dilations",
        "post_rewrite_for_exec/3/fold_channel_scales",
        "post_rewrite_for_exec/4/fold_pads",
        "post_rewrite_for_exec/4/save_no_invariants",
        "post_rewrite_for_exec/5/drop_unused",
    ]
    assert {text for _, text in dumped} == {subgraph.dump()}
    assert subgraph.dump() == "b = Folded()"


def test_a_pass_that_is_not_a_function_goes_by_its_type():
    class Rewriter:
        def __call__(self, subgraph: Subgraph, bind: Bind) -> None: ...

    registry = OptimizationPassRegistry()
    registry.register(Grouping.PRE_PLACEMENT, 0, Rewriter())

    assert registry.describe() == "pre_placement/0/Rewriter"


@pytest.mark.parametrize(
    ("options", "left"),
    [
        (DefaultOptions(L1), ["x", "double", "once", "sum"]),
        (DefaultOptions(L0), ["x", "two", "double", "same", "once", "twice", "sum"]),
        (DefaultOptions(L0, do_constant_folding=True), ["x", "double", "same", "once", "twice", "sum"]),
        (
            DefaultOptions(L0, do_common_subexpression_elimination=True),
            ["x", "two", "double", "same", "once", "sum"],
        ),
    ],
)
def test_the_options_choose_among_our_own_passes(options: DefaultOptions, left: list[str]):
    with graph():
        x = feed([], name="x")
        double = op(
            "Neg", op("Const", value=np.float32(2.0), dtype=dtypes.float32, name="two"), name="double"
        )
        same = op("Identity", x, name="same")
        once, twice = op("Mul", same, double, name="once"), op("Mul", same, double, name="twice")
        total = op("Add", once, twice, name="sum")
    subgraph = pruned([total], [x])

    optimization_passes.run_grouping(Grouping.POST_REWRITE_FOR_EXEC, subgraph, Binder(), options)

    subgraph.check_invariants()
    assert names(subgraph) == left
