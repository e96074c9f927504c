"""Step stats as a trace for Perfetto (https://ui.perfetto.dev) and chrome://tracing.

Each device is a process with its nodes in lanes, so that concurrent nodes are shown side by side; arrows lead from the
producers of tensors to their consumers. Times are microseconds since the step's first event, with three decimals: a double
cannot hold an absolute time in microseconds with the nanoseconds that a native row takes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from aioexec.data_classes import dataclass
from aioexec.errors import UnimplementedError
from aioexec.observability.step_stats import tensor_name

if TYPE_CHECKING:
    from aioexec.formats.protos import NodeExecStats, StepStats

_LABEL = re.compile(r"(?P<name>\S+) = (?P<op>[^\s(]+)\((?P<inputs>.*)\)", re.DOTALL)
_TRANSFER = re.compile(r"(?P<tensor>.+)/_\d+")  # the name of both ends of a partitioned edge
_ALLOCATORS = 0  # the process that shows memory
UNKNOWN = "unknown"
"""The op of a node whose label does not contain it."""

Event = dict[str, Any]


class Graphs(Protocol):
    """The interface of a graph that a timeline uses."""

    def get_operation_by_name(self, name: str) -> Any: ...


class AllocationMaximum(NamedTuple):
    """When an allocator held the most (microseconds, absolute), how many bytes, and the names of the tensors held then."""

    timestamp: int
    num_bytes: int
    tensors: set[str]


class StepStatsAnalysis(NamedTuple):
    """A trace, and the maximum of each allocator, by its name."""

    chrome_trace: ChromeTrace
    allocator_maximums: dict[str, AllocationMaximum]


class ChromeTrace:
    """Events in Chrome's trace format; process and thread metadata first."""

    def __init__(self) -> None:
        self.metadata: list[Event] = []
        self.events: list[Event] = []
        self._threads: list[int] = []  # the number of threads of each process

    def process(self, name: str) -> int:
        """Add a process and return its number."""
        number = len(self._threads)
        self._threads.append(0)
        self.metadata.append({"name": "process_name", "ph": "M", "pid": number, "args": {"name": name}})
        return number

    def thread(self, pid: int, name: str) -> int:
        """Add a thread to a process and return its number."""
        number = self._threads[pid]
        self._threads[pid] += 1
        self.metadata.append(
            {"name": "thread_name", "ph": "M", "pid": pid, "tid": number, "args": {"name": name}}
        )
        return number

    def event(self, kind: str, category: str, name: str, pid: int, tid: int, ts: float, **more: Any) -> None:
        place = {"pid": pid, "tid": tid, "ts": ts}
        self.events.append({"ph": kind, "cat": category, "name": name, **place, **more})

    def format_to_string(self, pretty: bool = False) -> str:
        """The trace as JSON."""
        trace = {"traceEvents": self.metadata + self.events, "displayTimeUnit": "ns"}
        return json.dumps(trace, indent=4 if pretty else None, separators=(",", ": ") if pretty else None)


@dataclass(slots=True, eq=False)
class _Execution:
    """An execution of a node: the content of its label, its times (nanoseconds, absolute), and its position in the trace."""

    stats: NodeExecStats
    name: str
    op: str
    inputs: list[str]
    start: int
    end: int
    thread: str
    pid: int
    tensors_pid: int
    lane: int = 0


@dataclass(slots=True, eq=False)
class _Tensor:
    """A tensor: its producer, its bytes, and the time of its last use."""

    name: str
    producer: _Execution
    allocator: str
    nbytes: int
    description: str
    last_used: int


@dataclass(slots=True)
class _Step:
    """The content of a trace: nodes, and tensors by name."""

    shown: list[_Execution] = field(default_factory=list)
    made: dict[str, _Tensor] = field(default_factory=dict)

    @property
    def origin(self) -> int:
        return min((node.start for node in self.shown), default=0)

    def find(self, tensor: str) -> _Tensor | None:
        """A tensor by its name; a received tensor has the name it has on its own device."""
        return self.made.get(tensor) or self.made.get(_sent(tensor))


