"""Faulty hooks: raised errors, calls that never return, which hooks are called then; and hooks for one step."""

import asyncio

import pytest

import aioexec as ax
from aioexec import train
from aioexec.errors import InvalidArgumentError, OpError
from tests.train.hooked import Model, model as model, trained

pytestmark = pytest.mark.usefixtures("virtual_clock")

METHODS = ["begin", "after_create_session", "before_run", "after_run", "end"]


def hook_with(method, does):
    """A hook with one method."""
    return type("Hook", (train.SessionRunHook,), {method: lambda self, *args: does(*args)})()


class Witness(train.SessionRunHook):
    """Remembers how the loop ended."""

    def __init__(self):
        self.ended = 0
        self.errors = []

    def end(self, session):
        self.ended += 1

    async def on_error(self, session, error):
        await asyncio.sleep(0)
        self.errors.append(error)


class Stuck:
    """A method that never returns."""

    def __init__(self):
        self.is_called = asyncio.Event()

    async def __call__(self, *args):
        self.is_called.set()
        await asyncio.Event().wait()

    async def times_out(self, clock, program):
        """Run a program with a deadline of a minute, which passes when it is stuck here."""

        async def in_time():
            async with asyncio.timeout(60):
                await program

        with clock.hold():  # plans are made in a thread
            running = asyncio.create_task(in_time())
            await self.is_called.wait()
        with pytest.raises(TimeoutError):
            await running


@pytest.mark.parametrize("method", METHODS)
async def test_a_hook_that_never_returns_ends_with_the_callers_deadline(model: Model, method, virtual_clock):
    stuck = Stuck()

    await stuck.times_out(virtual_clock, trained(model, [hook_with(method, stuck)], 3))


@pytest.mark.parametrize("method", ["before_run", "after_run"])
async def test_a_deadline_for_a_step_leaves_the_session_usable(model: Model, method, virtual_clock):
    stuck = Stuck()

    async with train.MonitoredSession() as session:
        running = session.run(model.train_op, hooks=[hook_with(method, stuck)])
        await stuck.times_out(virtual_clock, running)
        await session.run(model.train_op)
        assert await session.run(model.global_step) == (2 if method == "after_run" else 1)


async def test_an_error_hook_that_never_returns_ends_with_the_callers_deadline(model: Model, virtual_clock):
    stuck = Stuck()

    async def program():
        async with train.MonitoredSession(hooks=[hook_with("on_error", stuck), Witness()]):
            raise OpError("the reason")

    await stuck.times_out(virtual_clock, program())


async def test_the_deadline_of_a_step_is_none_of_its_hooks(model: Model, virtual_clock):
    async def save(run_context, run_values):
        virtual_clock.advance(100.0)
        await asyncio.sleep(1.0)

    async with train.MonitoredSession() as session:
        saving = hook_with("after_run", save)
        with virtual_clock.hold():  # plans are made in a thread
            running = asyncio.create_task(
                session.run(model.train_op, options=ax.RunOptions(timeout_in_ms=50), hooks=[saving])
            )
            while virtual_clock.time() < 100.0:
                await asyncio.sleep(0)
        await running


@pytest.mark.parametrize("method", ["before_run", "after_run"])
async def test_hooks_get_the_error_that_ends_the_loop(model: Model, method):
    def fail(*args):
        raise OpError("the reason")

    witness = Witness()

    with pytest.raises(OpError, match="the reason"):
        await trained(model, [witness, hook_with(method, fail)], 3)

    assert witness.ended == 0
    assert [str(error) for error in witness.errors] == ["the reason"]


async def test_hooks_get_the_error_of_a_failed_step_that_is_raised(model: Model):
    witness = Witness()

    with pytest.raises(InvalidArgumentError) as raised:
        async with train.MonitoredSession(hooks=[witness]) as session:
            await session.run(model.train_op, {model.by: "no number"})

    assert witness.errors == [raised.value]


async def test_hooks_get_the_error_of_a_loss_that_is_nan(model: Model):
    witness = Witness()

    with pytest.raises(train.NanLossDuringTrainingError) as raised:
        await trained(model, [witness, train.NanTensorHook(model.weight / 0.0)], 3)

    assert witness.errors == [raised.value]


