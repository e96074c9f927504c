"""A plan: the result of compiling a signature. Frozen; independent of shapes; shared by all steps of the signature."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.graph.device_spec import parse
from aioexec.graph.kernels.device_kernel import Launcher
from aioexec.graph.kernels.kernel import Compute, Role
from aioexec.graph.kernels.kernel_registry import RUN_BY_ENGINE, is_overridden
from aioexec.planning.control_flow.frames import Frame, check_fetches, frames
from aioexec.planning.instruction import Instruction, RegionPlan, StructurePlan, with_inner
from aioexec.planning.items import ItemNodes, Kind, control_port_of, is_known, port_of
from aioexec.planning.ownership import with_keepers
from aioexec.planning.subgraph import Bind, Loop, Node, Region, Signature, Subgraph
from aioexec.resources.variable import Variable


@dataclass(frozen=True, slots=True)
class Edge:
    """Item `target` waits for an outcome of the item this edge belongs to.

    Attributes:
        port: the outcome; all items but a Switch have only 0.
        position: the index of the input of `target`, if that is a Merge; -1 otherwise and for control edges.
    """

    port: int
    target: int
    position: int


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """A schedulable piece of a partition.

    Attributes:
        instructions: its nodes in order; one, unless it is a program.
        inputs: values it takes from feeds and other items (not constants).
        outputs: values that are fetched, in order of the fetches, then those that other items take.
        shape_inputs: inputs whose content determines shapes inside the item.
        writes: variables that are written; a step holds their lease while the item runs.
        device: full name of the device.
        frame: index into the partition's frames.
        edges: the items that wait for it.
        waits: how many edges it waits for; of a Merge, how many control edges.
        arrived: of a Merge, inputs that are known when the step starts.
        enters: of an Enter, the index of the frame it enters.
    """

    index: int
    kind: Kind
    instructions: tuple[Instruction, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    shape_inputs: tuple[int, ...]
    writes: tuple[Variable, ...]
    device: str
    frame: int
    edges: tuple[Edge, ...]
    waits: int
    arrived: tuple[int, ...]
    enters: int

    @property
    def node(self) -> Node:
        """The node of an item that is not a program."""
        return self.instructions[0].node


@dataclass(frozen=True, slots=True)
class FramePlan:
    """The part of a loop in one partition.

    Attributes:
        parent: index of the frame around it; its own for the outermost, which is not a loop.
        enters: how many Enter items lead into it.
        exits: its Exit items.
    """

    name: str
    parent: int
    parallel_iterations: int
    enters: int
    exits: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """The part of a plan on one device: items over a table of values.

    Attributes:
        device: full name of the device.
        values: a value for each output of each node; constants and variables are set, everything else is None.
        feeds: the number of the value of each feed; empty on all devices but the client's, as are the fetches.
        fetches: the number of the value of each fetch.
        fetch_references: positions of fetches that are references, read at the end of the step.
        fed_fetches: fetch position -> feed position, for tensors both fed and fetched: the caller's object is returned.
        items: in an order in which they can run, but for the back edges of loops.
        frames: the outermost, then the loops.
        producers: the item that outputs each value, for values that are an item's output.
        uploads: constants that a device with memory of its own needs there, and their nodes.
        subgraph: the subgraph from which it was made; `shown`: the same before loops and conditionals were folded, for export.
    """

    device: str
    values: tuple[Any, ...]
    feeds: tuple[int, ...]
    fetches: tuple[int, ...]
    fetch_references: tuple[int, ...]
    fed_fetches: dict[int, int]
    items: tuple[Item, ...]
    frames: tuple[FramePlan, ...]
    producers: dict[int, int]
    uploads: tuple[tuple[int, Node], ...]
    subgraph: Subgraph
    shown: Subgraph


@dataclass(frozen=True, slots=True, eq=False)
class RemotePartition:
    """The part of a plan in another process: it is sent there, where planning continues.

    Attributes:
        task: the prefix of the names of its devices, "/job:worker/replica:0/task:1".
        subgraph: its nodes, on devices of that task.
    """

    task: str
    subgraph: Subgraph


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The result of compiling a signature: a partition for each device of this process, the client's first, and the others."""

    signature: Signature
    partitions: tuple[Partition, ...]
    remote: tuple[RemotePartition, ...] = ()

    @property
    def client(self) -> Partition:
        return self.partitions[0]


