"""The batcher joins the requests of concurrent tasks, and gives each the outputs of its own rows."""

import asyncio
import contextvars
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.batching import batcher as batcher_module
from aioexec.errors import (
    FailedPreconditionError,
    GraphTypeError,
    GraphValueError,
    InvalidArgumentError,
    ResourceExhaustedError,
)
from aioexec.testing import all_tasks_blocked
from tests.batching.fakes import RecordingModel, rows

pytestmark = pytest.mark.usefixtures("virtual_clock")


def batcher(model, *, max_batch_size=4, max_delay=0.0, max_queue=100, buckets=None):
    return ax.batching.Batcher(
        model, max_batch_size=max_batch_size, max_delay=max_delay, max_queue=max_queue, buckets=buckets
    )


async def test_requests_of_concurrent_tasks_are_one_step():
    model = RecordingModel()

    async with batcher(model) as batched:
        answers = await asyncio.gather(batched(x=rows(1)), batched(x=rows(2, 3)), batched.run({"x": rows(4)}))

    assert [answer["y"].tolist() for answer in answers] == [[[2]], [[4], [6]], [[8]]]
    assert [x.tolist() for x in model.steps] == [rows(1, 2, 3, 4).tolist()]


async def test_a_request_waits_for_others_as_long_as_the_delay():
    model, loop = RecordingModel(), asyncio.get_running_loop()

    async def later(seconds):
        await asyncio.sleep(seconds)
        await batched(x=rows(seconds))
        return loop.time()

    async with batcher(model, max_delay=1.0) as batched:
        start = loop.time()
        times = await asyncio.gather(later(0), later(0.75), later(1.5))

    assert [time - start for time in times] == [1, 1, 2.5]
    assert model.sizes == [2, 1]


async def test_a_full_batch_does_not_wait():
    model, loop = RecordingModel(), asyncio.get_running_loop()

    async with batcher(model, max_delay=1.0) as batched:
        start = loop.time()
        await asyncio.gather(*(batched(x=rows(i)) for i in range(8)))

        assert loop.time() == start
    assert model.sizes == [4, 4]


async def test_a_batch_is_padded_to_a_bucket_with_its_first_row():
    model = RecordingModel()

    async with batcher(model, buckets=[1, 4]) as batched:
        one, three = await batched(x=rows(7)), await batched(x=rows(1, 2, 3))

    assert [x.tolist() for x in model.steps] == [[[7]], [[1], [2], [3], [1]]]
    assert (one["y"].tolist(), three["y"].tolist()) == ([[14]], [[2], [4], [6]])


async def test_buckets_are_powers_of_two_by_default():
    model = RecordingModel()

    async with batcher(model, max_batch_size=12) as batched:
        for count in range(1, 13):
            await batched(x=rows(*range(count)))

    assert model.sizes == [1, 2, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12]


@pytest.mark.parametrize("large", [1 << 20, 0], ids=["on the loop", "in threads"])
async def test_a_request_of_more_rows_than_a_batch_is_split(monkeypatch, large):
    monkeypatch.setattr(batcher_module, "LARGE", large)
    model = RecordingModel()

    async with batcher(model) as batched:
        answer, other = await asyncio.gather(batched(x=rows(*range(10))), batched(x=rows(20)))

    assert answer["y"].tolist() == (2 * rows(*range(10))).tolist()
    assert other["y"].tolist() == [[40]]
    assert model.sizes == [4, 4, 4]


async def test_requests_of_other_shapes_dtypes_or_outputs_are_other_steps():
    steps = []

    async def model(x, mask=None):
        steps.append((x.shape, x.dtype.name))
        return {"x": x, "mask": x > 0}

    async with batcher(model) as batched:
        answers = await asyncio.gather(
            batched(x=np.ones([1, 2], np.float32)),
            batched(x=np.ones([1, 3], np.float32)),
            batched(x=np.ones([1, 2], np.int32)),
            batched.run({"x": np.ones([1, 2], np.float32)}, ["mask"]),
            batched(x=np.ones([1, 2], np.float32), mask=[True]),
            batched(x=[[1.0, 1.0]]),
        )

    assert sorted(steps) == [
        ((1, 2), "float32"),
        ((1, 2), "float32"),
        ((1, 2), "int32"),
        ((1, 3), "float32"),
        ((2, 2), "float32"),
    ]
    assert [[*answer] for answer in answers] == [["x", "mask"]] * 3 + [["mask"]] + [["x", "mask"]] * 2


async def test_strings_are_rows_too():
    async def model(x):
        return {"y": np.array([text.upper() for text in x], object)}

    async with batcher(model) as batched:
        answers = await asyncio.gather(batched(x=[b"a", b"bc"]), batched(x=[b"d"]))

    assert [answer["y"].tolist() for answer in answers] == [[b"A", b"BC"], [b"D"]]


async def test_answers_do_not_keep_the_rows_of_others():
    async with batcher(RecordingModel()) as batched:
        answers = await asyncio.gather(batched(x=rows(1)), batched(x=rows(2)))

    assert [answer["y"].base for answer in answers] == [None, None]


