"""A trace by thread shows what each thread did, and in which step."""

import json

from aioexec.formats.protos import DeviceStepStats, NodeExecStats, StepStats
from aioexec.observability.thread_timeline import draw_threads


def stats(*nodes: tuple[str, int, int, int]) -> StepStats:
    """A step of nodes on one device: label, start and end in nanoseconds, thread."""
    return StepStats(
        dev_stats=[
            DeviceStepStats(
                device="cpu",
                thread_names={1: "loop", 2: "worker"},
                node_stats=[
                    NodeExecStats(
                        node_name=label.split(" ")[0],
                        timeline_label=label,
                        all_start_nanos=start,
                        all_end_rel_nanos=end - start,
                        thread_id=thread,
                    )
                    for label, start, end, thread in nodes
                ],
            )
        ]
    )


def shown(*steps: StepStats) -> tuple[dict[tuple[int, int], str], list[dict]]:
    events = json.loads(draw_threads(steps).format_to_string())["traceEvents"]
    names = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in events
        if event["name"] == "thread_name"
    }
    return names, [event for event in events if event["ph"] == "X"]


def test_each_thread_has_a_row_and_each_step_a_span():
    names, events = shown(
        stats(("a = Neg(x)", 1_000, 3_000, 1), ("b = Mul(a, x:1)", 3_500, 5_000, 2)),
        stats(("a = Neg(x)", 9_000, 9_500, 1)),
    )

    drawn = [
        (names[event["pid"], event["tid"]], event["name"], event["ts"], event["dur"]) for event in events
    ]
    assert drawn == [
        ("steps", "step 0", 0.0, 4.0),
        ("steps", "step 1", 8.0, 0.5),
        ("loop", "Neg", 0.0, 2.0),
        ("loop", "Neg", 8.0, 0.5),
        ("worker", "Mul", 2.5, 1.5),
    ]
    assert events[-1]["args"] == {"name": "b", "op": "Mul", "step": 0, "input0": "a", "input1": "x:1"}


def test_what_waits_beside_other_things_has_a_row_of_its_own():
    names, events = shown(stats(("wait = Recv()", 1_000, 10_000, 1), ("a = Neg(x)", 2_000, 3_000, 1)))

    rows = {event["name"]: (event["pid"], event["tid"]) for event in events}
    assert rows["Recv"] != rows["Neg"]
    assert {names[rows["Recv"]], names[rows["Neg"]]} == {"loop"}


def test_nothing_has_run():
    assert shown() == ({(0, 0): "steps"}, [])
