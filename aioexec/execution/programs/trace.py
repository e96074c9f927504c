"""Tracing: turns the time stamps of a program's rows into records of the nodes it ran.

A program consists of rows, a profile of nodes. A node may have become several rows, one row, or none (an alias, or a value that
follows from the shapes). Every node that ran has a record; that of a node without a row has zero length, and the end time of
the node before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from threading import get_native_id
from time import perf_counter_ns
from typing import Any, NamedTuple

import numpy as np

from aioexec.graph.kernels.kernel import Role
from aioexec.observability.step_stats import StepStatsCollector, tensor_name
from aioexec.planning.instruction import Instruction
from aioexec.planning.layout.variant import ParallelRegion, ProgramRow, Row, Variant
from aioexec.planning.subgraph import Node
from aioexec.resources.variable import Variable


class Trace:
    """The stamps of one run of a program.

    Attributes:
        began: when the run was made.
        stamps: when each row began and ended, by `perf_counter_ns`; 0: it has not run. Written by the walker, and by `stamp`
            for the rows at which the walker stops.
        threads: the thread that runs each row, as far as it is recorded.
    """

    __slots__ = ("began", "stamps", "threads")

    def __init__(self, rows: int) -> None:
        self.began = perf_counter_ns()
        self.stamps = np.zeros((max(rows, 1), 2), np.int64)
        self.threads = np.full(max(rows, 1), get_native_id(), np.int64)

    def note_row(self, row: int) -> None:
        """Record that the run continues at a row on the calling thread."""
        self.threads[row:] = get_native_id()

    def stamp(self, row: int, began: int) -> None:
        """Record that a row at which the walker stopped has just ended."""
        self.stamps[row] = began, perf_counter_ns()


class Traced(NamedTuple):
    """A node that ran in a program."""

    instruction: Instruction
    start: int
    end: int
    thread_id: int


def traced(trace: Trace, variant: Variant) -> Iterator[Traced]:
    """The nodes that ran, in order; of a run that failed or was cancelled, those before the row at which it stopped."""
    times: dict[int, tuple[int, int, int]] = {}
    with_rows: set[int] = set()
    stamps = trace.stamps[: len(variant.rows)].tolist()
    for row, (began, ended) in enumerate(stamps):
        if isinstance(variant.rows[row], ParallelRegion):
            continue  # its rows have stamps of their own
        for position, start, end in _shared_out(variant.rows[row], began, ended):
            with_rows.add(position)
            if began:
                first, earliest, latest = times.get(position, (row, start, end))
                times[position] = first, min(earliest, start), max(latest, end)
    is_done = all(stamps[row][0] for row in _last_rows(variant))
    reached = len(variant.instructions) if is_done else max(times, default=-1) + 1
    outermost = {id(instruction) for instruction in variant.item.instructions}
    row, now = 0, trace.began
    for position, instruction in enumerate(variant.instructions[:reached]):
        if position not in times and (
            id(instruction) not in outermost or (not is_done and position in with_rows)
        ):
            continue  # in a branch that was not taken, or behind the row at which the run stopped
        row, start, now = times.get(position, (row, now, now))
        yield Traced(instruction, start, now, int(trace.threads[row]))


def _last_rows(variant: Variant) -> list[int]:
    """The rows that have all run if and only if the program has run to its end."""
    last = len(variant.rows) - 1
    for region in variant.parallel_regions:
        if region.end > last:
            return [task.end - 1 for task in region.tasks]
    return [last] if last >= 0 else []


def _shared_out(row: Row, began: int, ended: int) -> Iterator[tuple[int, int, int]]:
    """The time of a row divided among its nodes; among those of a fused row in proportion to their static costs."""
    parts = row.parts if isinstance(row, ProgramRow) else ()
    total, done = sum(cost for _, cost in parts), 0
    for position, cost in parts:
        start, done = done, done + cost
        yield position, began + (ended - began) * start // total, began + (ended - began) * done // total
    if not parts:
        yield row.position, began, ended


# Records


def note_program(collector: StepStatsCollector, trace: Trace, variant: Variant, device: str) -> None:
    """Record every node a program ran; all were scheduled when the run was made."""
    for instruction, start, end, thread_id in traced(trace, variant):
        node = instruction.node
        outputs = [
            (slot, _dtype(node, slot), spec.shape, spec.nbytes)
            for slot, value in enumerate(instruction.outputs)
            if (spec := variant.specs.get(value)) is not None
        ]
        collector.node_done(
            node.device or device,
            node.name,
            node.op.type,
            trace.began,
            start,
            end,
            thread_id,
            outputs,
            _input_names(node),
        )


def note_node(
    collector: StepStatsCollector,
    node: Node,
    device: str,
    scheduled: int,
    start: int,
    end: int,
    values: Sequence[Any],
) -> None:
    """Record a node that has run by itself, on the calling thread or on a device. `values` are its outputs; None: not known."""
    outputs = [
        (slot, _dtype(node, slot), held.shape, held.nbytes)
        for slot, value in enumerate(values)
        if (held := _content(value)) is not None and hasattr(held, "nbytes")
    ]
    collector.node_done(
        node.device or device,
        node.name,
        node.op.type,
        scheduled,
        start,
        end,
        get_native_id(),
        outputs,
        _input_names(node),
    )


def note_known(collector: StepStatsCollector, nodes: Iterable[Node], device: str, now: int) -> None:
    """Record the constants and variables of a plan: they take no time, but belong to the step."""
    for node in nodes:
        if node.feed is None and (node.is_constant or node.row.role is Role.VARIABLE):
            note_node(collector, node, device, now, now, now, node.values or ())


def _content(value: Any) -> Any:
    return value.buffer if isinstance(value, Variable) else value


def _dtype(node: Node, slot: int) -> str:
    return node.op.outputs[slot].dtype.base_dtype.name


def _input_names(node: Node) -> list[str]:
    return [
        tensor_name(producer.name, index if producer.feed is None else producer.feed.value_index)
        for producer, index in node.inputs
    ]
