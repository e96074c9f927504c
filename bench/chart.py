"""A chart of the ratios: for each workload and peer the speedup of aioexec, on a logarithmic scale, as SVG.

A bar ends at the median run, a line spans minimum to maximum, a tick marks the target.
"""

import math
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from bench.peers import PEERS
from bench.targets import Run, Verdict, verdicts

LABELS, BARS, FIGURES, ROW, TOP = 300, 460, 60, 20, 46  # pixels
LEAST, MOST = 0.25, 128.0
GRID = (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128)
COLOURS = {
    "tensorflow": "#e8833a",
    "tensorflow_inline": "#f2b27f",
    "tensorflow_threads": "#f2b27f",
    "onnxruntime": "#5b7fb9",
    "onnxruntime_threads": "#9db4da",
    "jax": "#8a62b5",
    "torch": "#c9504c",
    "torch_compiled": "#e39a97",
    "numpy": "#4f9d76",
}
STYLE = (
    "text{font:12px sans-serif;fill:#444} .grid{stroke:#ddd} .one{stroke:#444} .range{stroke:#444} "
    ".target{stroke:#000;stroke-width:2}"
)


def draw(runs: Sequence[Run]) -> str:
    """The chart of all targets that are ratios of times."""
    found = [verdict for verdict in verdicts(runs) if verdict.target.is_of_times]
    most = max((len(verdict.shown) for verdict in found), default=0)
    height = TOP + ROW * len(found) + 10
    width = LABELS + BARS + FIGURES
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f"<style>{STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="{LABELS}" y="16">times faster than the peer (bar: median of {most} runs; black tick: target)</text>',
        *_grid(height),
    ]
    for number, verdict in enumerate(found):
        is_first = number == 0 or found[number - 1].target.workload != verdict.target.workload
        lines += _row(verdict, TOP + ROW * number, is_first)
    return "\n".join([*lines, "</svg>", ""])


def _x(ratio: float) -> float:
    """Where a ratio is drawn; what is off the scale, at its end."""
    kept = min(max(ratio, LEAST), MOST)
    return round(LABELS + BARS * math.log(kept / LEAST) / math.log(MOST / LEAST), 1)


def _grid(height: int) -> Iterator[str]:
    for ratio in GRID:
        kind = "one" if ratio == 1 else "grid"
        yield f'<line class="{kind}" x1="{_x(ratio)}" x2="{_x(ratio)}" y1="{TOP - 6}" y2="{height - 8}"/>'
        yield f'<text x="{_x(ratio)}" y="{TOP - 10}" text-anchor="middle">{ratio:g}</text>'


def _row(verdict: Verdict, top: int, is_first: bool) -> Iterator[str]:
    target, middle = verdict.target, top + ROW // 2
    start, end = sorted((_x(1), _x(verdict.median)))
    colour = COLOURS.get(target.peer, "#888")
    if is_first:
        yield f'<text x="4" y="{middle + 4}">{escape(target.workload)}</text>'
    peer = escape(PEERS[target.peer].title)
    yield f'<text x="{LABELS - 8}" y="{middle + 4}" text-anchor="end" fill="{colour}">{peer}</text>'
    yield f'<rect x="{start}" y="{top + 4}" width="{round(end - start, 1)}" height="{ROW - 8}" fill="{colour}"/>'
    least, most = _x(min(verdict.shown)), _x(max(verdict.shown))
    yield f'<line class="range" x1="{least}" x2="{most}" y1="{middle}" y2="{middle}"/>'
    wanted = _x(target.ratio)
    yield f'<line class="target" x1="{wanted}" x2="{wanted}" y1="{top + 2}" y2="{top + ROW - 2}"/>'
    yield f'<text x="{LABELS + BARS + 8}" y="{middle + 4}">{verdict.median:.3g}</text>'
