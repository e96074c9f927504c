"""How requests to a batcher end: deadlines, cancellation, failures, closing."""

import asyncio
import random
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec import errors
from aioexec.testing import all_tasks_blocked
from tests.batching.fakes import RecordingModel, rows

pytestmark = pytest.mark.usefixtures("virtual_clock")


def batcher(model, *, max_batch_size=4, max_delay=0.0, max_queue=100):
    return ax.batching.Batcher(model, max_batch_size=max_batch_size, max_delay=max_delay, max_queue=max_queue)


def is_idle(batched):
    """Whether a batcher has no requests, tasks and timers, and is consistent."""
    batched._scheduler.check_invariants()
    return not (batched._scheduler.waiting or batched._scheduler.running or batched._tasks or batched._timer)


async def test_a_cancelled_request_leaves_its_batch_before_it_runs():
    model = RecordingModel()
    async with batcher(model, max_delay=1.0) as batched:
        tasks = [asyncio.create_task(batched(x=rows(i))) for i in range(3)]
        await all_tasks_blocked()

        tasks[1].cancel()
        answers: Any = await asyncio.gather(*tasks, return_exceptions=True)

        assert isinstance(answers[1], asyncio.CancelledError)
        assert (answers[0]["y"].tolist(), answers[2]["y"].tolist()) == ([[0]], [[4]])
        assert model.steps[0].tolist() == [[0], [2]]


async def test_the_last_request_that_leaves_takes_the_timer_with_it():
    async with batcher(RecordingModel(), max_delay=1.0) as batched:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await batched(x=rows(1))

        assert is_idle(batched)


async def test_a_request_whose_deadline_passes_in_a_step_leaves_the_step_to_the_others():
    model = RecordingModel()
    model.gate.clear()
    async with batcher(model) as batched:
        other = asyncio.create_task(batched(x=rows(1)))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await batched(x=rows(2))

        model.gate.set()

        assert (await other)["y"].tolist() == [[2]]
        assert (model.sizes, model.cancelled) == ([2], 0)


async def test_a_step_is_cancelled_when_all_its_requests_have_gone():
    model = RecordingModel()
    model.gate.clear()
    async with batcher(model) as batched:
        tasks = [asyncio.create_task(batched(x=rows(i))) for i in range(3)]
        await all_tasks_blocked()
        assert model.running == 1

        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await all_tasks_blocked()

        assert (model.running, model.cancelled) == (0, 1)
        assert is_idle(batched)


async def test_a_step_that_is_cancelled_before_it_begins_frees_its_place():
    model = RecordingModel()
    model.gate.clear()
    async with batcher(model, max_batch_size=1) as batched:
        tasks = [asyncio.create_task(batched(x=rows(i))) for i in range(3)]
        await all_tasks_blocked()

        model.gate.set()
        await asyncio.sleep(
            0
        )  # two steps have ended; the callbacks that start the third are called before the cancellation
        tasks[2].cancel()
        await asyncio.wait(tasks)
        await all_tasks_blocked()

        assert tasks[2].cancelled()
        assert model.sizes == [1, 1]
        assert is_idle(batched)
        assert (await batched(x=rows(1)))["y"].tolist() == [[2]]


async def test_an_error_of_the_model_is_raised_by_each_request_of_the_batch():
    model = RecordingModel()
    model.error = errors.DataLossError("row 3 is damaged")
    model.error.node = "decode"
    async with batcher(model) as batched:
        answers: Any = await asyncio.gather(batched(x=rows(1)), batched(x=rows(2)), return_exceptions=True)

        assert answers[0] is not answers[1]
        for error in answers:
            assert (type(error), error.message) == (errors.DataLossError, "row 3 is damaged")
            assert (error.node, error.__cause__) == ("decode", model.error)
        model.error = None
        assert (await batched(x=rows(1)))["y"].tolist() == [[2]]


async def test_another_exception_of_the_model_is_the_cause_of_an_unknown_error():
    model = RecordingModel()
    model.error = ZeroDivisionError("by zero")
    async with batcher(model) as batched:
        answers: Any = await asyncio.gather(batched(x=rows(1)), batched(x=rows(2)), return_exceptions=True)

    for error in answers:
        assert type(error) is errors.UnknownError
        assert (
            error.message == "Batcher: the model failed for a batch of 2 requests: ZeroDivisionError: by zero"
        )
        assert error.__cause__ is model.error


async def test_a_failure_of_one_part_of_a_request_ends_its_other_parts():
    model = RecordingModel()
    model.gate.clear()
    async with batcher(model) as batched:
        task = asyncio.create_task(batched(x=rows(*range(20))))
        await all_tasks_blocked()
        assert model.sizes == [4, 4]

        model.error = errors.DataLossError("no")
        model.gate.set()

        with pytest.raises(errors.DataLossError):
            await task
        await all_tasks_blocked()
        assert model.sizes == [4, 4]
        assert is_idle(batched)


async def test_a_model_that_cancels_itself_fails_its_requests():
    async def model(x):
        raise asyncio.CancelledError

    async with batcher(model) as batched:
        with pytest.raises(errors.CancelledError, match="the step of the batch was cancelled"):
            await batched(x=rows(1))