def assemble(
    subgraph: Subgraph, items: Sequence[ItemNodes], bind: Bind, device: str, is_partial: bool, shown: Subgraph
) -> Partition:
    """Number the values of one device's subgraph and freeze it."""
    ids: dict[tuple[int, int], int] = {}
    values: list[Any] = []
    for node in _with_inner_nodes(subgraph.nodes):
        for index in range(node.output_count):
            ids[id(node), index] = len(values)
            values.append(_find_known(node, index, bind))
    fetches = tuple(ids[id(node), index] for node, index in subgraph.fetches)
    fed = {id(node): position for position, node in enumerate(subgraph.feeds)}
    assembler = _Assembler(items, ids, values, fetches, bind, device, is_partial)
    frame_of = frames(subgraph)
    check_fetches(subgraph, frame_of)
    made = assembler.items(frame_of)
    return Partition(
        device,
        tuple(values),
        tuple(ids[id(node), 0] for node in subgraph.feeds),
        fetches,
        tuple(
            k
            for k, (node, index) in enumerate(subgraph.fetches)
            if node.output_dtype(index).is_ref and node.feed is None
        ),
        {k: fed[id(node)] for k, (node, _) in enumerate(subgraph.fetches) if id(node) in fed},
        made,
        _frame_plans(assembler.frames, made),
        {value: item.index for item in made for value in item.outputs},
        tuple(
            (ids[id(node), 0], node)
            for node in subgraph.nodes
            if node.is_constant and node.row.role is Role.COPY_TO_DEVICE
        ),
        subgraph,
        shown,
    )


def _with_inner_nodes(nodes: Sequence[Node]) -> Iterator[Node]:
    """Nodes, with the parameters and nodes inside of structures."""
    for node in nodes:
        yield node
        if node.structure is not None:
            yield from node.structure.parameters
            for part in node.structure.regions:
                yield from _with_inner_nodes(part.nodes)


def _find_known(node: Node, index: int, bind: Bind) -> Any:
    """A value that is the same in every step: a constant, or a variable (the object, not its content)."""
    if node.values is not None:
        return node.values[index]
    return bind(node.op, node.device)() if node.feed is None and node.row.role is Role.VARIABLE else None


def _frame_plans(order: Sequence[Frame], items: Sequence[Item]) -> tuple[FramePlan, ...]:
    place = {frame: k for k, frame in enumerate(order)}
    return tuple(
        FramePlan(
            frame.name,
            0 if frame.parent is None else place[frame.parent],
            frame.parallel_iterations,
            sum(item.kind is Kind.ENTER and item.enters == k for item in items),
            tuple(item.index for item in items if item.kind is Kind.EXIT and item.frame == k),
        )
        for k, frame in enumerate(order)
    )


