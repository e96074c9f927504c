"""Thread pools: sharing, the number of threads, and the end of a pool with its last holder."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import Counter

import pytest
from hypothesis import given, strategies as st

from aioexec.devices.threads.numa import NumaNode
from aioexec.devices.threads.pools import (
    acquire_pool,
    dismiss_pool,
    hold_pool,
    inter_op_pool,
    inter_op_threads,
    intra_op_pools,
    intra_op_threads,
    named_pool,
    own_pool,
)
from aioexec.devices.threads.workers import Workers, processors
from aioexec.errors import InvalidArgumentError
from tests.devices.table import Options, all_pools_given_back as all_pools_given_back

pytestmark = pytest.mark.usefixtures("all_pools_given_back")


async def release(pool: Workers) -> None:
    """Hold a pool no more; the last holder waits until its threads have ended."""
    dismiss_pool(pool)
    if pool.closed:
        await pool.close()


VARIABLES = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "TF_OVERRIDE_GLOBAL_THREADPOOL")


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


def dismiss(*pools: Workers) -> None:
    for pool in pools:
        dismiss_pool(pool)


# Sizes


@pytest.mark.behaviour(124)
@pytest.mark.parametrize(
    ("asked", "environment", "expected"),
    [
        (0, "", None),
        (5, "", 5),
        (0, "3", 3),
        (5, "3", 5),
        (0, "many", None),
        (-1, "3", 1),
        (0, "-1", 1),
        (5, "-1", 5),
    ],
)
def test_inter_op_threads_are_as_asked_then_as_the_environment_says_then_one_a_processor(
    monkeypatch: pytest.MonkeyPatch, asked: int, environment: str, expected: int | None
):
    monkeypatch.setenv("TF_NUM_INTEROP_THREADS", environment)

    assert inter_op_threads(Options(inter_op_threads=asked)) == (expected or processors())


@pytest.mark.parametrize(
    ("asked", "environment", "expected"),
    [(0, "", None), (5, "", 5), (0, "3", 3), (5, "3", 5), (0, "many", None), (-1, "", None), (0, "-2", None)],
)
def test_intra_op_threads_are_as_asked_then_as_the_environment_says_then_one_a_processor(
    monkeypatch: pytest.MonkeyPatch, asked: int, environment: str, expected: int | None
):
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", environment)

    assert intra_op_threads(Options(intra_op_threads=asked)) == (expected or processors())


def test_a_device_of_one_numa_node_has_a_thread_for_each_of_its_processors():
    one = NumaNode(0, frozenset({min(os.sched_getaffinity(0))}))

    assert intra_op_threads(Options(), one) == 1
    assert intra_op_threads(Options(intra_op_threads=4), one) == 4


# Sharing


def test_devices_of_all_sessions_share_a_pool_of_the_size_they_ask_for():
    first, second = intra_op_pools(Options(), [None, None])
    (other,) = intra_op_pools(Options(), [None])
    (larger,) = intra_op_pools(Options(intra_op_threads=processors() + 1), [None])
    dismiss(first, second, other, larger)

    assert first is second is other
    assert larger is not first
    assert larger.count == processors() + 1


def test_on_request_the_devices_of_one_session_share_a_pool_of_their_own():
    options = Options(use_per_session_threads=True)
    first, second = intra_op_pools(options, [None, None])
    (other,) = intra_op_pools(options, [None])
    dismiss(first, second, other)

    assert first is second
    assert first is not other


@pytest.mark.parametrize("value", ["1", "true"])
@pytest.mark.parametrize("per_session", [False, True])
def test_the_environment_can_give_each_device_a_pool_of_its_own(
    monkeypatch: pytest.MonkeyPatch, value: str, per_session: bool
):
    monkeypatch.setenv("TF_OVERRIDE_GLOBAL_THREADPOOL", value)
    pools = intra_op_pools(Options(use_per_session_threads=per_session), [None, None])
    dismiss(*pools)

    assert pools[0] is not pools[1]


async def test_the_threads_of_a_numa_node_run_on_its_processors():
    processor = max(os.sched_getaffinity(0))
    node = NumaNode(1, frozenset({processor}))
    bound, again, free = intra_op_pools(Options(intra_op_threads=2), [node, node, None])

    affinities = [await pool.submit(lambda: os.sched_getaffinity(0)).result() for pool in (bound, free)]
    for pool in (bound, again, free):
        await release(pool)

    assert bound is again
    assert affinities == [{processor}, os.sched_getaffinity(0)]


@pytest.mark.parametrize("per_session", [False, True])
def test_steps_use_the_pool_of_the_client_device_if_it_has_the_size_they_ask_for(per_session: bool):
    options = Options(intra_op_threads=3, inter_op_threads=3, use_per_session_threads=per_session)
    (device_pool,) = intra_op_pools(options, [None])
    pool = inter_op_pool(options, device_pool)

    dismiss(device_pool)
    closed_while_held = pool.closed
    dismiss(pool)

    assert pool is device_pool
    assert (closed_while_held, pool.closed) == (False, True)


@pytest.mark.parametrize(("per_session", "shared"), [(False, True), (True, False)])
def test_steps_that_ask_for_another_size_have_another_pool(per_session: bool, shared: bool):
    options = Options(intra_op_threads=3, inter_op_threads=2, use_per_session_threads=per_session)
    device_pools = [intra_op_pools(options, [None])[0] for _ in range(2)]
    first, second = (inter_op_pool(options, pool) for pool in device_pools)
    dismiss(*device_pools, first, second)

    assert first.count == second.count == 2
    assert (first is second) is shared


@pytest.mark.parametrize(("asked", "environment"), [(-1, ""), (0, "-1")])
def test_a_negative_number_is_one_thread_of_the_sessions_own(
    monkeypatch: pytest.MonkeyPatch, asked: int, environment: str
):
    monkeypatch.setenv("TF_NUM_INTEROP_THREADS", environment)
    options = Options(intra_op_threads=1, inter_op_threads=asked)
    (device_pool,) = intra_op_pools(options, [None])
    first, second = inter_op_pool(options, device_pool), inter_op_pool(options, device_pool)
    dismiss(device_pool, first, second)

    assert len({device_pool, first, second}) == 3
    assert first.count == 1


# Named pools


def test_a_named_pool_is_shared_by_name():
    first, second = named_pool("test-shared", 2, Options()), named_pool("test-shared", 2, Options())
    other = named_pool("test-other", 2, Options())
    dismiss(first, second, other)

    assert first is second
    assert other is not first
    assert first.count == 2


def test_a_pool_without_a_name_is_the_sessions_own():
    first, second = named_pool("", 2, Options()), named_pool("", 3, Options())
    third = named_pool("", 2, Options())
    dismiss(first, second, third)

    assert len({first, second, third}) == 3


def test_a_name_keeps_its_number_of_threads_for_ever():
    dismiss(named_pool("test-kept", 2, Options()))

    with pytest.raises(
        InvalidArgumentError, match="'test-kept' already exists with a different number of threads"
    ):
        named_pool("test-kept", 3, Options())
    again = named_pool("test-kept", 2, Options())
    dismiss(again)

    assert again.count == 2


def test_a_named_pool_without_a_number_has_what_its_first_session_has():
    first = named_pool("test-default", 0, Options(inter_op_threads=4))
    second = named_pool("test-default", 0, Options(inter_op_threads=5))
    dismiss(first, second)

    assert first is second
    assert first.count == 4


# Life


async def test_a_pool_ends_with_its_last_holder_and_a_new_one_takes_its_name():
    first = acquire_pool("test-ends", 1)
    second = acquire_pool("test-ends", 1)
    thread = await first.submit(threading.current_thread).result()

    await release(first)
    assert await second.submit(threading.current_thread).result() is thread
    await release(second)
    assert not thread.is_alive()

    third = acquire_pool("test-ends", 1)
    dismiss(third)
    assert third is not first


async def test_a_pool_made_elsewhere_has_one_holder():
    pool = Workers(1, "elsewhere")

    hold_pool(pool)
    dismiss_pool(pool)
    closed_while_held = pool.closed
    await release(pool)

    assert (closed_while_held, pool.closed) == (False, True)


def test_event_loops_in_several_threads_share_the_threads_of_one_pool():
    together, seen = threading.Barrier(4), []

    async def session() -> None:
        pool = acquire_pool("test-loops", 2)
        together.wait()
        jobs = [pool.submit(threading.current_thread) for _ in range(50)]
        seen.extend([await job.result() for job in jobs])
        await release(pool)

    callers = [threading.Thread(target=asyncio.run, args=(session(),)) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()

    assert len(seen) == 200
    assert {thread.name for thread in seen} <= {"test-loops-0", "test-loops-1"}
    assert not any(thread.is_alive() for thread in seen)


class Holders:
    """A model of the holders of each pool, beside the real ones."""

    def __init__(self) -> None:
        self.held: list[Workers] = []
        self.seen: set[Workers] = set()

    def acquired(self, pool: Workers) -> None:
        self.held.append(pool)
        self.seen.add(pool)
        self.check_invariants()

    def dismiss(self, position: int) -> None:
        dismiss_pool(self.held.pop(position % len(self.held)))
        self.check_invariants()

    def check_invariants(self) -> None:
        """A pool is open exactly while it has a holder; of the shared ones with one name and size one is open."""
        holders = Counter(self.held)
        assert {pool for pool in self.seen if not pool.closed} == set(holders)
        shared = [(pool.name, pool.count) for pool in holders if pool.name != "own"]
        assert len(shared) == len(set(shared))


EVENTS = st.lists(
    st.tuples(st.sampled_from(["acquire", "own", "hold", "dismiss"]), st.integers(0, 5), st.integers(1, 3))
)


@given(EVENTS)
def test_in_any_order_of_events_a_pool_is_open_exactly_while_it_has_a_holder(
    events: list[tuple[str, int, int]],
):
    holders = Holders()
    for event, position, count in events:
        if event == "acquire":
            holders.acquired(acquire_pool(f"shared-{position % 2}", count))
        elif event == "own":
            holders.acquired(own_pool("own", count))
        elif holders.held and event == "hold":
            holders.acquired(hold_pool(holders.held[position % len(holders.held)]))
        elif holders.held:
            holders.dismiss(position)
    while holders.held:
        holders.dismiss(0)