async def test_closing_runs_what_waits_without_delay_and_refuses_more():
    model, loop = RecordingModel(), asyncio.get_running_loop()
    batched = batcher(model, max_delay=3600.0)
    tasks = [asyncio.create_task(batched(x=rows(i))) for i in range(2)]
    await all_tasks_blocked()
    start = loop.time()

    await batched.close()

    assert loop.time() == start
    assert [(await task)["y"].tolist() for task in tasks] == [[[0]], [[2]]]
    with pytest.raises(errors.UnavailableError, match="it is closed and accepts no more requests"):
        await batched(x=rows(1))
    await batched.close()


async def test_a_batcher_that_was_never_used_can_be_closed():
    async with batcher(RecordingModel()) as batched:
        pass

    with pytest.raises(errors.UnavailableError):
        await batched(x=rows(1))


async def test_after_the_grace_requests_that_wait_and_that_run_are_cancelled():
    model, loop = RecordingModel(), asyncio.get_running_loop()
    model.gate.clear()
    batched = batcher(model)
    tasks = [asyncio.create_task(batched(x=rows(*range(6)))) for _ in range(3)]
    await all_tasks_blocked()
    start = loop.time()

    await batched.close(grace=2)

    assert loop.time() == start + 2
    for task in tasks:
        with pytest.raises(errors.CancelledError, match="closed before the request was answered"):
            await task
    assert (model.running, model.cancelled) == (0, 2)
    assert is_idle(batched)


async def test_an_exception_in_the_block_cancels_requests():
    model = RecordingModel()
    model.gate.clear()

    with pytest.raises(ZeroDivisionError):
        async with batcher(model) as batched:
            task = asyncio.create_task(batched(x=rows(1)))
            await all_tasks_blocked()
            raise ZeroDivisionError

    with pytest.raises(errors.CancelledError):
        await task
    assert model.running == 0


async def test_a_cancelled_close_leaves_nothing_running():
    model = RecordingModel()
    model.gate.clear()
    batched = batcher(model)
    request = asyncio.create_task(batched(x=rows(1)))
    await all_tasks_blocked()
    closing = asyncio.create_task(batched.close())
    await all_tasks_blocked()

    closing.cancel()
    await asyncio.wait([closing, request])

    assert closing.cancelled()
    assert isinstance(request.exception(), errors.CancelledError)
    assert is_idle(batched)


@pytest.mark.parametrize("steps", range(12))
@pytest.mark.parametrize("count", [1, 3])
async def test_a_request_may_be_cancelled_at_any_point(steps, count):
    """A request and others beside it, cancelled after so many iterations of the loop, of about ten that a request takes."""

    async def model(x):
        await asyncio.sleep(0)
        return {"y": 2 * x}

    async with batcher(model, max_batch_size=2) as batched:
        task = asyncio.create_task(batched(x=rows(*range(count))))
        other = asyncio.create_task(batched(x=rows(1)))
        for _ in range(steps):
            await asyncio.sleep(0)

        was_done = task.done()
        task.cancel()
        await asyncio.wait([task])

        assert task.cancelled() is not was_done
        if was_done:
            assert task.result()["y"].tolist() == (2 * rows(*range(count))).tolist()
        assert (await other)["y"].tolist() == [[2]]
        assert (await batched(x=rows(5)))["y"].tolist() == [[10]]
        await all_tasks_blocked()
        assert is_idle(batched)


@pytest.mark.parametrize("seed", range(20))
async def test_every_request_gets_its_own_rows_under_deadlines_and_failures(seed):
    """A hundred clients with requests of any size, of which some give up, and a model of which some steps fail."""
    choose = random.Random(seed)
    outcomes = {"answered": 0, "timed out": 0, "failed": 0, "refused": 0}

    async def model(x):
        await asyncio.sleep(choose.random())
        if choose.random() < 0.1:
            raise errors.AbortedError("again")
        return {"y": x * 2, "z": x.sum(axis=1)}

    async def client(number):
        for _ in range(5):
            await asyncio.sleep(choose.random())
            x = np.full([choose.choice([1, 2, 9, 30]), choose.choice([1, 2])], number, np.float32)
            try:
                async with asyncio.timeout(choose.choice([0.5, 4, None])):
                    answer = await batched.run({"x": x}, choose.choice([None, ["y"]]), caller=number % 5)
            except TimeoutError:
                outcomes["timed out"] += 1
            except errors.AbortedError:
                outcomes["failed"] += 1
            except errors.ResourceExhaustedError:
                outcomes["refused"] += 1
            else:
                outcomes["answered"] += 1
                assert np.array_equal(answer["y"], 2 * x)
                assert "z" not in answer or np.array_equal(answer["z"], x.sum(axis=1))
            batched._scheduler.check_invariants()

    async with batcher(model, max_batch_size=16, max_delay=0.1, max_queue=300) as batched:
        await asyncio.gather(*(client(number) for number in range(100)))

    assert sum(outcomes.values()) == 500
    assert min(outcomes.values()) > 0
    assert is_idle(batched)
