"""`aioexec explain`: shows the plan of a step: items, rows of their programs, costs, and breaks."""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.table import Table

from aioexec.command_line.arguments import add_examples, add_json
from aioexec.command_line.output import console, print_json
from aioexec.execution.explain import ItemReport, PlanReport, ProgramReport, RowReport
from aioexec.inspection import stepping
from aioexec.inspection.stepping import Stepping

_NAMES_SHOWN = 3
"""The most node names shown for a row."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    stepping.add_arguments(parser)
    add_json(parser)
    add_examples(
        parser,
        """
the plan of a prediction: what runs natively, what it costs, what does not
aioexec explain frozen.pb --fetch probabilities --feed images=1,224,224,3:float32
which ops of a training step have no native kernel
aioexec explain model.ckpt-1000.meta --fetch train --feed x=32,784 --json | jq .breaks_by_op
""",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the step once, show its plan, and return the exit status."""

    async def look(opened: Stepping) -> None:
        await opened.step()
        plan = await opened.session.describe(opened.fetches, opened.feeds)
        if arguments.json:
            print_json(plan)
        else:
            show(plan, console())

    return stepping.run(arguments, look)


def show(plan: PlanReport, console: Console) -> None:
    """Print a plan as tables."""
    console.print(
        f"{plan.feeds} feeds, {plan.fetches} fetches, {plan.targets} targets; {plan.nodes} nodes after simplification, "
        f"{plan.native_share:.1%} of them native",
    )
    if plan.breaks_by_op:
        outside = ", ".join(f"{op} {count}" for op, count in plan.breaks_by_op.items())
        console.print(f"outside programs: {outside}")
    for partition in plan.partitions:
        console.print(f"\n{partition.device}, jit {partition.jit}")
        for item in partition.items:
            _show_item(item, console)


def _show_item(item: ItemReport, console: Console) -> None:
    if not item.programs:
        what = f"{item.kind} {item.nodes[0]}" if len(item.nodes) == 1 else f"{len(item.nodes)} nodes"
        reasons = "; ".join(reason for _, reason in item.unfit)
        tier = f", reference kernels: {reasons}" if reasons else ""
        console.print(f"item {item.index}: {what}{tier}")
    for program in item.programs:
        title = (
            f"item {item.index}: {len(program.rows)} rows, {program.native} of {program.total} nodes native, begins "
            f"{'on the loop' if program.where == 'inline' else 'on a worker'}; {program.cost_ns / 1000:.1f} µs, "
            f"arena {program.arena_bytes:,} bytes, constants {program.constant_bytes:,} bytes, {program.kernels} kernels"
        )
        console.print(title)
        console.print(_rows_table(program))
        if item.writes:
            console.print(f"writes {', '.join(item.writes)}")


def _rows_table(program: ProgramReport) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("row", justify="right")
    for name in ("does", "ops", "nodes"):
        table.add_column(name)
    table.add_column("µs, estimated", justify="right")
    if program.breaks:
        table.add_column("why outside")
    for number, row in enumerate(program.rows):
        cost = f"{row.cost_ns / 1000:.2f}" if row.cost_ns else ""
        cells = [str(number), row.kind, _counted(row), _shortened(row.nodes), cost]
        table.add_row(*cells, *([row.reason] if program.breaks else []))
    return table


def _counted(row: RowReport) -> str:
    counts = {op: row.ops.count(op) for op in row.ops}
    return ", ".join(op if count == 1 else f"{count} {op}" for op, count in counts.items())


def _shortened(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:_NAMES_SHOWN])
    return shown if len(names) <= _NAMES_SHOWN else f"{shown} and {len(names) - _NAMES_SHOWN} more"
