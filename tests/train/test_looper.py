"""Loopers: called on time, stopped in time, and their errors reported to the coordinator."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioexec.errors import AbortedError, GraphValueError
from aioexec.testing import all_tasks_blocked
from aioexec.train.coordination.coordinator import Coordinator
from aioexec.train.coordination.looper import LooperThread


async def test_a_target_is_called_at_each_interval(virtual_clock):
    coord = Coordinator()
    times: list[float] = []
    looper = LooperThread.loop(coord, 10, lambda: times.append(virtual_clock.time()))
    await asyncio.sleep(35)

    coord.request_stop()
    await coord.join([looper])

    assert times == [0, 10, 20, 30]
    assert virtual_clock.time() == 35


async def test_calls_that_a_slow_one_made_late_follow_at_once(virtual_clock):
    coord = Coordinator()
    times: list[float] = []

    async def target() -> None:
        times.append(virtual_clock.time())
        if len(times) == 1:
            await asyncio.sleep(25)

    LooperThread.loop(coord, 10, target)
    await asyncio.sleep(45)
    coord.request_stop()
    await coord.join()

    assert times == [0, 25, 25, 30, 40]


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_without_an_interval_a_target_is_called_again_and_again_and_others_run_meanwhile(kind):
    coord = Coordinator()
    calls: list[tuple[Any, ...]] = []

    def plain(*args: Any, **kwargs: Any) -> None:
        calls.append((args, kwargs))
        if len(calls) == 5:
            coord.request_stop()

    async def awaited(*args: Any, **kwargs: Any) -> None:
        plain(*args, **kwargs)

    LooperThread.loop(coord, None, plain if kind == "plain" else awaited, args=(1,), kwargs={"two": 2})
    await coord.join()

    assert calls == [((1,), {"two": 2})] * 5


class Recording(LooperThread):
    """Records its calls; some methods are plain, some awaited."""

    def __init__(self, coord: Coordinator, fails_in: str = "", **options: Any) -> None:
        super().__init__(coord, 1, **options)
        self.calls: list[str] = []
        self.fails_in = fails_in

    def record(self, name: str) -> None:
        self.calls.append(name)
        if name == self.fails_in:
            raise AbortedError(name)

    async def start_loop(self) -> None:
        self.record("start")

    def run_loop(self) -> None:
        self.record("run")

    async def stop_loop(self) -> None:
        self.record("stop")


async def test_a_subclass_is_called_at_begin_and_end(virtual_clock):
    coord = Coordinator()
    looper = Recording(coord)
    looper.start()
    await asyncio.sleep(1.5)
    coord.request_stop()
    await coord.join()

    assert looper.calls == ["start", "run", "run", "stop"]


@pytest.mark.parametrize(("fails_in", "calls"), [("start", ["start"]), ("run", ["start", "run"])])
async def test_an_error_stops_the_group(virtual_clock, fails_in, calls):
    coord = Coordinator()
    looper = Recording(coord, fails_in)
    looper.start()

    with pytest.raises(AbortedError, match=fails_in):
        await coord.join()

    assert looper.calls == calls


async def test_an_error_after_the_request_changes_nothing(virtual_clock):
    coord = Coordinator()
    looper = Recording(coord, "stop")
    looper.start()
    await asyncio.sleep(0.5)
    coord.request_stop()

    await coord.join()

    assert looper.calls == ["start", "run", "stop"]


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_a_stop_iteration_ends_the_group_without_an_error(kind):
    coord = Coordinator()

    def plain() -> None:
        raise StopIteration

    async def awaited() -> None:
        raise StopIteration

    LooperThread.loop(coord, None, plain if kind == "plain" else awaited)
    await coord.join()

    assert coord.should_stop()


async def test_a_looper_that_is_cancelled_asks_the_others_to_stop():
    coord = Coordinator()

    async def target() -> None:
        await asyncio.get_running_loop().create_future()

    looper = LooperThread.loop(coord, None, target)
    await all_tasks_blocked()
    looper.cancel()
    await coord.join()

    assert coord.should_stop()


def test_arguments_that_do_not_fit_are_refused():
    no_coordinator: Any = object()
    with pytest.raises(GraphValueError, match="'coord' argument must be a Coordinator"):
        LooperThread(no_coordinator, 1)
    with pytest.raises(GraphValueError, match="also pass 'target'"):
        LooperThread(Coordinator(), 1, args=(1,))


async def test_a_looper_without_a_target_waits_for_the_end(virtual_clock):
    coord = Coordinator()
    looper = LooperThread(coord, 1)
    looper.start()
    await asyncio.sleep(3)
    coord.request_stop()

    await coord.join()

    assert not looper.is_alive()
