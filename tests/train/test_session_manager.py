"""SessionManager: the order of operations, errors for a model that is not ready, and waiting times."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec import errors
from aioexec.sessions import factory

train = ax.train


@pytest.fixture
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def order(graph):
    """Makes operations that record when they are run."""
    return Order()


class Order:
    def __init__(self) -> None:
        self.run: list[str] = []

    def op(self, name: str, after: Any = None) -> Any:
        """An operation that notes its name, then runs another."""
        noted = ax.py_func(lambda: self.run.append(name), [], [], stateful=True, name=name)
        if after is None:
            return noted
        with ax.control_dependencies([noted]):
            return after() if callable(after) else ax.group(after)

    def ready(self, name: str) -> Any:
        return self.op(name, lambda: ax.constant([], ax.string))


async def test_all_is_run_in_order(order):
    manager = train.SessionManager(
        local_init_op=order.op("local_init_op"),
        ready_op=order.ready("ready_op"),
        ready_for_local_init_op=order.ready("ready_for_local_init_op"),
    )
    init_op = order.op("init_op")

    async with await manager.prepare_session(
        "", init_op, init_fn=lambda session: order.run.append("init_fn")
    ):
        assert order.run == ["init_op", "init_fn", "ready_for_local_init_op", "local_init_op", "ready_op"]


async def test_an_init_function_may_be_awaited_and_init_ops_are_fed(graph):
    x, y = ax.placeholder(ax.int32, []), ax.placeholder(ax.int32, [])
    v = ax.Variable(0)
    local = ax.local_variable(0) if hasattr(ax, "local_variable") else ax.Variable(0)
    doubled = ax.assign(v, v * 2)

    async def init_fn(session: Any) -> None:
        await session.run(doubled)

    manager = train.SessionManager(local_init_op=ax.assign(local, y), local_init_feed_dict={y: 7})
    session = await manager.prepare_session("", ax.assign(v, x), init_feed_dict={x: 3}, init_fn=init_fn)
    async with session:
        assert await session.run([v, local]) == [6, 7]


async def test_local_init_options_are_passed(graph):
    manager = train.SessionManager(
        local_init_op=ax.FIFOQueue(1, [ax.int32]).dequeue(),
        local_init_run_options=ax.RunOptions(timeout_in_ms=1),
    )

    with pytest.raises(errors.DeadlineExceededError):
        await manager.prepare_session("")


def test_ready_for_local_init_needs_a_local_init(graph):
    with pytest.raises(
        ValueError, match="If you pass a ready_for_local_init_op you must also pass a local_init_op"
    ):
        train.SessionManager(ready_for_local_init_op=ax.constant([], ax.string))


async def test_there_must_be_something_to_initialise_with(graph):
    with pytest.raises(
        RuntimeError, match="Model is not initialized and no init_op or init_fn or local_init_op was"
    ):
        await train.SessionManager().prepare_session("")


async def test_a_model_that_is_not_ready_names_its_variables(graph):
    w, v = ax.Variable(1, name="w"), ax.Variable(1, name="v")
    missing = ax.report_uninitialized_variables()
    manager = train.SessionManager(ready_op=missing)

    with pytest.raises(
        RuntimeError,
        match=r"(?s)Init operations did not make model ready\..*Init op: init, .*"
        r"local_init_op: None, error: Variables not initialized: w",
    ):
        await manager.prepare_session("", ax.variables_initializer([v]))

    manager = train.SessionManager(local_init_op=ax.no_op(), ready_for_local_init_op=missing)
    with pytest.raises(
        RuntimeError, match=r"did not make model ready for local_init\..*Variables not initialized: w, v"
    ):
        await manager.prepare_session("", ax.no_op())
    assert w is not v


async def test_a_ready_op_that_reads_too_soon_means_not_ready(graph):
    ax.Variable(1, name="w")
    manager = train.SessionManager(ready_op=ax.assert_variables_initialized())

    with pytest.raises(RuntimeError, match=r"error: .*Attempting to use uninitialized value w"):
        await manager.prepare_session("", ax.no_op())


@pytest.mark.parametrize("kind", ["op", "int32"])
async def test_a_ready_op_without_a_list_of_names_means_ready(graph, kind):
    ready = ax.no_op() if kind == "op" else ax.constant([1, 2])

    async with await train.SessionManager(ready_op=ready).prepare_session("", ax.no_op()) as session:
        assert session.graph is graph


# Checkpoints


@pytest.fixture
async def saved(tmp_path):
    """A directory with a checkpoint in which the variable `v` is 5."""
    with ax.Graph().as_default():
        v = ax.Variable(5, name="v")
        saver = train.Saver([v])
        async with ax.Session() as session:
            await session.run(ax.global_variables_initializer())
            await saver.save(session, str(tmp_path / "model"), global_step=3)
    return tmp_path


async def test_a_checkpoint_is_restored_instead_of_initialising(saved, order):
    v = ax.Variable(0, name="v")
    saver = train.Saver([v])
    manager = train.SessionManager(
        ready_op=ax.report_uninitialized_variables(), local_init_op=order.op("local_init_op")
    )

    session = await manager.prepare_session("", order.op("init_op"), saver, checkpoint_dir=str(saved))

    async with session:
        assert await session.run(v) == 5
    assert order.run == ["local_init_op"]
    assert saver.last_checkpoints == [str(saved / "model-3")]


async def test_a_checkpoint_is_restored_by_name(saved, graph):
    v = ax.Variable(0, name="v")
    manager = train.SessionManager()

    session = await manager.prepare_session(
        "", saver=train.Saver([v]), checkpoint_filename_with_path=str(saved / "model-3")
    )

    async with session:
        assert await session.run(v) == 5
    with pytest.raises(
        ValueError, match="Can not provide both checkpoint_dir and checkpoint_filename_with_path"
    ):
        await manager.prepare_session("", None, train.Saver([v]), str(saved), str(saved / "model-3"))


async def test_without_a_checkpoint_the_model_is_initialised(tmp_path, graph):
    v = ax.Variable(1, name="v")
    manager = train.SessionManager()

    session = await manager.prepare_session(
        "", ax.global_variables_initializer(), train.Saver([v]), checkpoint_dir=str(tmp_path)
    )

    async with session:
        assert await session.run(v) == 1


async def test_a_checkpoint_is_waited_for(saved, graph, virtual_clock):
    v = ax.Variable(1, name="v")
    initializer, saver = ax.global_variables_initializer(), train.Saver([v])
    (saved / "checkpoint").rename(saved / "later")
    manager = train.SessionManager(recovery_wait_secs=10)

    async def appear() -> None:
        await asyncio.sleep(35)
        (saved / "later").rename(saved / "checkpoint")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(appear())
        session = await manager.prepare_session("", initializer, saver, str(saved), wait_for_checkpoint=True)
    async with session:
        assert await session.run(v) == 5
    assert virtual_clock.time() == 40


async def test_a_checkpoint_is_waited_for_so_long(tmp_path, graph, virtual_clock):
    v = ax.Variable(1, name="v")
    manager = train.SessionManager(recovery_wait_secs=10)

    session = await manager.prepare_session(
        "",
        ax.global_variables_initializer(),
        train.Saver([v]),
        str(tmp_path),
        wait_for_checkpoint=True,
        max_wait_secs=25,
    )

    async with session:
        assert await session.run(v) == 1
    assert virtual_clock.time() == 30


async def test_recovering_returns_whether_the_model_was_restored(saved, tmp_path, graph):
    v = ax.Variable(1, name="v")
    missing, saver = ax.report_uninitialized_variables(), train.Saver([v])
    manager = train.SessionManager(ready_op=missing)

    session, is_ready = await manager.recover_session("", saver, str(saved))
    async with session:
        assert is_ready
        assert await session.run(v) == 5

    for checkpoint_dir in (None, str(tmp_path / "nowhere")):
        session, is_ready = await manager.recover_session("", saver, checkpoint_dir)
        async with session:
            assert not is_ready
            assert list(await session.run(missing)) == [b"v"]


async def test_recovering_a_part_of_the_model_is_not_enough(saved, graph, caplog):
    v, w = ax.Variable(1, name="v"), ax.Variable(1, name="w")
    missing = ax.report_uninitialized_variables()
    caplog.set_level("INFO")

    manager = train.SessionManager(ready_op=missing)
    session, is_ready = await manager.recover_session("", train.Saver([v]), str(saved))
    async with session:
        assert not is_ready
    assert "did not make model ready: Variables not initialized: w" in caplog.text

    manager = train.SessionManager(local_init_op=ax.no_op(), ready_for_local_init_op=missing)
    session, is_ready = await manager.recover_session("", train.Saver([v]), str(saved))
    async with session:
        assert not is_ready
    assert "did not make model ready for local init: Variables not initialized: w" in caplog.text
    assert w is not v


# Waiting for others


async def test_a_model_is_waited_for_until_others_have_made_it_ready(graph, virtual_clock):
    ready: list[bytes] = [b"v", b"w"]
    ready_op = ax.py_func(lambda: np.array(ready, object), [], ax.string, stateful=True)
    manager = train.SessionManager(ready_op=ready_op)

    async def make_ready() -> None:
        await asyncio.sleep(2.5)
        ready.clear()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(make_ready())
        session = await manager.wait_for_session("")
    async with session:
        pass
    assert 2.5 <= virtual_clock.time() <= 3


async def test_a_model_is_waited_for_so_long(graph, virtual_clock):
    ax.Variable(1, name="v")
    manager = train.SessionManager(ready_op=ax.report_uninitialized_variables(), recovery_wait_secs=30)

    with pytest.raises(
        errors.DeadlineExceededError,
        match=r"Session was not ready after waiting 100 secs\.  Variables not initialized: v",
    ):
        await manager.wait_for_session("", max_wait_secs=100)

    assert virtual_clock.time() == 90


# Leaks


class Sessions:
    """Counts the sessions that are open."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from aioexec.train.sessions import session_manager

        self.made: list[Any] = []
        sessions = self

        class Counted(ax.Session):
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **kwargs)
                sessions.made.append(self)

        monkeypatch.setattr(session_manager, "Session", Counted)

    @property
    def open(self) -> list[Any]:
        return [session for session in self.made if not session._closed]


@pytest.mark.parametrize("verb", ["prepare_session", "wait_for_session", "recover_session"])
async def test_a_session_that_fails_to_get_ready_is_closed(graph, monkeypatch, verb):
    sessions = Sessions(monkeypatch)
    manager = train.SessionManager(local_init_op=ax.py_func(lambda: 1 // 0, [], ax.int32, stateful=True))

    with pytest.raises(errors.OpError, match="division"):
        await getattr(manager, verb)("")

    assert len(sessions.made) == 1
    assert sessions.open == []


@pytest.mark.parametrize("verb", ["prepare_session", "wait_for_session", "recover_session"])
async def test_a_session_that_is_given_up_is_closed(graph, monkeypatch, verb, virtual_clock):
    sessions = Sessions(monkeypatch)
    manager = train.SessionManager(local_init_op=ax.FIFOQueue(1, [ax.int32]).dequeue())

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(10):
            await getattr(manager, verb)("")

    assert len(sessions.made) == 1
    assert sessions.open == []


async def test_an_unknown_master_is_not_found(graph):
    with pytest.raises(errors.NotFoundError, match="No session factory registered"):
        await train.SessionManager().prepare_session("nowhere://")
    assert not factory.is_registered("nowhere")
