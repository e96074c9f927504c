"""Reports on the execution of a plan: items, programs and their rows, breaks and their reasons; as data and as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from aioexec.data_classes import dataclass
from aioexec.execution.executor import Executor
from aioexec.execution.item_runner import ItemRunner
from aioexec.execution.programs.program import Program
from aioexec.planning.instruction import Instruction, with_inner
from aioexec.planning.items import Kind
from aioexec.planning.layout.variant import Break, ProgramRow, Row, Variant
from aioexec.planning.plan import Item, Partition


@dataclass(frozen=True, slots=True)
class RowReport:
    """A row of a program.

    Attributes:
        kind: "kernel", "break", or another kind such as "jump".
        nodes, ops: those it computes; several if they are fused.
        cost_ns: the estimated cost; 0 if there is no estimate.
        reason: why the row is a break.
    """

    kind: str
    nodes: tuple[str, ...]
    ops: tuple[str, ...]
    cost_ns: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ProgramReport:
    """A program made from an item, for the input shapes in `shapes`.

    `where` its runs start: "inline" or "worker". `packed_bytes` are those of constants in the layout of a kernel, which other
    programs may share, and of variables that have not changed for some runs.
    """

    shapes: str
    rows: tuple[RowReport, ...]
    native: int
    total: int
    where: str
    cost_ns: int
    arena_bytes: int
    constant_bytes: int
    kernels: int
    packed_bytes: int = 0

    @property
    def breaks(self) -> list[RowReport]:
        return [row for row in self.rows if row.kind == "break"]


@dataclass(frozen=True, slots=True)
class ItemReport:
    """An item: one node that is scheduled by itself, or several that form a program for each set of shapes.

    Attributes:
        writes: the variables it writes.
        unfit: the reasons for shapes that have no program.
    """

    index: int
    kind: str
    nodes: tuple[str, ...]
    writes: tuple[str, ...] = ()
    programs: tuple[ProgramReport, ...] = ()
    unfit: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """The items that run on one device."""

    device: str
    jit: str
    items: tuple[ItemReport, ...]


@dataclass(frozen=True, slots=True)
class PlanReport:
    """A plan: its sizes, and the share of its nodes that run natively."""

    feeds: int
    fetches: int
    targets: int
    nodes: int
    partitions: tuple[PartitionReport, ...]
    native_share: float
    breaks_by_op: dict[str, int]


def describe(executor: Executor) -> PlanReport:
    """The plan of an executor, with the programs made so far."""
    plan, signature = executor.plan, executor.plan.signature
    return PlanReport(
        len(signature.feeds),
        len(signature.fetches),
        len(signature.targets),
        sum(len(partition.subgraph.nodes) for partition in plan.partitions),
        tuple(
            PartitionReport(partition.device, executor.engine.jit, tuple(_items(executor, partition)))
            for partition in plan.partitions
        ),
        native_share(executor),
        dict(breaks_by_op(executor).most_common()),
    )


def explain(executor: Executor) -> str:
    """The same as text."""
    return "\n".join(_lines(describe(executor)))


def native_share(executor: Executor) -> float:
    """Nodes inside native programs over all nodes; a program item counts by its last used program, all others do not."""
    native = 0
    total = len(_decisions(executor))
    for runner in executor.runners:
        program = _latest(runner)
        total += sum(1 for _ in _nodes(runner.item))
        native += program.variant.native if program is not None else 0
    return native / total if total else 1.0


def breaks_by_op(executor: Executor) -> Counter[str]:
    """How many nodes of each op run outside native programs."""
    found: Counter[str] = Counter(item.node.row.name for item in _decisions(executor))
    for runner in executor.runners:
        program = _latest(runner)
        if program is None:
            found.update(instruction.node.row.name for instruction in _nodes(runner.item))
        else:
            for row in program.variant.breaks:
                found.update(
                    inner.node.row.name for inner in with_inner([row.instruction]) if not inner.structure
                )
    return found


def _nodes(item: Item) -> Iterator[Instruction]:
    """The nodes of an item and of its loops and conditionals, which are no nodes themselves."""
    return (instruction for instruction in with_inner(item.instructions) if instruction.structure is None)


def _decisions(executor: Executor) -> list[Item]:
    """The items that are not programs, without feeds and the nodes added by partitioning."""
    added = (Kind.FEED, Kind.SEND, Kind.RECV)
    items = (item for partition in executor.plan.partitions for item in partition.items)
    return [item for item in items if item.kind is not Kind.PROGRAM and item.kind not in added]


def _latest(runner: ItemRunner) -> Program | None:
    return next(reversed(runner.cache.programs.values()), None) if runner.cache.programs else None


def _items(executor: Executor, partition: Partition) -> Iterator[ItemReport]:
    for item in partition.items:
        if item.kind is not Kind.PROGRAM:
            yield ItemReport(item.index, item.kind.value, (item.node.name,))
    for runner in executor.runners:
        if runner.partition is partition:
            item = runner.item
            yield ItemReport(
                item.index,
                item.kind.value,
                tuple(instruction.node.name for instruction in item.instructions),
                tuple(variable.name for variable in item.writes),
                tuple(_program(str(shapes), program) for shapes, program in runner.cache.programs.items()),
                tuple((str(shapes), reason) for shapes, reason in runner.cache.unfit.items()),
            )


def _program(shapes: str, program: Program) -> ProgramReport:
    if program.settled is not None and program.settled.packed is not None:
        program = program.settled.packed
    variant = program.variant
    return ProgramReport(
        shapes,
        tuple(_row(row, variant) for row in variant.rows),
        variant.native,
        variant.total,
        "inline" if program.inline else "worker",
        program.cost,
        variant.arena_bytes,
        variant.constants.nbytes,
        len(variant.kernels),
        variant.packed_bytes,
    )


def _row(row: Row, variant: Variant) -> RowReport:
    positions = [row.position]
    if isinstance(row, ProgramRow) and row.parts:
        positions = [position for position, _ in row.parts]
    nodes = [variant.instructions[position].node for position in positions if position >= 0]
    names, ops = tuple(node.name for node in nodes), tuple(node.row.name for node in nodes)
    if isinstance(row, ProgramRow):
        return RowReport("kernel", names, ops, row.cost)
    if isinstance(row, Break):
        return RowReport("break", names, ops, reason=row.reason)
    return RowReport(type(row).__name__.lower(), names, ops)


def _lines(plan: PlanReport) -> Iterator[str]:
    yield (
        f"plan: {plan.feeds} feeds, {plan.fetches} fetches, {plan.targets} targets, "
        f"{plan.nodes} nodes after simplification"
    )
    for partition in plan.partitions:
        yield f"partition {partition.device} (jit {partition.jit}): {len(partition.items)} items"
        for item in partition.items:
            yield from _item_lines(item)
    yield f"native {plan.native_share:.1%}; breaks: {plan.breaks_by_op or 'none'}"


def _item_lines(item: ItemReport) -> Iterator[str]:
    if item.kind != Kind.PROGRAM.value:
        yield f"  item {item.index}: {item.kind} {item.nodes[0]!r}"
        return
    yield f"  item {item.index}: {len(item.nodes)} nodes, writes {list(item.writes)}"
    if not item.programs:
        yield "    tier: reference (no program yet)"
    for program in item.programs:
        yield (
            f"    program for {program.shapes}: {len(program.rows)} rows, {program.native} of {program.total} nodes native, "
            f"{program.where}, {program.cost_ns / 1000:.1f} us, arena {program.arena_bytes} bytes, "
            f"constants {program.constant_bytes} bytes, packed constants {program.packed_bytes} bytes, "
            f"{program.kernels} kernels"
        )
        for row in program.breaks:
            yield f"      break at {row.nodes[0]!r} ({row.ops[0]}): {row.reason}"
    for shapes, reason in item.unfit:
        yield f"    shapes {shapes}: reference tier, {reason}"