async def test_the_rows_of_a_batch_are_divided_among_callers():
    model = RecordingModel()
    model.gate.clear()
    async with batcher(model, max_batch_size=8) as batched, asyncio.TaskGroup() as group:
        group.create_task(batched(x=rows(*range(16))))
        await all_tasks_blocked()
        group.create_task(batched.run({"x": rows(*[1] * 20)}, caller="many"))
        group.create_task(batched.run({"x": rows(2, 2)}, caller="few"))
        await all_tasks_blocked()

        model.gate.set()

    assert [x[:, 0].tolist() for x in model.steps[2:]] == [[1] * 6 + [2] * 2, [1] * 8, [1] * 6 + [1] * 2]


async def test_too_many_rows_are_refused_with_their_numbers():
    model = RecordingModel()
    model.gate.clear()
    async with batcher(model, max_queue=5) as batched, asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(batched(x=rows(1, 2, 3, 4)))
            await all_tasks_blocked()
            if len(model.steps) == 2:
                break
        group.create_task(batched(x=rows(1, 2, 3, 4)))
        await all_tasks_blocked()

        with pytest.raises(
            ResourceExhaustedError, match="4 of at most 5 rows wait, no room for a request of 2 rows"
        ):
            await batched(x=rows(1, 2))
        with pytest.raises(
            InvalidArgumentError, match="a request of 6 rows cannot be accepted, at most 5 rows"
        ):
            await batched(x=rows(*range(6)))
        model.gate.set()
        await all_tasks_blocked()
        assert (await batched(x=rows(1, 2)))["y"].tolist() == [[2], [4]]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            {"x": 1.0},
            r"input 'x' must have a batch of at least one row as its first dimension, got the shape \(\)",
        ),
        ({"x": np.ones([0, 1])}, r"at least one row as its first dimension, got the shape \(0, 1\)"),
        ({"x": [[1.0]], "w": [1.0, 2.0]}, r"as many rows as 'x', 1, got 'w' of shape \(2,\)"),
        ({"x": [[1.0], [1.0, 2.0]]}, r"input 'x' of <\S*RecordingModel .*>: Expected lists of equal length"),
        ({}, "needs an input"),
    ],
)
async def test_wrong_values_of_one_request_do_not_fail_others(inputs, message):
    model = RecordingModel()

    async with batcher(model) as batched:
        answers: Any = await asyncio.gather(batched(x=rows(1)), batched.run(inputs), return_exceptions=True)

    good, bad = answers
    assert good["y"].tolist() == [[2]]
    with pytest.raises(InvalidArgumentError, match=message):
        raise bad
    assert model.sizes == [1]


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({"y": np.float32(1)}, r"output 'y' must have one row for each of the 1 rows of the batch, got \(\)"),
        ({"y": np.ones(3)}, r"each of the 1 rows of the batch, got \(3,\)"),
        ({"y": [1.0]}, "got list"),
        (None, "must return a mapping of arrays by name, got NoneType"),
        ({"z": np.ones(1)}, r"returned the outputs \['z'\], not \['y'\]"),
    ],
)
async def test_outputs_that_are_no_rows_are_an_error(outputs, message):
    async def model(x):
        return outputs

    async with batcher(model) as batched:
        with pytest.raises(InvalidArgumentError, match=message):
            await batched.run({"x": rows(1)}, ["y"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_batch_size": 0}, "max_batch_size must be at least 1, got 0"),
        ({"max_delay": -1}, "max_delay must be a number of seconds, got -1"),
        ({"max_delay": float("nan")}, "max_delay must be a number of seconds, got nan"),
        ({"max_queue": 0}, "max_queue must be at least 1, got 0"),
        ({"buckets": []}, r"the largest one max_batch_size, 4; got \[\]"),
        ({"buckets": [0, 4]}, r"buckets must be at least 1, .* got \[0, 4\]"),
        ({"buckets": [2, 8]}, r"got \[2, 8\]"),
    ],
)
async def test_limits_out_of_range_are_refused(options, message):
    with pytest.raises(GraphValueError, match=message):
        batcher(RecordingModel(), **options)


async def test_what_is_no_model_is_refused():
    with pytest.raises(GraphTypeError, match="expected a model, a signature or a coroutine function, got 3"):
        batcher(3)


async def test_a_step_runs_in_a_context_of_its_own():
    variable = contextvars.ContextVar("variable", default="none")
    seen = []

    async def model(x):
        seen.append(variable.get())
        variable.set("step")
        return {"x": x}

    async def request(value):
        variable.set(value)
        return await batched(x=rows(1))

    async with batcher(model) as batched:
        await asyncio.gather(request("a"), request("b"))
        await request("c")

    assert seen == ["none", "none"]


async def test_a_batcher_belongs_to_one_loop():
    batched = batcher(RecordingModel())
    await batched(x=rows(1))

    def elsewhere():
        with (
            asyncio.Runner() as runner,
            pytest.raises(FailedPreconditionError, match="belongs to the event loop"),
        ):
            runner.run(batched.run({"x": rows(1)}))

    await asyncio.to_thread(elsewhere)
    await batched.close()


@pytest.mark.may_block("reads the line of the statement")
async def test_a_plain_with_statement_is_refused():
    with (
        pytest.raises(GraphTypeError, match="Batcher: it is entered by `async with`"),
        batcher(RecordingModel()),
    ):
        pass
