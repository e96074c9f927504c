"""A plan as text: what runs where, what broke a program and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from aioexec.execution.executor import Executor
from aioexec.execution.item_runner import ItemRunner
from aioexec.execution.program import Program
from aioexec.planning.instruction import Instruction, with_inner
from aioexec.planning.items import Kind
from aioexec.planning.plan import Item, Partition


def explain(executor: Executor) -> str:
    """Items of the plan in order, with the programs made so far."""
    return "\n".join(_lines(executor))


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
    """The items that are no programs, but for feeds and what partitioning has added."""
    added = (Kind.FEED, Kind.SEND, Kind.RECV)
    items = (item for partition in executor.plan.partitions for item in partition.items)
    return [item for item in items if item.kind is not Kind.PROGRAM and item.kind not in added]


def _latest(runner: ItemRunner) -> Program | None:
    return next(reversed(runner.programs.values()), None) if runner.programs else None


def _lines(executor: Executor) -> Iterator[str]:
    plan = executor.plan
    signature = plan.signature
    yield (
        f"plan: {len(signature.feeds)} feeds, {len(signature.fetches)} fetches, {len(signature.targets)} targets, "
        f"{sum(len(partition.subgraph.nodes) for partition in plan.partitions)} nodes after simplification"
    )
    for partition in plan.partitions:
        yield f"partition {partition.device} (jit {executor.engine.jit}): {len(partition.items)} items"
        for item in partition.items:
            if item.kind is not Kind.PROGRAM:
                yield f"  item {item.index}: {item.kind.value} {item.node.name!r}"
        yield from _program_items(executor, partition)
    broken = breaks_by_op(executor)
    yield f"native {native_share(executor):.1%}; breaks: {dict(broken.most_common()) or 'none'}"


def _program_items(executor: Executor, partition: Partition) -> Iterator[str]:
    for runner in executor.runners:
        if runner.partition is not partition:
            continue
        item = runner.item
        yield f"  item {item.index}: {len(item.instructions)} nodes, writes {[v.name for v in item.writes]}"
        if not runner.programs:
            yield "    tier: reference (no program yet)"
        for shapes, program in runner.programs.items():
            yield from _program_lines(shapes, program)
        for shapes, reason in runner.unfit.items():
            yield f"    shapes {shapes}: reference tier, {reason}"


def _program_lines(shapes: object, program: Program) -> Iterator[str]:
    variant = program.variant
    where = "inline" if program.inline else "worker"
    yield (
        f"    program for {shapes}: {len(variant.rows)} rows, {variant.native} of {variant.total} nodes native, "
        f"{where}, {program.cost / 1000:.1f} us, arena {variant.arena_bytes} bytes, "
        f"constants {variant.constants.nbytes} bytes, {len(variant.kernels)} kernels"
    )
    for row in variant.breaks:
        yield f"      break at {row.instruction.node.name!r} ({row.instruction.node.row.name}): {row.reason}"
