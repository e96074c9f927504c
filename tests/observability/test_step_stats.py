"""Step stats: the records of a step are converted to TensorFlow's proto, with times in order."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from aioexec.formats.protos import StepStats
from aioexec.observability.step_stats import (
    NodeRecord,
    OutputRecord,
    StepStatsCollector,
    allocations_report,
    readable_bytes,
)

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


def collected(*times: tuple[int, int, int]) -> StepStats:
    collector = StepStatsCollector()
    for k, (scheduled, start, end) in enumerate(times):
        collector.node_done(CPU, f"n{k}", "Op", scheduled, start, end, 1)
    return collector.step_stats()


def test_a_node_is_told_with_its_label_times_outputs_and_thread():
    collector = StepStatsCollector()
    began, wall = time.perf_counter_ns(), time.time_ns()
    collector.node_done(
        CPU,
        "z",
        "Mul",
        began,
        began + 5_000,
        began + 12_000,
        threading.get_native_id(),
        outputs=[(0, "float32", (2, 3), 24), (1, "int64", (), 8)],
        inputs=["c2", "y:1"],
    )

    (device,) = collector.step_stats().dev_stats

    assert device.device == CPU
    (node,) = device.node_stats
    assert node.timeline_label == "z = Mul(c2, y:1)"
    assert node.all_start_nanos - node.scheduled_nanos == 5_000
    assert (node.op_start_rel_nanos, node.op_end_rel_nanos, node.all_end_rel_nanos) == (0, 7_000, 7_000)
    assert node.all_start_micros == node.all_start_nanos // 1000
    assert abs(node.scheduled_nanos - wall) < 10**9
    assert dict(device.thread_names) == {threading.get_native_id(): threading.current_thread().name}
    first, second = node.output
    assert [dim.size for dim in first.tensor_description.shape.dim] == [2, 3]
    assert (first.tensor_description.dtype, second.tensor_description.dtype) == (1, 9)
    assert (first.slot, second.slot) == (0, 1)
    assert first.tensor_description.allocation_description.requested_bytes == 24
    assert [memory.total_bytes for memory in node.memory] == [32]


@pytest.mark.parametrize("times", [(7, 5, 6), (5, 7, 6), (9, 8, 7), (1, 1, 1)])
def test_times_are_in_order_whatever_the_clocks_said(times: tuple[int, int, int]):
    """A node scheduled on one processor may be stamped on another whose clock is behind."""
    (node,) = collected(times).dev_stats[0].node_stats

    assert node.scheduled_nanos <= node.all_start_nanos
    assert node.scheduled_micros <= node.all_start_micros
    assert 0 <= node.op_start_rel_nanos <= node.op_end_rel_nanos <= node.all_end_rel_nanos
    assert 0 <= node.op_start_rel_micros <= node.op_end_rel_micros <= node.all_end_rel_micros


def test_micros_of_two_nodes_in_a_row_do_not_overlap():
    """Each time is rounded by itself: rounding a length up to the next node's start would show an overlap."""
    first, second = collected((0, 100, 1_999), (0, 1_999, 3_500)).dev_stats[0].node_stats

    assert first.all_start_micros + first.all_end_rel_micros <= second.all_start_micros


def test_nodes_stand_under_their_device_in_the_order_they_began():
    collector = StepStatsCollector()
    for device, name, start in (("b", "late", 30), ("a", "only", 20), ("b", "early", 10)):
        collector.node_done(device, name, "Op", 0, start, start, 1)

    found = {
        device.device: [node.node_name for node in device.node_stats]
        for device in collector.step_stats().dev_stats
    }

    assert found == {"a": ["only"], "b": ["early", "late"]}


def test_threads_may_note_at_the_same_time():
    collector = StepStatsCollector()
    ready = threading.Barrier(4)

    def note(thread: int) -> None:
        ready.wait()
        for k in range(200):
            collector.node_done(CPU, f"{thread}/{k}", "Op", 0, k, k, thread)

    threads = [threading.Thread(target=note, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({record.name for record in collector.records}) == 800


@pytest.mark.slow
def test_noting_loads_no_messages():
    code = (
        "import sys\n"
        "from aioexec.observability.step_stats import StepStatsCollector\n"
        "StepStatsCollector().node_done('d', 'n', 'Op', 0, 0, 0, 1, [(0, 'float32', (), 4)])\n"
        "assert 'aioexec.formats.protos' not in sys.modules\n"
        "assert 'google.protobuf' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def record(name: str, *sizes: int, device: str = CPU) -> NodeRecord:
    outputs = tuple(OutputRecord(slot, "float32", (size // 4,), size) for slot, size in enumerate(sizes))
    return NodeRecord(device, name, "Op", 0, 0, 0, 1, outputs, ())


def test_an_out_of_memory_report_names_the_largest_tensors_first():
    records = [
        record("small", 16),
        record("big", 8, 3 * 2**20),
        record("none"),
        record("far", 32, device="d"),
    ]

    lines = allocations_report(records).splitlines()

    assert lines == [
        f"Current usage from device: {CPU}, allocator: cpu, 3.00MiB",
        "  3.00MiB from big:1, float32[786432]",
        "  16B from small, float32[4]",
        "  8B from big, float32[2]",
        "Current usage from device: d, allocator: cpu, 32B",
        "  32B from far, float32[8]",
    ]


def test_an_out_of_memory_report_leaves_out_what_is_gone_and_sums_up_what_is_small():
    records = [record(f"n{k}", 4 * (k + 1)) for k in range(30)]

    assert allocations_report(records, alive=["n3", "n7"]).splitlines()[1:] == [
        "  32B from n7, float32[8]",
        "  16B from n3, float32[4]",
    ]
    assert allocations_report(records).splitlines()[-1] == "  220B in 10 smaller ones"


def test_bytes_are_readable():
    assert [readable_bytes(n) for n in (0, 1023, 1536, 2**20, 5 * 2**30)] == [
        "0B",
        "1023B",
        "1.50KiB",
        "1.00MiB",
        "5.00GiB",
    ]
