"""Step stats of one or more steps as a trace by thread.

Each device is a process; each of its threads has one or more rows, in which executions of nodes do not overlap. A further
process shows the steps. `timeline` shows which nodes overlapped; this shows the work of each thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from aioexec.observability.timeline import ChromeTrace, label_of

if TYPE_CHECKING:
    from aioexec.formats.protos import NodeExecStats, StepStats


class _Span(NamedTuple):
    """An execution of a node; times are absolute nanoseconds."""

    start: int
    end: int
    step: int
    device: str
    thread: str
    stats: NodeExecStats


def draw_threads(steps: Sequence[StepStats]) -> ChromeTrace:
    """The trace of some steps, in execution order. Times are microseconds since the first event."""
    spans = sorted(_spans(steps), key=lambda span: (span.start, -span.end))
    origin = spans[0].start if spans else 0
    trace = ChromeTrace()
    _draw_steps(trace, spans, origin)
    by_thread: dict[tuple[str, str], list[_Span]] = {}
    for span in spans:
        by_thread.setdefault((span.device, span.thread), []).append(span)
    processes: dict[str, int] = {}
    for (device, thread), spans_of_thread in sorted(by_thread.items(), key=lambda entry: entry[0]):
        if device not in processes:
            processes[device] = trace.process(device)
        for row in _split_overlaps(spans_of_thread):
            number = trace.thread(processes[device], thread)
            for span in row:
                _draw(trace, span, processes[device], number, origin)
    return trace


def _spans(steps: Sequence[StepStats]) -> Iterable[_Span]:
    for number, step in enumerate(steps):
        for device in step.dev_stats:
            for stats in device.node_stats:
                start = stats.all_start_nanos or stats.all_start_micros * 1000
                length = stats.all_end_rel_nanos if stats.all_start_nanos else stats.all_end_rel_micros * 1000
                thread = device.thread_names.get(stats.thread_id) or f"thread {stats.thread_id}"
                yield _Span(start, start + length, number, device.device, thread, stats)


def _draw_steps(trace: ChromeTrace, spans: list[_Span], origin: int) -> None:
    process = trace.process("steps")
    row = trace.thread(process, "steps")
    for number in sorted({span.step for span in spans}):
        spans_of_step = [span for span in spans if span.step == number]
        start, end = min(span.start for span in spans_of_step), max(span.end for span in spans_of_step)
        at, length = (start - origin) / 1000, (end - start) / 1000
        trace.event(
            "X", "Step", f"step {number}", process, row, at, dur=length, args={"nodes": len(spans_of_step)}
        )


def _split_overlaps(spans: list[_Span]) -> list[list[_Span]]:
    """Split the spans of a thread, sorted by start, into rows without overlaps: each goes to the first row that is free."""
    rows: list[list[_Span]] = []
    for span in spans:
        free = next((row for row in rows if row[-1].end <= span.start), None)
        if free is None:
            rows.append([span])
        else:
            free.append(span)
    return rows


def _draw(trace: ChromeTrace, span: _Span, process: int, row: int, origin: int) -> None:
    name, op, inputs = label_of(span.stats)
    fields = {"name": name, "op": op, "step": span.step}
    fields.update({f"input{k}": each for k, each in enumerate(inputs)})
    at, length = (span.start - origin) / 1000, (span.end - span.start) / 1000
    trace.event("X", "Op", op, process, row, at, dur=length, args=fields)
