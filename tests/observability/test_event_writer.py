"""The writer accepts events without waiting, keeps their order, loses none, and leaves no thread."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

from aioexec.errors import OpError, ResourceExhaustedError, UnknownError
from aioexec.observability.event_writer import THREAD_NAME, EventWriter

LONG = 3600.0


class Disk:
    """A file in memory that can be made to wait and to fail; it keeps what was asked of it in order."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.open = threading.Event()  # while it is not set, nothing is written
        self.open.set()
        self.asked = threading.Event()  # a thread wants to write
        self.synced = threading.Event()
        self.failures: list[OpError] = []
        self.content = b""

    def append(self, records: bytes) -> None:
        self.asked.set()
        assert self.open.wait(30)
        self._fail()
        self.content += records
        self.log.append(records)

    def sync(self) -> None:
        self._fail()
        self.log.append("sync")
        self.synced.set()

    def close(self) -> None:
        self.log.append("close")

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)


@pytest.fixture
def disk():
    return Disk()


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == THREAD_NAME]


async def until(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, 30)


def join_threads() -> None:
    for thread in threads():
        thread.join(30)
        assert not thread.is_alive()


# Taking


async def test_adding_never_waits_for_the_disk(disk):
    writer = EventWriter(disk, LONG)
    disk.open.clear()
    writer.add(b"first,")
    await until(disk.asked)

    for _ in range(1000):
        writer.add(b"x")
    assert disk.content == b""

    disk.open.set()
    await writer.flush()
    assert disk.content == b"first," + b"x" * 1000
    await writer.close()


async def test_what_was_added_is_written_in_order_from_any_thread(disk):
    writer = EventWriter(disk, LONG)

    def add(name: str) -> None:
        for k in range(300):
            writer.add(f"{name}{k} ".encode())

    async with asyncio.TaskGroup() as group:
        for name in "abcd":
            group.create_task(asyncio.to_thread(add, name))
    await writer.close()

    words = disk.content.decode().split()
    assert len(words) == 1200
    for name in "abcd":
        assert [word for word in words if word[0] == name] == [f"{name}{k}" for k in range(300)]


async def test_large_amounts_are_written_in_pieces_of_whole_records(disk):
    writer = EventWriter(disk, LONG)
    disk.open.clear()
    writer.add(b"-")
    await until(disk.asked)
    for _ in range(40):
        writer.add(b"r" * 30_000)
    disk.open.set()
    await writer.close()

    pieces = [each for each in disk.log if isinstance(each, bytes)][1:]
    assert len(pieces) > 1
    assert all(len(piece) % 30_000 == 0 for piece in pieces)


async def test_other_things_to_do_are_done_in_their_turn(disk):
    writer = EventWriter(disk, LONG)
    writer.add(b"a")
    writer.add(lambda: disk.log.append("done"))
    writer.add(b"b")
    await writer.flush()

    assert b"".join(each.encode() if isinstance(each, str) else each for each in disk.log) == b"adonebsync"
    await writer.close()


async def test_what_waits_is_bounded_and_a_flush_makes_room(disk):
    writer = EventWriter(disk, LONG, most_waiting=100)
    disk.open.clear()
    writer.add(b"x" * 60)
    await until(disk.asked)
    writer.add(b"y" * 40)

    with pytest.raises(ResourceExhaustedError, match="100 bytes wait for the disk, no room for 1 more"):
        writer.add(b"z")

    disk.open.set()
    await writer.flush()
    writer.add(b"z")
    await writer.close()
    assert disk.content == b"x" * 60 + b"y" * 40 + b"z"


async def test_one_record_may_be_larger_than_the_bound(disk):
    writer = EventWriter(disk, LONG, most_waiting=100)
    writer.add(b"x" * 1000)
    await writer.close()

    assert len(disk.content) == 1000


# Flushing


async def test_a_flush_has_the_disk_keep_everything_added_before(disk):
    writer = EventWriter(disk, LONG)
    writer.add(b"a")
    writer.add(b"b")
    await writer.flush()

    assert disk.content == b"ab"
    assert disk.log[-1] == "sync"
    assert writer.is_idle
    await writer.close()


async def test_a_flush_of_nothing_does_nothing(disk):
    await EventWriter(disk, LONG).flush()

    assert disk.log == []
    assert threads() == []


def test_the_thread_writes_at_once_syncs_when_it_is_due_and_ends(disk):
    writer = EventWriter(disk, 0.0)
    writer.add(b"a")

    assert disk.synced.wait(30)
    join_threads()
    assert disk.log == [b"a", "sync"]
    assert writer.is_idle


def test_the_thread_writes_long_before_the_disk_must_keep_it(disk):
    writer = EventWriter(disk, LONG)
    writer.add(b"a")

    assert disk.asked.wait(30)
    writer.flush_now()
    join_threads()
    assert disk.log == [b"a", "sync"]


def test_a_thread_that_ended_is_followed_by_another(disk):
    writer = EventWriter(disk, 0.0)
    for content in (b"a", b"b"):
        disk.synced.clear()
        writer.add(content)
        assert disk.synced.wait(30)
        join_threads()

    assert disk.log == [b"a", "sync", b"b", "sync"]


