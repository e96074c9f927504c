"""The error of a step on several tasks: the root cause, even if a derived error arrives first."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioexec.devices.threads.workers import Workers
from aioexec.distributed.master.remote_parts import ROOT_ERROR_TIMEOUT, DistributedStep
from aioexec.distributed.transport.status import DERIVED, with_payload
from aioexec.errors import AbortedError, InvalidArgumentError, OpError
from aioexec.execution.engine import Engine
from aioexec.execution.rendezvous import IntraProcessRendezvous
from aioexec.execution.step import Step, StepSettings


@pytest.fixture
async def engine(virtual_clock):
    workers = Workers(1, "test")
    engine = Engine([], "off", workers)
    yield engine
    await engine.close()
    await workers.close()


def step_of(engine: Engine, calls: int) -> Step:
    shared = DistributedStep(1, IntraProcessRendezvous(), [], lambda step_id, parts: None)
    shared.running = calls
    return Step(engine, StepSettings(shared=shared))


def shared(step: Step) -> DistributedStep:
    assert isinstance(step.shared, DistributedStep)
    return step.shared


def derived(text: str = "followed") -> OpError:
    return with_payload(AbortedError(text), DERIVED)


@pytest.mark.behaviour(145)
async def test_a_derived_error_waits_for_its_root(engine):
    step, root = step_of(engine, 2), InvalidArgumentError("root")

    step.fail(derived())
    assert step.error is None
    step.fail(root)

    assert step.error is root
    await asyncio.sleep(2 * ROOT_ERROR_TIMEOUT)
    assert step.error is root


@pytest.mark.behaviour(145)
async def test_without_a_root_the_derived_error_ends_the_step(engine):
    first, second = step_of(engine, 1), step_of(engine, 1)
    errors = [derived(), derived()]

    first.fail(errors[0])
    second.fail(errors[1])
    shared(first).on_part_ended(first)  # no part is left that could report the root
    assert first.error is errors[0]
    await asyncio.sleep(ROOT_ERROR_TIMEOUT / 2)
    assert second.error is None
    await asyncio.sleep(ROOT_ERROR_TIMEOUT)
    assert second.error is errors[1]


async def test_of_several_derived_errors_the_first_is_reported(engine):
    step, errors = step_of(engine, 3), [derived("one"), derived("other")]

    for error in errors:
        step.fail(error)
        shared(step).on_part_ended(step)
    assert step.error is None
    shared(step).on_part_ended(step)

    assert step.error is errors[0]


async def test_a_derived_error_that_comes_last_does_not_wait(engine):
    step, error = step_of(engine, 0), derived()

    step.fail(error)

    assert step.error is error


async def test_a_step_that_succeeds_leaves_no_timer(engine):
    step = step_of(engine, 1)

    step.fail(derived())
    step.fail(InvalidArgumentError("root"))
    step.close()

    loop: Any = asyncio.get_running_loop()
    assert not [each for each in loop._scheduled if not each.cancelled()]