class _Assembler:
    """Makes the items of one partition.

    Attributes:
        cut: the nodes of each item.
        place: the index of the item of each node, by `id` of the node.
        ids: the value of each output, by `id` of the node and index.
        values: the content of each value, if it is known before a step; otherwise None.
        fetches: the values fetched.
        bind: makes the function that computes a node on a device.
        device, device_type: where the partition runs.
        is_partial: whether it is for a partial run, whose feeds come during the step.
        frames: those found so far, the outermost first; the only attribute that changes.
    """

    def __init__(
        self,
        cut: Sequence[ItemNodes],
        ids: dict[tuple[int, int], int],
        values: list[Any],
        fetches: Sequence[int],
        bind: Bind,
        device: str,
        is_partial: bool,
    ) -> None:
        self.cut = cut
        self.place = {id(node): k for k, item in enumerate(cut) for node in item.nodes}
        self.ids = ids
        self.values = values
        self.fetches = fetches
        self.bind = bind
        self.device = device
        self.device_type = parse(device).device_type or ""
        self.is_partial = is_partial
        self.frames: list[Frame] = []

    def items(self, frame_of: Mapping[int, Frame]) -> tuple[Item, ...]:
        made = [tuple(self._instruction(node) for node in item.nodes) for item in self.cut]
        made = with_keepers(made, self.fetches)
        producers = {
            output: instruction
            for item in made
            for instruction in with_inner(item)
            for output in instruction.outputs
        }
        used_by = _users(made)
        self._number_frames(frame_of)
        index_of_frame = {frame: k for k, frame in enumerate(self.frames)}
        edges: list[list[Edge]] = [[] for _ in self.cut]
        waits = [self._connect(k, edges) for k in range(len(self.cut))]
        result = []
        for k, (item, instructions) in enumerate(zip(self.cut, made, strict=True)):
            own = {value for instruction in instructions for value in instruction.outputs}
            used = {value for instruction in instructions for value in instruction.inputs}
            outside = {value for value in used - own if self.values[value] is None}
            is_feed = item.kind is Kind.FEED  # it has an output even if it is fetched or has no consumer
            shared = sorted(value for value in own if is_feed or used_by.get(value, set()) - {k})
            result.append(
                Item(
                    k,
                    item.kind,
                    instructions,
                    tuple(sorted(outside)),
                    tuple(dict.fromkeys([*(value for value in self.fetches if value in own), *shared])),
                    tuple(sorted(_shape_operands(instructions) & outside)),
                    _written(instructions, self.values, producers),
                    self.device,
                    index_of_frame[frame_of[id(item.nodes[0])]],
                    tuple(edges[k]),
                    waits[k],
                    self._arrived(item),
                    self._frame_entered(item, frame_of),
                )
            )
        return tuple(result)

    def _number_frames(self, frame_of: Mapping[int, Frame]) -> None:
        """All frames of the partition, parents before children, the outermost first."""
        found: dict[Frame, None] = {}

        def visit(frame: Frame) -> None:
            if frame.parent is not None and frame.parent not in found:
                visit(frame.parent)
            found[frame] = None

        for frame in frame_of.values():
            if frame.parent is None:
                visit(frame)
        for frame in frame_of.values():
            visit(frame)
        self.frames = list(found) or [Frame("", None, 1)]  # an empty graph runs as well
        for item in self.cut:
            if item.kind is Kind.ENTER and self._entered(item.nodes[0], frame_of) is None:
                attrs = item.nodes[0].op.attrs  # no node of the partition is inside
                outside = frame_of[id(item.nodes[0])]
                self.frames.append(
                    Frame(attrs["frame_name"], outside, attrs["parallel_iterations"], outside.depth + 1)
                )

    def _entered(self, enter: Node, frame_of: Mapping[int, Frame]) -> Frame | None:
        """The frame an Enter leads into, if it is known; `frame_of` has the frame around it."""
        name, outside = enter.op.attrs["frame_name"], frame_of[id(enter)]
        found = (frame for frame in self.frames if frame.name == name and frame.parent is outside)
        return next(found, None)

    def _frame_entered(self, item: ItemNodes, frame_of: Mapping[int, Frame]) -> int:
        """The index of the frame that an item enters; 0 if it is not an Enter."""
        if item.kind is not Kind.ENTER:
            return 0
        entered = self._entered(item.nodes[0], frame_of)
        assert entered is not None
        return self.frames.index(entered)

    def _connect(self, target: int, edges: list[list[Edge]]) -> int:
        """Add the edges that lead to an item; returns their number."""
        item = self.cut[target]
        is_merge = item.kind is Kind.MERGE
        data: dict[tuple[int, int, int], None] = {}
        control: dict[tuple[int, int, int], None] = {}
        for node in item.nodes:
            for position, (producer, index) in enumerate(node.inputs):
                source = self.place.get(id(producer))
                if source is not None and source != target:
                    data[source, port_of(producer, index), position if is_merge else -1] = None
            for producer in node.controls:
                source = self.place.get(id(producer))
                if source is not None and source != target:
                    control[source, control_port_of(producer), -1] = None
        if not is_merge:
            control = data | control
            data = {}
        for source, port, position in (*data, *control):
            edges[source].append(Edge(port, target, position))
        return len(control)

    def _arrived(self, item: ItemNodes) -> tuple[int, ...]:
        if item.kind is not Kind.MERGE:
            return ()
        inputs = item.nodes[0].inputs
        return tuple(k for k, (producer, _) in enumerate(inputs) if is_known(producer, self.is_partial))

    def _instruction(self, node: Node) -> Instruction:
        ids = self.ids
        return Instruction(
            node,
            self._compute(node),
            tuple([ids[id(producer), index] for producer, index in node.inputs]),
            tuple([ids[id(node), index] for index in range(node.output_count)]),
            node.dereferences(),
            node.feed is None and is_overridden(node.op, self.device_type),
            None if node.structure is None else self._structure(node),
        )

    def _structure(self, node: Node) -> StructurePlan:
        structure = node.structure
        assert structure is not None
        regions = [self._region(part) for part in structure.regions]
        used = {value for part in regions for each in with_inner(part.instructions) for value in each.inputs}
        used |= {value for part in regions for value in part.results if value is not None}
        return StructurePlan(
            isinstance(structure, Loop),
            tuple(self.ids[id(parameter), 0] for parameter in structure.parameters),
            (regions[0], regions[1]),
            {value: self.values[value] for value in sorted(used) if self.values[value] is not None},
        )

    def _region(self, part: Region) -> RegionPlan:
        return RegionPlan(
            tuple(self._instruction(node) for node in part.nodes if not is_known(node)),
            tuple(None if edge is None else self.ids[id(edge[0]), edge[1]] for edge in part.results),
        )

    def _compute(self, node: Node) -> Compute:
        if node.feed is not None or node.row.role in RUN_BY_ENGINE:
            return _run_by_role  # the executor runs these by their role
        if node.on_host:
            return _without_launcher(self.bind(node.op, ""))
        return self.bind(node.op, node.device)


