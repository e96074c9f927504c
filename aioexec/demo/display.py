"""The output of the demo: a live panel on a terminal, otherwise a line at intervals, and a summary at the end.

The panel is drawn on the event loop, so its time is part of the loop lag it shows.
"""

import asyncio
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from rich.console import Console, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from aioexec.demo.digits import SIZE
from aioexec.demo.progress import REQUIRED_NATIVE_SHARE, Outcome, Prediction, Progress

_FRAME_SECONDS = 0.125
_LINE_SECONDS = 1.0
_WIDTH = 78
_NOTE = 26  # width in characters of the column beside the numbers
_BARS = "▁▂▃▄▅▆▇█"
_INKS = " ░▒▓█"


async def watch(console: Console, progress: Progress) -> None:
    """Show progress until cancelled: as a live panel, or as lines."""
    if not console.is_terminal:
        while True:
            await asyncio.sleep(_LINE_SECONDS)
            console.print(line(progress), soft_wrap=True)
    with Live(panel(progress), console=console, auto_refresh=False) as live:
        try:
            while True:
                live.update(panel(progress), refresh=True)
                await asyncio.sleep(_FRAME_SECONDS)
        finally:
            live.update(panel(progress))  # the last frame stays on the screen


def line(progress: Progress) -> str:
    """Progress in one line."""
    return (
        f"{progress.seconds:.0f} s  epoch {progress.epochs}  loss {progress.loss:.4f}  "
        f"accuracy {progress.accuracy:.4f}  {progress.steps_per_second():,.0f} steps/s "
        f"({progress.native_share:.0%} native)  worst loop lag {progress.probe.worst_ms:.1f} ms  "
        f"{progress.answered} predictions answered"
    )


def panel(progress: Progress) -> RenderableType:
    """Progress as a panel: numbers on the left, the latest prediction on the right.

    The layout is manual: rich's tables take three times as long and block the loop meanwhile.
    """
    losses = [math.log(max(loss, 1e-9)) for loss in progress.losses]
    right = sum(prediction.is_right for prediction in progress.recent)
    done = min(_NOTE, round(_NOTE * progress.seconds / progress.goal_seconds))
    tier = "" if progress.native_share >= REQUIRED_NATIVE_SHARE else "NumPy till it is compiled"
    numbers = [
        ("loss", f"{progress.loss:.4f}", sparkline(losses), "magenta"),
        ("test accuracy", f"{progress.accuracy:.1%}", sparkline(progress.accuracies), "green"),
        ("steps/s", f"{progress.steps_per_second():,.0f}", _steps(progress.began_at, progress.steps), ""),
        ("run natively", f"{progress.native_share:.0%}", tier, ""),
        ("worst loop lag", f"{progress.probe.worst_ms:.1f} ms", "in this one event loop", ""),
        ("over HTTP", f"{progress.answered:,}", f"{right} of the last {len(progress.recent)} right", ""),
        ("", "", "", ""),
        ("time", f"{progress.seconds:.0f} s", "━" * done + "╌" * (_NOTE - done), "blue"),
        ("", "", "", ""),
    ]
    latest_lines = _latest(progress.recent[-1] if progress.recent else None)
    text = Text(no_wrap=True)
    for (label, value, note, style), latest in zip(numbers, latest_lines, strict=True):
        text.append(f"{label:14} ", "dim").append(f"{value:>8}  ", "bold")
        text.append(f"{note:{_NOTE}}  ", style).append_text(latest).append("\n")
    text.rstrip()
    return Panel(
        text,
        title="[bold]aioexec demo[/]: handwritten digits",
        title_align="left",
        subtitle=f"[dim]{progress.url}[/]",
        subtitle_align="left",
        width=_WIDTH,
        border_style="blue",
    )


def summary(outcome: Outcome) -> RenderableType:
    """The final numbers."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    table.add_row("test accuracy", f"[bold green]{outcome.accuracy:.4f}[/]")
    table.add_row(
        "training",
        f"{outcome.steps_per_second:,.0f} steps/s ({outcome.steps:,} steps in {outcome.seconds:.1f} s), "
        f"{outcome.latest_steps_per_second:,.0f} at the end",
    )
    table.add_row("loop lag", str(outcome.lag))
    table.add_row("run natively", f"{outcome.native_share:.1%} of the nodes of a training step")
    table.add_row("over HTTP", f"{outcome.answered:,} predictions answered while training")
    table.add_row(
        "saved",
        f"at step {outcome.began_at + outcome.steps:,} in {outcome.folder}; the next demo continues from there",
    )
    table.add_row("its history", f"tensorboard --logdir {outcome.folder}")
    table.add_row("one prediction", f"POST {outcome.predict_url}")
    answer = _verdict(outcome.prediction)
    table.add_row(Text(drawing(outcome.prediction.image), "white on grey11"), answer)
    return table


def _steps(began_at: int, steps: int) -> str:
    return f"{steps:,} steps" + (f" after {began_at:,} earlier" if began_at else "")


def sparkline(values: Sequence[float]) -> str:
    """Draw values as bars from the minimum up; long series are sampled, including the latest value."""
    if not values:
        return ""
    width = min(len(values), _NOTE)
    shown = [values[(k + 1) * len(values) // width - 1] for k in range(width)]
    low, high = min(shown), max(shown)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BARS[round((value - low) * scale)] for value in shown)


def drawing(image: npt.NDArray[np.float32]) -> str:
    """Draw an image in shades of grey, two characters per pixel."""
    rows = np.rint(image.reshape(SIZE, SIZE) * (len(_INKS) - 1)).astype(int).tolist()
    return "\n".join("".join(_INKS[ink] * 2 for ink in row) for row in rows)


def _latest(prediction: Prediction | None) -> list[Text]:
    """Draw the latest prediction, as lines."""
    if prediction is None:
        return [Text() for _ in range(SIZE + 1)]
    image = [Text(row, "white on grey11") for row in drawing(prediction.image).splitlines()]
    return [*image, _verdict(prediction)]


def _verdict(prediction: Prediction) -> Text:
    style, outcome = ("green", "right") if prediction.is_right else ("red", f"wrong: {prediction.label}")
    return Text.assemble(
        (f"{prediction.predicted}", "bold"), f" ({prediction.probability:.1%}), ", (outcome, style)
    )
