"""The display shows the progress in a panel, in a line and at the end."""

import io

import numpy as np
import pytest
from rich.console import Console

from aioexec.demo import display, progress as progress_module
from aioexec.demo.progress import Outcome, Prediction, Progress
from aioexec.observability.loop_lag import LoopLag, LoopLagProbe

IMAGE = np.zeros(64, np.float32)
IMAGE[:4] = [0.25, 0.5, 0.75, 1]
RIGHT = Prediction(IMAGE, label=7, predicted=7, probability=0.875)
WRONG = Prediction(IMAGE, label=7, predicted=1, probability=0.5)


def shown(renderable, width=80):
    file = io.StringIO()
    Console(file=file, width=width, highlight=False).print(renderable)
    return file.getvalue()


@pytest.fixture
def progress():
    progress = Progress(60.0, LoopLagProbe(), "http://127.0.0.1:1/v1/models/digits:predict")
    for epoch in range(2):
        progress.stepped(2.0)
        progress.epoch_ended(0.5 + epoch / 4, native_share=epoch / 2)
    return progress


def test_the_panel_shows_the_numbers_and_the_latest_prediction(progress):
    progress.predicted(WRONG)
    progress.predicted(RIGHT)

    text = shown(display.panel(progress))

    for part in (
        "2.0000",
        "75.0%",
        "50%",
        "2 steps",
        "1 of the last 2 right",
        "7 (87.5%), right",
        "░░▒▒▓▓██",
        progress.url,
    ):
        assert part in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_panel_can_be_drawn_before_anything_happened():
    assert "no" not in shown(display.panel(Progress(60.0, LoopLagProbe())))


def test_the_rate_is_that_of_a_second_or_more(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress_module, "perf_counter", lambda: now[0])
    progress = Progress(60.0, LoopLagProbe(), started=100.0)

    rates = []
    for seconds, steps in ((1.0, 500), (1.0, 500), (0.02, 0), (0.02, 2)):
        now[0] += seconds
        progress.steps += steps
        rates.append(round(progress.steps_per_second()))

    assert rates == [500, 500, round(500 / 1.02), round(502 / 1.04)]


def test_the_line_shows_the_numbers(progress):
    assert "epoch 2  loss 2.0000  accuracy 0.7500" in display.line(progress)


def test_the_summary_shows_what_the_demo_found():
    outcome = Outcome(
        accuracy=0.975,
        began_at=500,
        steps=1000,
        seconds=0.5,
        latest_steps_per_second=9000.4,
        lag=LoopLag(0.1, 0.2, 0.3, 400),
        native_share=0.96,
        answered=12,
        prediction=WRONG,
        predict_url="http://127.0.0.1:1/",
        folder="somewhere",
    )

    text = shown(display.summary(outcome))

    for part in (
        "0.9750",
        "2,000 steps/s (1,000 steps in 0.5 s), 9,000 at the end",
        "p50 0.10 ms, p99 0.20 ms, max 0.30 ms",
        "96.0% of the nodes",
        "12 predictions",
        "at step 1,500 in somewhere",
        "tensorboard --logdir somewhere",
        "1 (50.0%), wrong: 7",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("values", "bars"),
    [
        ([], ""),
        ([3], "▁"),
        ([2, 2], "▁▁"),
        ([0, 3.5, 7], "▁▅█"),
        ([5, 9] * 25 + [5, 1], "█" * 25 + "▁"),
    ],
)
def test_a_sparkline_goes_from_the_least_to_the_greatest_of_the_latest_values(values, bars):
    assert display.sparkline(values) == bars