def label_of(stats: NodeExecStats) -> tuple[str, str, list[str]]:
    """The parts of a node's label: its name, its op and the names of its inputs."""
    label = _LABEL.fullmatch(stats.timeline_label)
    if label is None:
        return stats.node_name, UNKNOWN, []
    return label["name"], label["op"], [each for each in label["inputs"].split(", ") if each]


def _sent(received: str) -> str:
    """The tensor that a receiving node `tensor/_3` receives."""
    transfer = _TRANSFER.fullmatch(received)
    return received if transfer is None else transfer["tensor"]


class Timeline:
    """Draws the step stats of a step.

    Args:
        graph: for nodes whose label does not contain their op and inputs.
    """

    def __init__(self, step_stats: StepStats, graph: Graphs | None = None) -> None:
        self._step_stats = step_stats
        self._graph = graph

    def generate_chrome_trace_format(
        self, show_dataflow: bool = True, show_memory: bool = False, op_time: str = "schedule"
    ) -> str:
        """The trace as JSON; see `analyze_step_stats`."""
        analysis = self.analyze_step_stats(show_dataflow, show_memory, op_time)
        return analysis.chrome_trace.format_to_string(pretty=True)

    def analyze_step_stats(
        self, show_dataflow: bool = True, show_memory: bool = True, op_time: str = "schedule"
    ) -> StepStatsAnalysis:
        """Draw the nodes.

        Args:
            show_dataflow: draw arrows between nodes that are not consecutive in one lane.
            show_memory: draw the tensors, and the memory held over time.

        Raises:
            UnimplementedError: `op_time` is not "schedule": other values are for devices that run kernels in streams.
        """
        if op_time != "schedule":
            raise UnimplementedError(
                f"expected op_time 'schedule', got {op_time!r}: no device here has streams"
            )
        trace = ChromeTrace()
        trace.process("Allocators")
        step = self._read(trace)
        _Drawing(trace, step.origin).draw(step, show_dataflow, show_memory)
        maximums = _draw_memory(trace, step) if show_memory else {}
        return StepStatsAnalysis(trace, maximums)

    def _read(self, trace: ChromeTrace) -> _Step:
        step = _Step()
        for device in self._step_stats.dev_stats:
            pid, tensors = (
                trace.process(f"{device.device} Compute"),
                trace.process(f"{device.device} Tensors"),
            )
            shown = [
                self._make_execution(stats, device.thread_names.get(stats.thread_id, ""), pid, tensors)
                for stats in device.node_stats
            ]
            shown.sort(key=lambda node: (node.start, node.end))
            _assign_lanes(shown)
            step.shown += shown
        for node in step.shown:
            step.made.update({made.name: made for made in _made_by(node)})
        for node in step.shown:
            for tensor in node.inputs:
                if (made := step.find(tensor)) is not None:
                    made.last_used = max(made.last_used, node.end)
        return step

    def _make_execution(self, stats: NodeExecStats, thread: str, pid: int, tensors_pid: int) -> _Execution:
        start = stats.all_start_nanos or stats.all_start_micros * 1000
        length = stats.all_end_rel_nanos if stats.all_start_nanos else stats.all_end_rel_micros * 1000
        name, op, inputs = label_of(stats)
        if op == UNKNOWN and self._graph is not None:
            op, inputs = self._label_from_graph(name)
        return _Execution(stats, name, op, inputs, start, start + length, thread, pid, tensors_pid)

    def _label_from_graph(self, name: str) -> tuple[str, list[str]]:
        assert self._graph is not None
        try:
            operation = self._graph.get_operation_by_name(name)
        except KeyError:
            return UNKNOWN, []
        return operation.type, [tensor_name(each.op.name, each.value_index) for each in operation.inputs]


