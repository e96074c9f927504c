"""Timelines: the nodes of a step as a trace that Perfetto opens."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from aioexec.errors import UnimplementedError
from aioexec.formats.protos import StepStats
from aioexec.observability.step_stats import StepStatsCollector
from aioexec.observability.timeline import Timeline

ONE, TWO = (f"/job:localhost/replica:0/task:0/device:CPU:{k}" for k in range(2))


def step_stats(
    *nodes: tuple[str, str, str, list[str], int, int], sizes: dict[str, int] | None = None
) -> StepStats:
    """Nodes as (device, name, op, inputs, start, end); `sizes` are the bytes of what a node puts out."""
    collector = StepStatsCollector()
    collector._to_wall = 10**15
    for device, name, op, inputs, start, end in nodes:
        size = (sizes or {}).get(name, 0)
        outputs = [(0, "uint8", (size,), size)]
        collector.node_done(device, name, op, start, start, end, 1, outputs, inputs)
    return collector.step_stats()


def events(text: str, kind: str) -> list[dict[str, Any]]:
    return [event for event in json.loads(text)["traceEvents"] if event["ph"] == kind]


def test_nodes_are_slices_of_their_device_in_microseconds_since_the_step_began():
    stats = step_stats((ONE, "a", "Neg", ["x"], 1_000, 1_250), (TWO, "b", "Add", ["a", "a:1"], 3_000, 13_005))

    trace = Timeline(stats).generate_chrome_trace_format()

    named = {event["pid"]: event["args"]["name"] for event in events(trace, "M")}
    assert sorted(named.values()) == sorted(
        ["Allocators", f"{ONE} Compute", f"{ONE} Tensors", f"{TWO} Compute", f"{TWO} Tensors"]
    )
    first, second = events(trace, "X")
    assert (named[first["pid"]], first["name"], first["ts"], first["dur"]) == (
        f"{ONE} Compute",
        "Neg",
        0,
        0.25,
    )
    assert (named[second["pid"]], second["ts"], second["dur"]) == (f"{TWO} Compute", 2, 10.005)
    assert second["args"] == {"name": "b", "op": "Add", "input0": "a", "input1": "a:1"}


def test_what_ran_at_the_same_time_stands_in_lanes_of_its_own():
    stats = step_stats(
        (ONE, "a", "Op", [], 0, 10),
        (ONE, "b", "Op", [], 5, 20),
        (ONE, "c", "Op", [], 10, 12),
        (ONE, "d", "Op", [], 11, 12),
        (ONE, "e", "Op", [], 12, 12),
    )

    slices = events(Timeline(stats).generate_chrome_trace_format(), "X")

    assert {event["args"]["name"]: event["tid"] for event in slices} == {
        "a": 0,
        "b": 1,
        "c": 0,
        "d": 2,
        "e": 0,
    }


def test_arrows_lead_from_the_end_of_a_node_to_the_start_of_the_next_in_another_lane():
    stats = step_stats(
        (ONE, "a", "Op", [], 0, 1_000),
        (ONE, "next", "Op", ["a"], 1_000, 2_000),
        (TWO, "other", "Op", ["a", "unknown"], 4_000, 5_000),
    )

    trace = Timeline(stats).generate_chrome_trace_format()

    (start,), (end,) = events(trace, "s"), events(trace, "t")
    slices = {event["args"]["name"]: event for event in events(trace, "X")}
    assert (start["pid"], start["tid"], start["ts"]) == (slices["a"]["pid"], slices["a"]["tid"], 1)
    assert (end["pid"], end["tid"], end["ts"]) == (slices["other"]["pid"], slices["other"]["tid"], 4)
    assert start["id"] == end["id"]
    assert events(Timeline(stats).generate_chrome_trace_format(show_dataflow=False), "s") == []


@pytest.mark.parametrize("reported", [True, False])
def test_arrows_lead_across_devices_whether_the_transfer_is_recorded_or_not(reported: bool):
    nodes = [(ONE, "h", "MatMul", [], 0, 10), (TWO, "y", "Neg", ["h/_3"], 30, 40)]
    if reported:
        nodes.insert(1, (TWO, "h/_3", "_Recv", [], 20, 25))

    trace = Timeline(step_stats(*nodes)).generate_chrome_trace_format()

    (start,) = events(trace, "s")
    assert (start["name"], start["ts"]) == ("h", 0.01)
    assert events(trace, "t")[0]["ts"] == (0.02 if reported else 0.03)


def test_memory_is_held_from_where_a_tensor_is_made_to_where_it_is_used_last():
    stats = step_stats(
        (ONE, "a", "Op", [], 0, 1_000),
        (ONE, "b", "Op", ["a"], 1_000, 2_000),
        (ONE, "c", "Op", ["b"], 2_000, 3_000),
        sizes={"a": 100, "b": 10, "c": 1},
    )

    analysis = Timeline(stats).analyze_step_stats()

    most = analysis.allocator_maximums["cpu"]
    assert (most.num_bytes, most.tensors) == (110, {"a", "b"})
    assert most.timestamp == 10**12 + 1
    trace = analysis.chrome_trace.format_to_string()
    curve = [(event["ts"], event["args"]["cpu"]) for event in events(trace, "C")]
    assert curve == [(0, 100), (1, 110), (2, 10), (2, 11), (3, 1), (3, 0)]
    lives = {kind: {event["name"]: event["ts"] for event in events(trace, kind)} for kind in ("N", "O", "D")}
    assert lives == {
        "N": {"a": 0, "b": 1, "c": 2},
        "O": {"a": 1, "b": 2, "c": 3},
        "D": {"a": 2, "b": 3, "c": 3},
    }
    assert events(Timeline(stats).generate_chrome_trace_format(), "C") == []


def test_a_node_whose_label_tells_nothing_is_looked_up_in_the_graph():
    stats = step_stats((ONE, "a", "Op", [], 0, 5), (ONE, "b", "Op", [], 0, 5))
    for node in stats.dev_stats[0].node_stats:
        node.timeline_label = "something else"
    source = SimpleNamespace(op=SimpleNamespace(name="x"), value_index=1)

    def look_up(name: str) -> Any:
        if name == "b":
            raise KeyError(name)
        return SimpleNamespace(type="Neg", inputs=[source])

    graph = SimpleNamespace(get_operation_by_name=look_up)

    reported = [event["args"] for event in events(Timeline(stats, graph).generate_chrome_trace_format(), "X")]

    assert reported == [{"name": "a", "op": "Neg", "input0": "x:1"}, {"name": "b", "op": "unknown"}]


def test_stats_in_microseconds_alone_are_drawn_too():
    """Old writers fill only those fields."""
    stats = StepStats()
    node = stats.dev_stats.add(device=ONE).node_stats.add(node_name="a", timeline_label="a = Neg(x)")
    node.all_start_micros, node.all_end_rel_micros = 5, 7

    (event,) = events(Timeline(stats).generate_chrome_trace_format(), "X")

    assert (event["ts"], event["dur"], event["name"]) == (0, 7, "Neg")


def test_no_stats_are_an_empty_trace():
    trace = json.loads(Timeline(StepStats()).generate_chrome_trace_format(show_memory=True))

    assert [event["args"]["name"] for event in trace["traceEvents"]] == ["Allocators"]


def test_times_of_streams_are_refused():
    with pytest.raises(UnimplementedError, match="streams"):
        Timeline(StepStats()).generate_chrome_trace_format(op_time="gpu")
