"""ProgressHook: its output, on a terminal and in the log."""

import asyncio
import io
import logging

import numpy as np
import pytest

import aioexec as ax
from aioexec import train
from aioexec.errors import GraphValueError, OpError
from aioexec.train.hooks.progress_hook import Rate, progress_line
from tests.train.hooked import Model, model as model, trained

pytestmark = pytest.mark.usefixtures("virtual_clock")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def assert_cursor_is_shown(terminal):
    assert terminal.getvalue().rfind("\x1b[?25h") >= terminal.getvalue().rfind("\x1b[?25l")


@pytest.fixture
def lines(caplog):
    def logged():
        return [
            each.getMessage() for each in caplog.records if each.name == "aioexec.train.hooks.progress_hook"
        ]

    with caplog.at_level(logging.INFO):
        yield logged


async def test_where_there_is_no_terminal_progress_is_logged_now_and_then(model: Model, lines):
    hook = train.ProgressHook(
        {"weight": model.weight.value()}, last_step=8, log_every_secs=4, file=io.StringIO()
    )

    await trained(model, [hook], 8, seconds=1.0)

    assert lines() == [
        "━━╌╌╌╌╌╌╌╌╌╌  step 1 of 8 (12%)  weight 0",
        "━━━━━━━━╌╌╌╌  step 5 of 8 (62%)  weight 4  1.0 steps/s  0:00:03 left",
        "━━━━━━━━━━━━  step 8 of 8 (100%)  weight 4  0.9 steps/s  0:00:00 left",
    ]


async def test_on_a_terminal_one_line_is_drawn_again_and_again(model: Model, lines):
    terminal = Terminal()
    hook = train.ProgressHook(last_step=4, every_secs=1.0, file=terminal)

    await trained(model, [hook], 4, seconds=1.0)

    drawn = terminal.getvalue()
    assert [f"step {step} of 4" in drawn for step in (1, 2, 3, 4)] == [True] * 4
    assert drawn.count("\n") == 1  # behind the last, which stays
    assert lines() == []


async def test_a_loop_that_fails_leaves_the_terminal_as_it_was(model: Model):
    terminal = Terminal()

    with pytest.raises(OpError, match="no more"):
        async with train.MonitoredSession(hooks=[train.ProgressHook(file=terminal)]) as session:
            await session.run(model.train_op)
            raise OpError("no more")

    assert_cursor_is_shown(terminal)


async def test_where_it_is_unknown_where_training_ends_there_is_no_bar(model: Model, lines):
    await trained(model, [train.ProgressHook(file=io.StringIO())], 3, seconds=0.5)

    assert lines() == ["step 1", "step 3  1.3 steps/s"]


async def test_tensors_may_be_given_by_name_or_as_they_are(model: Model, lines):
    ax.constant([1.0, 2.5], name="pair")
    tensors = ["pair", ax.constant(b"text", name="words"), model.weight.value()]

    await trained(model, [train.ProgressHook(tensors, file=io.StringIO())], 1)

    assert "pair [1. 2.5]" in lines()[0]
    assert "words b'text'" in lines()[0]


async def test_a_tensor_that_is_not_in_the_graph_is_refused(model: Model):
    with ax.Graph().as_default():
        stranger = ax.constant(1.0)

    with pytest.raises(GraphValueError, match="equal to current graph"):
        await trained(model, [train.ProgressHook([stranger])], 1)


async def test_steps_between_two_looks_fetch_nothing(model: Model):
    hook = train.ProgressHook({"weight": model.weight.value()}, file=io.StringIO())

    async with train.MonitoredSession(hooks=[hook]) as session:
        await session.run(model.train_op)
        context = train.SessionRunContext(train.SessionRunArgs(model.train_op), ax.Session())
        assert hook.before_run(context) is None
        await asyncio.sleep(10.0)
        assert hook.before_run(context) is not None


async def test_the_pace_is_that_of_the_latest_looks():
    rate = Rate()
    assert (rate.per_second, rate.seconds_for(5)) == (None, None)

    for second in range(100):
        rate.add(float(second), 10 * second if second < 50 else 500 + 20 * (second - 50))

    assert (rate.per_second, rate.seconds_for(100)) == (20.0, 5.0)


async def test_a_pace_that_was_forgotten_is_not_known():
    rate = Rate()
    rate.add(0.0, 0)
    rate.add(1.0, 5)
    rate.forget()

    assert rate.per_second is None


async def test_training_that_stands_still_will_never_end():
    rate = Rate()
    rate.add(0.0, 5)
    rate.add(1.0, 5)

    assert progress_line(5, 10, rate, {}) == "━━━━━━╌╌╌╌╌╌  step 5 of 10 (50%)  0.0 steps/s"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (np.float32(0.123456), "0.1235"),
        (np.int64(12), "12"),
        (np.float32(np.nan), "nan"),
        (b"text", "b'text'"),
        (np.array([[1, 2], [3, 4]]), "[[1 2] [3 4]]"),
        (np.zeros(100), "[0. 0. ... 0. 0.]"),
    ],
)
async def test_values_are_shown_shortly(value, shown):
    assert progress_line(1, None, Rate(), {"x": value}) == f"step 1  x {shown}"


async def test_long_times_are_printed_in_hours():
    rate = Rate()
    rate.add(0.0, 0)
    rate.add(1.0, 1)

    assert progress_line(1, 7_385, rate, {}).endswith("2:03:04 left")
