"""Step stats of one or more steps as a trace by thread: each device is a process, each of its threads a row.

`timeline` shows which nodes overlapped; this shows the work of each thread, and the steps it belonged to.
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
    rows: dict[tuple[str, str], list[_Span]] = {}
    for span in spans:
        rows.setdefault((span.device, span.thread), []).append(span)
    processes: dict[str, int] = {}
    for (device, thread), found in sorted(rows.items(), key=lambda entry: entry[0]):
        if device not in processes:
            processes[device] = trace.process(device)
        for lane in _lanes(found):
            row = trace.thread(processes[device], thread)
            for span in lane:
                _draw(trace, span, processes[device], row, origin)
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
        own = [span for span in spans if span.step == number]
        start, end = min(span.start for span in own), max(span.end for span in own)
        at, length = (start - origin) / 1000, (end - start) / 1000
        trace.event("X", "Step", f"step {number}", process, row, at, dur=length, args={"nodes": len(own)})


def _lanes(spans: list[_Span]) -> list[list[_Span]]:
    """Rows for a thread: consecutive nodes share one; nodes during which the thread did other work have rows of their own."""
    lanes: list[list[_Span]] = []
    for span in spans:
        free = next((lane for lane in lanes if lane[-1].end <= span.start), None)
        if free is None:
            lanes.append([span])
        else:
            free.append(span)
    return lanes


def _draw(trace: ChromeTrace, span: _Span, process: int, row: int, origin: int) -> None:
    name, op, inputs = label_of(span.stats)
    fields = {"name": name, "op": op, "step": span.step}
    fields.update({f"input{k}": each for k, each in enumerate(inputs)})
    at, length = (span.start - origin) / 1000, (span.end - span.start) / 1000
    trace.event("X", "Op", op, process, row, at, dur=length, args=fields)
