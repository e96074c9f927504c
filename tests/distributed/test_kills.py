"""Processes that are killed and frozen: a small share of `python -m tests.distributed.kills`."""

from __future__ import annotations

import pytest

from tests.distributed.kills import FAULTS, STEPS, TASKS, faults, lives

pytestmark = [pytest.mark.network, pytest.mark.slow]

SLACK = 20.0
"""Seconds, for a slow and busy machine; the program above prints the usual times."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_lost_task_is_noticed_released_by_the_others_and_used_again(fault: str):
    planned = list(zip([fault] * 3, TASKS, STEPS, strict=False))

    found = [life async for life in lives(planned, seed=0, slack=SLACK)]

    assert [life.line() for life in found if life.failures] == []


@pytest.mark.sweep
@pytest.mark.timeout(1200)
async def test_a_hundred_faults():
    found = [life async for life in lives(faults(100, seed=1), seed=1, slack=SLACK)]

    assert [life.line() for life in found if life.failures] == []
