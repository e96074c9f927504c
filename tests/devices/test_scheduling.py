"""Scheduling attributes of workers, by which event loops preempt them: nice value and length of time slices."""

from __future__ import annotations

import os
import threading

import pytest

from aioexec.devices.threads import scheduling
from aioexec.devices.threads.scheduling import NICENESS, TURNS, turn_ns
from aioexec.devices.threads.workers import Workers


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def of_a_thread() -> tuple[int, int]:
    return niceness(), turn_ns()


@pytest.mark.skipif(
    os.uname().sysname != "Linux", reason="only on Linux has each thread a niceness of its own"
)
async def test_workers_give_way_to_the_loop():
    workers = Workers(1, "pool")
    before = of_a_thread()

    of_worker = await workers.submit(of_a_thread).result()
    await workers.close()

    assert of_worker == (min(before[0] + NICENESS, 19), before[1] * TURNS)
    assert of_a_thread() == before


async def test_workers_work_where_the_system_knows_no_turns(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scheduling, "_CALLS", {})
    workers = Workers(1, "pool")

    of_worker = await workers.submit(of_a_thread).result()
    await workers.close()

    assert of_worker[1] == 0
