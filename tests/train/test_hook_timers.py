"""SecondOrStepTimer: its triggers and results."""

import asyncio

import pytest

from aioexec import train
from aioexec.errors import GraphValueError
from aioexec.train.hooks.timers import NeverTriggerTimer


@pytest.mark.parametrize("intervals", [{}, {"every_secs": 1.0, "every_steps": 1}])
def test_a_timer_wants_one_interval(intervals):
    with pytest.raises(GraphValueError, match="every_secs"):
        train.SecondOrStepTimer(**intervals)


def test_a_timer_triggers_first_at_whatever_step():
    timer = train.SecondOrStepTimer(every_steps=10)

    assert timer.should_trigger_for_step(7)
    assert timer.last_triggered_step() is None


def test_a_timer_of_steps_triggers_when_so_many_have_gone_by():
    timer = train.SecondOrStepTimer(every_steps=3)
    timer.update_last_triggered_step(2)

    assert [step for step in range(9) if timer.should_trigger_for_step(step)] == [5, 6, 7, 8]


def test_a_timer_never_triggers_twice_for_one_step():
    timer = train.SecondOrStepTimer(every_secs=0.0)
    timer.update_last_triggered_step(2)

    assert not timer.should_trigger_for_step(2)
    assert timer.should_trigger_for_step(3)


async def test_a_timer_of_seconds_goes_by_the_clock_of_the_loop(virtual_clock):
    timer = train.SecondOrStepTimer(every_secs=5.0)
    timer.update_last_triggered_step(0)

    await asyncio.sleep(4.5)
    assert not timer.should_trigger_for_step(1)
    await asyncio.sleep(0.5)
    assert timer.should_trigger_for_step(1)


async def test_a_timer_returns_how_long_ago_it_triggered(virtual_clock):
    timer = train.SecondOrStepTimer(every_steps=1)

    assert timer.update_last_triggered_step(10) == (None, None)
    await asyncio.sleep(2.5)
    assert timer.update_last_triggered_step(14) == (2.5, 4)
    assert timer.last_triggered_step() == 14


def test_a_timer_that_was_reset_triggers_again():
    timer = train.SecondOrStepTimer(every_steps=100)
    timer.update_last_triggered_step(1)
    timer.reset()

    assert timer.should_trigger_for_step(1)
    assert timer.last_triggered_step() is None


def test_a_timer_works_without_a_loop():
    timer = train.SecondOrStepTimer(every_secs=1000.0)
    timer.update_last_triggered_step(1)

    assert not timer.should_trigger_for_step(2)


def test_the_timer_that_never_triggers():
    timer = NeverTriggerTimer()

    assert not timer.should_trigger_for_step(1)
    assert timer.update_last_triggered_step(1) == (None, None)
    assert timer.last_triggered_step() is None
