"""The demo trains, serves and predicts in one loop, learns, reports success by its exit status, and can be continued."""

import argparse
import asyncio
import contextlib
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import aioexec as ax
from aioexec import cli
from aioexec.demo import command, digits, training
from aioexec.demo.progress import Outcome, Progress
from aioexec.demo.training import Settings

pytestmark = [pytest.mark.slow, pytest.mark.network]


@pytest.fixture(scope="module")
def data():
    return digits.load()


async def never(progress):
    """Watch without showing anything."""


def settings(folder: Path, seconds: float = 60.0, most_seconds: float = 60.0) -> Settings:
    return Settings(seconds, most_seconds, batch_size=32, seed=0, folder=str(folder))


async def saved_step(folder: Path) -> int:
    latest = await asyncio.to_thread(ax.train.latest_checkpoint, str(folder))
    assert latest is not None
    return int(latest.rpartition("-")[2])


def tags_in(folder: Path) -> set[str]:
    events = (event for file in folder.glob("*tfevents*") for event in ax.train.summary_iterator(str(file)))
    return {value.tag for event in events for value in event.summary.value}


async def test_training_and_serving_share_a_loop_and_the_network_learns(data, monkeypatch, tmp_path):
    monkeypatch.setenv("AIOEXEC_JIT", "eager")

    outcome = await training.run(settings(tmp_path, 0.5, 90.0), data, never)

    assert outcome.accuracy >= 0.96
    assert outcome.native_share >= 0.95
    assert outcome.answered > 0
    assert outcome.prediction.label == data.test.labels[0]
    assert 0 <= outcome.prediction.probability <= 1
    assert outcome.lag.beats > 0


async def test_an_error_of_a_companion_ends_the_training(data, tmp_path):
    async def fail(progress):
        raise OSError("no terminal")

    with pytest.raises(ExceptionGroup) as caught:
        await training.run(settings(tmp_path), data, fail)

    assert caught.group_contains(OSError, match="no terminal")


async def test_a_training_that_was_stopped_goes_on_where_it_was_and_leaves_its_history(data, tmp_path):
    async def run_and_stop() -> Outcome:
        stop = asyncio.Event()

        async def watch(progress: Progress) -> None:
            stop.set()

        return await training.run(settings(tmp_path), data, watch, stop)

    first = await run_and_stop()
    assert first.began_at == 0
    assert await saved_step(tmp_path) == first.steps > 0

    second = await run_and_stop()
    assert second.began_at == first.steps
    assert await saved_step(tmp_path) == first.steps + second.steps
    assert {"training/loss", "variables/hidden1/weights"} <= await asyncio.to_thread(tags_in, tmp_path)


@contextlib.contextmanager
def demo(folder: Path):
    """The command in a process of its own, that has printed its first line."""
    command = [sys.executable, "-m", "aioexec.cli", "demo", "--seconds", "60", "--folder", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "epoch" in process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


async def test_a_training_that_was_killed_or_interrupted_goes_on_from_what_was_saved(data, tmp_path):
    with demo(tmp_path) as process:
        process.kill()
        process.wait()
    killed_at = await saved_step(tmp_path)

    with demo(tmp_path) as process:
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate()
        assert process.returncode == 130
    done = await saved_step(tmp_path)
    assert f"saved at step {done:,} in" in " ".join(out.split())
    assert done > killed_at

    outcome = await training.run(settings(tmp_path, 0.01, 0.01), data, never)
    assert outcome.began_at == done


def test_too_little_training_is_a_failure_that_says_so(capfd, tmp_path):
    status = cli.main(["demo", "--seconds", "0.01", "--folder", str(tmp_path)])

    out, err = capfd.readouterr()
    assert status == 1
    assert "test accuracy" in out
    assert "one prediction" in out
    assert "accuracy below 0.96" in err


@pytest.mark.parametrize("option", ["--seconds", "--batch-size"])
def test_numbers_are_positive(option, capsys):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)

    with pytest.raises(SystemExit):
        parser.parse_args([option, "0"])

    assert "expected a positive" in capsys.readouterr().err