def _run_by_role(value: Any) -> Any:
    return value


def _without_launcher(compute: Compute) -> Compute:
    """A kernel of the processor as one of a device with memory of its own."""

    def call(launcher: Launcher, *inputs: Any) -> Any:
        with np.errstate(all="ignore"):
            return compute(*inputs)

    return call


def _users(items: Sequence[Sequence[Instruction]]) -> dict[int, set[int]]:
    """The indices of the items that take each value."""
    users: dict[int, set[int]] = {}
    for k, instructions in enumerate(items):
        for instruction in instructions:
            for value in instruction.inputs:
                users.setdefault(value, set()).add(k)
    return users


def _shape_operands(instructions: Sequence[Instruction]) -> set[int]:
    """Values whose content a shape operand depends on, followed backwards through the item."""
    wanted: set[int] = set()
    for instruction in reversed(list(with_inner(instructions))):
        if instruction.node.feed is not None:
            continue
        wanted.update(value for parameter, value in instruction.parameters() if parameter in wanted)
        row = instruction.node.row
        if (
            row.lists is not None and not row.lists.also_tensors
        ):  # the elements of a list are never known; its length may be
            asked = (row.lists.size, row.lists.index if row.lists.takes_all else -1)
            wanted.update(instruction.inputs[k] for k in asked if k >= 0)
            continue
        if wanted.intersection(instruction.outputs) and not row.shape_only and row.role is not Role.READ:
            wanted.update(instruction.inputs)
        count = len(instruction.inputs)
        wanted.update(instruction.inputs[k] for k in row.shape_operands if -count <= k < count)
    return wanted


def _written(
    instructions: Sequence[Instruction], values: Sequence[Any], producers: Mapping[int, Instruction]
) -> tuple[Variable, ...]:
    """The variables written, found through ops that forward a handle or reference; sorted by id."""
    found: set[Variable] = set()
    everything = list(with_inner(instructions))
    outside = {parameter: value for each in everything for parameter, value in each.parameters()}
    for instruction in everything:
        for position in instruction.node.row.writes if instruction.node.feed is None else ():
            value = instruction.inputs[position]
            while value in outside or _forwards_input(producers.get(value)):
                value = outside[value] if value in outside else producers[value].inputs[0]
            if isinstance(values[value], Variable):
                found.add(values[value])
    return tuple(sorted(found, key=lambda variable: variable.id))


def _forwards_input(producer: Instruction | None) -> bool:
    return producer is not None and producer.structure is None and bool(producer.inputs)
