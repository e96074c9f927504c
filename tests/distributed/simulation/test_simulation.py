"""Clusters under faults: no wrong result, no hang, no leak; the same seed yields the same events."""

import os
import subprocess
import sys

import pytest

from tests.distributed.simulation.runner import simulate
from tests.distributed.simulation.scenarios import SCENARIOS

A_SCENARIO = 40
SEEDS = A_SCENARIO * len(SCENARIOS)
BATCH = 20

pytestmark = [
    pytest.mark.slow,
    pytest.mark.may_block(reason="what is a thread's work otherwise is done by the loop of a simulation"),
]


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_faults_bring_no_wrong_result_no_hang_and_no_leak(first: int) -> None:
    for seed in range(first, first + BATCH):
        story = simulate(seed)
        assert not story.breach, str(story)


def test_the_same_seed_gives_the_same_story() -> None:
    for seed in range(2 * len(SCENARIOS)):
        assert simulate(seed).log == simulate(seed).log


def test_the_same_seed_gives_the_same_story_in_another_process() -> None:
    """Where hashes of strings and addresses of objects are others."""
    seed = 4
    program = f"from tests.distributed.simulation.runner import simulate; print(simulate({seed}), end='')"
    environment = {**os.environ, "PYTHONHASHSEED": "7"}

    printed = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )

    assert printed.stdout == str(simulate(seed))