async def test_hooks_get_a_cancellation(model: Model):
    witness, opened = Witness(), asyncio.Event()

    async def train_forever():
        async with train.MonitoredSession(hooks=[witness]):
            opened.set()
            await asyncio.Event().wait()

    training = asyncio.create_task(train_forever())
    await opened.wait()
    training.cancel()

    with pytest.raises(asyncio.CancelledError):
        await training
    assert [type(error) for error in witness.errors] == [asyncio.CancelledError]


async def test_hooks_get_no_error_at_a_regular_end(model: Model):
    witness = Witness()

    await trained(model, [witness, train.StopAtStepHook(num_steps=2)], 5)

    assert (witness.ended, witness.errors) == (1, [])


async def test_hooks_get_the_error_of_another_that_cannot_end(model: Model):
    def fail(session):
        raise OpError("no end")

    before, after = Witness(), Witness()

    with pytest.raises(OpError, match="no end") as raised:
        await trained(model, [before, hook_with("end", fail), after], 1)

    assert (before.ended, before.errors) == (1, [])
    assert (after.ended, after.errors) == (0, [raised.value])


async def test_an_error_in_an_error_hook_is_logged_and_the_others_are_called(model: Model, caplog):
    def fail(session, error):
        raise KeyError("worse")

    witness = Witness()

    with pytest.raises(OpError, match="the reason"):
        async with train.MonitoredSession(hooks=[hook_with("on_error", fail), witness]):
            raise OpError("the reason")

    assert [str(error) for error in witness.errors] == ["the reason"]
    assert "worse" in caplog.text


# Stopping from outside


class Stopper(train.SessionRunHook):
    """Has a task that asks to stop ten seconds after the first step, for a reason or for none."""

    def __init__(self, reason=None):
        self._reason = reason
        self._stopping = None

    def after_create_session(self, session, coord):
        self._coord = coord

    def after_run(self, run_context, run_values):
        self._stopping = self._stopping or asyncio.create_task(self._stop())

    async def _stop(self):
        await asyncio.sleep(10.0)
        self._coord.request_stop(self._reason)


async def test_another_task_may_ask_to_stop(model: Model):
    witness = Witness()

    assert 1 <= await trained(model, [Stopper(), witness], 100, seconds=1.5) <= 7
    assert (witness.ended, witness.errors) == (1, [])


async def test_another_task_may_ask_to_stop_for_an_error(model: Model):
    with pytest.raises(OpError, match="no more input"):
        await trained(model, [Stopper(OpError("no more input"))], 100, seconds=1.5)


# Hooks for one step


async def test_a_hook_for_one_step_takes_part_in_that_step_alone(model: Model):
    called: list[object] = []

    class Once(train.SessionRunHook):
        def begin(self):
            called.append("begin")

        def after_create_session(self, session, coord):
            called.append("after_create_session")

        def before_run(self, run_context):
            called.append("before_run")
            return train.SessionRunArgs(model.weight, {model.by: 5})

        async def after_run(self, run_context, run_values):
            called.append(("after_run", float(run_values.results)))

        def end(self, session):
            called.append("end")

    async with train.MonitoredSession(hooks=[train.StopAtStepHook(last_step=7)]) as session:
        await session.run(model.train_op)
        await session.run(model.train_op, hooks=[Once()])
        await session.run(model.train_op)
        assert session.should_stop()

    assert called[0] == "before_run"
    assert called[1] in [("after_run", 1.0), ("after_run", 2.0)]  # nothing orders the read
    assert len(called) == 2


async def test_a_hook_for_one_step_may_end_the_loop(model: Model):
    once = hook_with("after_run", lambda run_context, run_values: run_context.request_stop())

    async with train.MonitoredSession() as session:
        await session.run(model.train_op, hooks=[once])
        assert session.should_stop()


async def test_a_hook_for_one_step_comes_after_the_sessions_own(model: Model):
    order = []
    own = hook_with("after_run", lambda *args: order.append("own"))
    once = hook_with("after_run", lambda *args: order.append("once"))

    async with train.MonitoredSession(hooks=[own]) as session:
        await session.run(model.train_op, hooks=[once])

    assert order == ["own", "once"]