def _assign_lanes(nodes: Iterable[_Execution]) -> None:
    """Assign each node, by start time, the first lane that is free then."""
    ends: list[int] = []
    for node in nodes:
        free = (lane for lane, end in enumerate(ends) if end <= node.start)
        node.lane = next(free, len(ends))
        ends[node.lane : node.lane + 1] = [node.end]


def _made_by(node: _Execution) -> Iterator[_Tensor]:
    for output in node.stats.output:
        description = output.tensor_description
        allocation = description.allocation_description
        yield _Tensor(
            tensor_name(node.name, output.slot),
            node,
            allocation.allocator_name,
            allocation.requested_bytes,
            str(description).replace('"', ""),
            node.end,
        )


class _Drawing:
    """Draws nodes, arrows and tensors."""

    def __init__(self, trace: ChromeTrace, origin: int) -> None:
        self._trace = trace
        self._origin = origin
        self._arrows = 0

    def draw(self, step: _Step, show_dataflow: bool, show_memory: bool) -> None:
        if show_memory:
            for number, made in enumerate(step.made.values()):
                self._tensor(number, made)
        for node in step.shown:
            self._node(node)
            if show_dataflow:
                self._dataflow(step, node)

    def _at(self, nanoseconds: int) -> float:
        return _micros(nanoseconds - self._origin)

    def _node(self, node: _Execution) -> None:
        fields = {"name": node.name, "op": node.op}
        fields.update({f"input{k}": name for k, name in enumerate(node.inputs)})
        if node.thread:
            fields["thread"] = node.thread
        ts, dur = self._at(node.start), _micros(node.end - node.start)
        self._trace.event("X", "Op", node.op, node.pid, node.lane, ts, dur=dur, args=fields)

    def _dataflow(self, step: _Step, node: _Execution) -> None:
        sources = node.inputs
        if not sources and node.op in ("_Recv", "_HostRecv"):
            sources = [_sent(node.name)]
        for tensor in sources:
            made = step.find(tensor)
            if made is None or (made.producer.pid, made.producer.lane) == (node.pid, node.lane):
                continue
            producer = made.producer
            number, self._arrows = self._arrows, self._arrows + 1
            for kind, end, at in (("s", producer, producer.end), ("t", node, node.start)):
                self._trace.event(kind, "DataFlow", producer.name, end.pid, end.lane, self._at(at), id=number)

    def _tensor(self, number: int, made: _Tensor) -> None:
        node = made.producer
        for kind, at, more in (
            ("N", node.start, {}),
            ("O", node.end, {"args": {"snapshot": {"tensor_description": made.description}}}),
            ("D", made.last_used, {}),
        ):
            self._trace.event(
                kind, "Tensor", made.name, node.tensors_pid, node.lane, self._at(at), id=number, **more
            )


def _draw_memory(trace: ChromeTrace, step: _Step) -> dict[str, AllocationMaximum]:
    """Draw the memory held by each allocator over the step, as a curve, and its maximum.

    A tensor is held from the start of its node until the end of its last consumer.
    """
    changes: dict[str, list[tuple[int, int, _Tensor]]] = {}
    for made in step.made.values():
        if made.nbytes:
            held = changes.setdefault(made.allocator, [])
            held += (made.producer.start, made.nbytes, made), (made.last_used, -made.nbytes, made)
    maximums = {}
    for allocator, found in changes.items():
        found.sort(
            key=lambda change: (change[0], change[1])
        )  # at equal times, releases come before allocations
        total, alive, most = 0, set[str](), AllocationMaximum(0, -1, set())
        for at, nbytes, made in found:
            total += nbytes
            (alive.add if nbytes > 0 else alive.discard)(made.name)
            if total > most.num_bytes:
                most = AllocationMaximum(at // 1000, total, set(alive))
            ts = _micros(at - step.origin)
            trace.event("C", "Memory", allocator, _ALLOCATORS, 0, ts, args={allocator: total})
        maximums[allocator] = most
    return maximums


def _micros(nanoseconds: int) -> float:
    return nanoseconds / 1000
