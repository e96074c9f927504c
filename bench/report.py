"""Prints reports as tables and writes them as JSON."""

import json
import statistics
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.harness import Effort, Figures, Report
from bench.peers import PEERS, machine
from bench.targets import OURS, Run, Verdict, verdicts

OURS_BEFORE = "aioexec_before"


def show(report: Report) -> None:
    """Print the table of one benchmark."""
    console = Console(width=None if sys.stdout.isatty() else 190)
    peers = [peer for peer in PEERS if any(peer in figures for figures in report.cases.values())]
    title = f"{report.name}: {report.question}\n{report.measures}, minimum / median"
    table = Table(title=title, title_justify="left")
    table.add_column("case")
    for peer in peers:
        table.add_column(PEERS[peer].title, justify="right")
    table.add_column("best peer / aioexec", justify="right")
    table.add_column("TensorFlow / aioexec", justify="right")
    if OURS_BEFORE in peers:
        table.add_column("before / aioexec", justify="right")
    for case, figures in report.cases.items():
        cells = [_cell(figures.get(peer), report.unit) for peer in peers]
        ratios = [ratio_to_best(report, figures), ratio_to_tensorflow(figures)]
        ratios += [_ratio(figures, [OURS_BEFORE])] if OURS_BEFORE in peers else []
        table.add_row(case, *cells, *ratios)
    console.print(table)
    console.print(_caption(report), markup=False, highlight=False)


def show_verdicts(runs: Sequence[Run]) -> None:
    """Print what runs show of each target, with their spread."""
    console = Console(width=None if sys.stdout.isatty() else 190)
    table = Table(title=f"Targets, {len(runs)} runs: a peer's time over aioexec's", title_justify="left")
    for name in ("workload", "case", "peer"):
        table.add_column(name)
    for name in ("target", "least", "median", "most", "spread", "met"):
        table.add_column(name, justify="right")
    found = verdicts(runs)
    for verdict in found:
        table.add_row(*_verdict_cells(verdict))
    console.print(table)
    console.print(f"{sum(verdict.is_met for verdict in found)} of {len(found)} targets met", highlight=False)


def _verdict_cells(verdict: Verdict) -> list[str]:
    target, shown = verdict.target, verdict.shown
    unit = f" {target.unit}" if target.limit else ""
    wanted = f"≤ {target.limit:g}{unit}" if target.limit else f"≥ {target.ratio:g}"
    met = "yes" if verdict.is_within else f"at {verdict.peak:.0%} of the peak" if verdict.is_met else "NO"
    spread = (max(shown) - min(shown)) / abs(verdict.median) if verdict.median else 0.0
    figures = [f"{value:.3g}{unit}" for value in (min(shown), verdict.median, max(shown))]
    peer = PEERS[target.peer or OURS].title
    return [
        target.workload,
        target.case,
        peer,
        wanted,
        *figures,
        f"{spread:.0%}",
        met,
    ]


def as_run(reports: Iterable[Report]) -> Run:
    """The content of a run file for each benchmark."""
    return {report.name: _as_json(report) for report in reports}


def write(path: Path, runs: Sequence[Run], effort: Effort) -> None:
    """Write all runs to a file."""
    document: dict[str, Any] = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "rounds": effort.rounds,
        "seconds_a_round": effort.seconds,
        "runs": list(runs),
    }
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def read(paths: Iterable[Path]) -> list[Run]:
    """The runs in files that `write` has written."""
    return [run for path in paths for run in json.loads(path.read_text(encoding="utf-8"))["runs"]]


def failures(report: Report) -> list[str]:
    """Return what went wrong, a line each."""
    return [
        f"{report.name} {case}: {PEERS[peer].title}: {figure.error}"
        for case, figures in report.cases.items()
        for peer, figure in figures.items()
        if figure.error is not None
    ]


def ratio_to_best(report: Report, figures: dict[str, Figures]) -> str:
    """Say how many times faster than the best other peer aioexec is."""
    return _ratio(figures, [peer for peer in figures if peer not in (OURS, OURS_BEFORE, *report.references)])


def ratio_to_tensorflow(figures: dict[str, Figures]) -> str:
    """Say how many times faster than TensorFlow, as it comes, aioexec is."""
    return _ratio(figures, ["tensorflow"] if "tensorflow" in figures else ["tensorflow_threads"])


def _ratio(figures: dict[str, Figures], rivals: list[str]) -> str:
    well = {peer: figure.minimum for peer, figure in figures.items() if figure.error is None}
    others = [well[peer] for peer in rivals if peer in well]
    return f"{min(others) / well[OURS]:.2f}" if others and OURS in well else "-"


def _as_json(report: Report) -> dict[str, Any]:
    return {
        "question": report.question,
        "measures": report.measures,
        "unit": report.unit,
        "absent": report.absent,
        "cases": {
            case: {
                "peers": {peer: figure.as_json() for peer, figure in figures.items()},
                "best_peer_ratio": ratio_to_best(report, figures),
                "tensorflow_ratio": ratio_to_tensorflow(figures),
            }
            for case, figures in report.cases.items()
        },
    }


def _cell(figure: Figures | None, unit: str) -> str:
    if figure is None:
        return ""
    if figure.error is not None:
        return "failed"
    scale = 1.0
    if unit == "s" and figure.median < 1:
        scale, unit = (1e3, "ms") if figure.median >= 1e-3 else (1e6, "µs")
    return f"{_digits(figure.minimum * scale)} / {_digits(figure.median * scale)} {unit}"


def _comparisons(peer: str, figures: dict[str, Figures]) -> list[str]:
    """How far a peer's results are from the reference's, and its part of the machine's peak."""
    found, own = [], figures[peer]
    reference = own.about.get("compared_with", peer)
    if reference != peer:
        found.append(f"{own.about['difference']:.1e} from {PEERS[reference].title}'s results")
    if peer != "peak" and all(figures[name].error is None for name in ("peak", peer) if name in figures):
        found += [f"{figures['peak'].minimum / own.minimum:.0%} of the peak"] if "peak" in figures else []
    return found


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _caption(report: Report) -> str:
    lines = []
    for case, figures in report.cases.items():
        for peer, figure in figures.items():
            notes = [f"{name} {_digits(statistics.median(values))}" for name, values in figure.notes.items()]
            if figure.about.get("native_share") is not None:
                notes.append(str(figure.about["native_share"]))
            if notes:
                notes += _comparisons(peer, figures)
                lines.append(f"{case}, {PEERS[peer].title}: {', '.join(notes)}")
    figures_by_peer = [pair for figures in report.cases.values() for pair in figures.items()]
    abouts = {peer: figure.about for peer, figure in figures_by_peer if "version" in figure.about}
    lines += [
        f"{PEERS[peer].title} {about['version']}, threads: {about['threads']}, "
        f"results {'/'.join(about['dtypes'])}"
        for peer, about in abouts.items()
    ]
    if report.absent:
        lines.append("not installed: " + ", ".join(PEERS[peer].title for peer in report.absent))
    return "\n".join([*lines, *failures(report)])
