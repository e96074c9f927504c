"""The planner: the log of its passes, and that placements and plans follow a graph that grows."""

from __future__ import annotations

import logging

import pytest

from tests.planning.planned import plan
from tests.tiers import constant, feed, graph, op


def test_each_pass_is_told_to_a_log_that_listens(caplog: pytest.LogCaptureFixture):
    with graph():
        x = feed([])
        y = op("Add", x, op("Add", constant(1.0), constant(2.0), name="three"))

    with caplog.at_level(logging.DEBUG, "aioexec.planning.pipeline"):
        plan([y], [x])

    logged = [record.getMessage() for record in caplog.records]
    assert [text.partition(":")[0] for text in logged] == [
        "post_placement/0/read_late",
        "post_rewrite_for_exec/0/fold_constants",
        "post_rewrite_for_exec/1/merge_common_subexpressions",
        "post_rewrite_for_exec/2/drop_identities",
        "post_rewrite_for_exec/3/read_before_loops",
        "post_rewrite_for_exec/3/fold_dilations",
        "post_rewrite_for_exec/3/fold_channel_scales",
        "post_rewrite_for_exec/4/fold_pads",
        "post_rewrite_for_exec/4/save_no_invariants",
        "post_rewrite_for_exec/5/drop_unused",
        "post_partitioning/0/recognize_softmax",
        "post_partitioning/1/recognize_attention",
        "post_partitioning/2/recognize_layer_norm",
        "post_partitioning/3/move_input_products",
    ]
    assert "three = Folded()" in logged[1]


def test_passes_are_not_written_out_for_a_log_that_does_not_listen(caplog: pytest.LogCaptureFixture):
    with graph():
        x = feed([])

    with caplog.at_level(logging.INFO, "aioexec.planning.pipeline"):
        plan([op("Neg", x)], [x])

    assert not caplog.records
