"""Counts of a run, by op, as the text that is kept in REPORT.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.interop.parity.runner import Result, Verdict
from tests.interop.parity.wanted import COMPARED_ELSEWHERE, wanted

REPORT = Path(__file__).with_name("REPORT.md")


@dataclass
class Tally:
    """The results of one op."""

    op_type: str
    results: list[Result] = field(default_factory=list)

    @property
    def counted(self) -> int:
        return sum(result.verdict is not Verdict.SKIPPED for result in self.results)

    @property
    def agreed(self) -> int:
        return sum(result.verdict is Verdict.AGREES for result in self.results)

    @property
    def skipped(self) -> int:
        return len(self.results) - self.counted

    @property
    def share(self) -> float:
        return self.agreed / self.counted if self.counted else 1.0

    @property
    def others(self) -> list[Result]:
        return [result for result in self.results if result.verdict in (Verdict.DIFFERS, Verdict.MEANT)]


def tallied(results: Iterable[Result]) -> list[Tally]:
    """One tally an op, by name."""
    tallies: dict[str, Tally] = {}
    for result in results:
        tallies.setdefault(result.case.op_type, Tally(result.case.op_type)).results.append(result)
    return sorted(tallies.values(), key=lambda tally: tally.op_type)


def missing(tallies: Sequence[Tally]) -> list[str]:
    """Ops that should have a table and have none."""
    return sorted(wanted() - {tally.op_type for tally in tallies})


def text(tallies: Sequence[Tally]) -> str:
    """The whole report."""
    counted, agreed = sum(tally.counted for tally in tallies), sum(tally.agreed for tally in tallies)
    lines = [
        "# Parity with TensorFlow, op by op",
        "",
        "Written by `python -m tests.interop.parity --report`. What TensorFlow has no kernel for is not counted.",
        "",
        f"{len(tallies)} ops, {counted} cases, {agreed} agree ({agreed / max(counted, 1):.2%}).",
        "",
        "## Differences",
        "",
    ]
    lines += [
        f"- `{result.case!r}` {result.verdict.value}: {result.reason}"
        for tally in tallies
        for result in tally.others
    ]
    lines += ["", "## Ops without a table", "", ", ".join(missing(tallies)) or "none", ""]
    lines += ["## Compared elsewhere", "", *(f"- {op}: {why}" for op, why in COMPARED_ELSEWHERE.items()), ""]
    lines += ["## Ops", "", "| op | cases | agree | not in TensorFlow |", "|---|---|---|---|"]
    lines += [
        f"| {tally.op_type} | {tally.counted} | {tally.agreed} | {tally.skipped} |" for tally in tallies
    ]
    return "\n".join(lines) + "\n"