async def test_a_cancelled_flush_takes_nothing_with_it(disk):
    writer = EventWriter(disk, LONG)
    disk.open.clear()
    writer.add(b"a")
    flush = asyncio.create_task(writer.flush())
    await until(disk.asked)
    flush.cancel()
    with pytest.raises(asyncio.CancelledError):
        await flush

    writer.add(b"b")
    disk.open.set()
    await writer.close()
    assert disk.content == b"ab"


# Closing


async def test_closing_writes_syncs_closes_and_leaves_no_thread(disk):
    writer = EventWriter(disk, LONG)
    writer.add(b"a")
    await until(disk.asked)
    await writer.close()

    assert disk.log == [b"a", "sync", "close"]
    assert threads() == []


async def test_a_closed_writer_takes_nothing_until_it_is_reopened(disk):
    writer = EventWriter(disk, LONG)
    await writer.close()
    writer.add(b"ignored")
    writer.reopen()
    writer.add(b"taken")
    await writer.close()

    assert disk.content == b"taken"


async def test_closing_twice_is_closing_once_more(disk):
    writer = EventWriter(disk, LONG)
    writer.add(b"a")
    await asyncio.gather(writer.close(), writer.close())

    assert disk.content == b"a"
    assert threads() == []


async def test_a_cancelled_close_is_finished_by_the_next(disk):
    writer = EventWriter(disk, LONG)
    disk.open.clear()
    writer.add(b"a")
    close = asyncio.create_task(writer.close())
    await until(disk.asked)
    close.cancel()
    with pytest.raises(asyncio.CancelledError):
        await close
    disk.open.set()
    await writer.close()

    assert disk.content == b"a"
    assert threads() == []


# Failing


async def test_a_flush_that_fails_says_why_and_the_next_writes_everything_in_order(disk):
    writer = EventWriter(disk, LONG)
    disk.failures = [UnknownError("no space")]
    writer.add(b"a")
    writer.add(b"b")

    with pytest.raises(UnknownError, match="no space"):
        await writer.flush()
    assert disk.content == b""

    await writer.flush()
    assert disk.content == b"ab"
    await writer.close()


def test_an_error_without_a_waiter_is_raised_once_by_the_next_add(disk):
    writer = EventWriter(disk, LONG)
    disk.failures = [UnknownError("no space")]
    writer.add(b"a")
    join_threads()

    with pytest.raises(UnknownError, match="no space"):
        writer.add(b"not taken")
    writer.add(b"b")
    writer.flush_now()
    assert disk.content == b"ab"
    join_threads()


async def test_an_error_without_a_waiter_is_raised_once_by_the_next_flush(disk):
    writer = EventWriter(disk, LONG)
    disk.failures = [UnknownError("no space")]
    writer.add(b"a")
    await asyncio.to_thread(join_threads)

    with pytest.raises(UnknownError, match="no space"):
        await writer.flush()
    assert disk.content == b"a"
    await writer.flush()
    await writer.close()


async def test_a_sync_that_fails_is_no_acknowledgement(disk):
    writer = EventWriter(disk, LONG)
    writer.add(b"a")
    await until(disk.asked)
    writer.add(b"b")
    disk.failures = [UnknownError("lost power")]

    with pytest.raises(UnknownError, match="lost power"):
        await writer.flush()
    await writer.flush()
    assert disk.content == b"ab"
    assert disk.log[-1] == "sync"
    await writer.close()


async def test_closing_tells_what_is_lost_and_ends_all_the_same(disk):
    writer = EventWriter(disk, LONG)
    disk.failures = [UnknownError("no space")] * 3
    writer.add(b"a")

    with pytest.raises(UnknownError, match="no space"):
        await writer.close()
    assert disk.log[-1] == "close"
    assert threads() == []
    assert writer.is_idle
    await writer.close()


async def test_something_else_that_fails_is_told_and_does_not_hold_up_what_is_behind_it(disk):
    def fail() -> None:
        raise UnknownError("no space")

    writer = EventWriter(disk, LONG)
    items: list[bytes | Callable[[], None]] = [b"a", fail, b"b"]
    for item in items:
        writer.add(item)

    with pytest.raises(UnknownError, match="no space"):
        await writer.flush()
    await writer.flush()

    assert disk.content == b"ab"
    await writer.close()


async def test_without_another_thread_a_flush_writes(disk, monkeypatch):
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    writer = EventWriter(disk, LONG)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        writer.add(b"a")
    await writer.flush()

    assert disk.log == [b"a", "sync"]
    await writer.close()


@pytest.mark.parametrize("seed", range(30))
def test_whatever_fails_in_between_all_that_was_taken_is_written_in_order(disk, seed):
    draw = random.Random(seed)
    writer = EventWriter(disk, draw.choice([0.0, LONG]))
    taken = []

    for k in range(200):
        if draw.random() < 0.1:
            disk.failures.append(UnknownError("no space"))
        try:
            if draw.random() < 0.1:
                writer.flush_now()
            else:
                writer.add(f"{k} ".encode())
                taken.append(str(k))
        except UnknownError:
            pass
    disk.failures.clear()
    while True:
        try:
            writer.flush_now()
            break
        except UnknownError:
            pass

    assert disk.content.decode().split() == taken
    assert writer.is_idle
    join_threads()
