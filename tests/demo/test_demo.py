"""The demo trains, serves and asks in one loop, learns, and says by its exit status whether it did."""

import argparse

import pytest

from aioexec import cli
from aioexec.demo import command, digits, training
from aioexec.demo.training import Settings

pytestmark = [pytest.mark.slow, pytest.mark.network]


@pytest.fixture(scope="module")
def data():
    return digits.load()


async def never(progress):
    """Watch without showing anything."""


@pytest.mark.timeout(120)
async def test_training_and_serving_share_a_loop_and_the_network_learns(data, monkeypatch):
    monkeypatch.setenv("AIOEXEC_JIT", "eager")

    outcome = await training.run(Settings(0.5, 90.0, batch_size=32, seed=0), data, never)

    assert outcome.accuracy >= 0.96
    assert outcome.native_share >= 0.95
    assert outcome.answered > 0
    assert outcome.prediction.label == data.test.labels[0]
    assert 0 <= outcome.prediction.probability <= 1
    assert outcome.lag.beats > 0


async def test_an_error_of_a_companion_ends_the_training(data):
    async def fail(progress):
        raise OSError("no terminal")

    with pytest.raises(ExceptionGroup) as caught:
        await training.run(Settings(60.0, 60.0, batch_size=32, seed=0), data, fail)

    assert caught.group_contains(OSError, match="no terminal")


def test_too_little_training_is_a_failure_that_says_so(capfd):
    status = cli.main(["demo", "--seconds", "0.01"])

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

    assert "expected a positive number, got '0'" in capsys.readouterr().err
