"""A monitored session calls hooks, tasks and sessions in TensorFlow's order, under any failure."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any

import pytest

import aioexec as ax
from aioexec import errors
from aioexec.train.coordination.coordinator import Coordinator
from aioexec.train.errors import EndOfLoopError
from aioexec.train.hooks.session_run_hook import SessionRunArgs, SessionRunHook
from aioexec.train.sessions.monitored_session import _MonitoredSession
from tests.train.call_sequences import MOST_STEPS, Sequence, cases, settled

ERRORS: dict[str, type[Exception]] = {
    "Aborted": errors.AbortedError,
    "Unavailable": errors.UnavailableError,
    "OutOfRange": errors.OutOfRangeError,
    "StopIteration": StopIteration,
    "Value": ValueError,
    "Key": KeyError,
}


class Script:
    """Records calls, and injects events into them."""

    def __init__(self, events: dict[str, list[str]]) -> None:
        self.events = events
        self.calls: list[str] = []
        self.counts: Counter[str] = Counter()
        self.coord: Any = None

    def call(self, word: str, context: Any = None) -> None:
        self.counts[word] += 1
        if word != "body":
            self.calls.append(word)
        for event in self.events.get(f"{word}:{self.counts[word]}", ()):
            of_task, _, what = event.rpartition("_")
            if of_task:
                self.coord.request_stop(None if what == "stop" else ERRORS[what]("of a task"))
            elif what == "stop":
                context.request_stop()
            else:
                raise ERRORS[what](f"in {word}")


class Member(SessionRunHook):
    """Lets the coordinator have a task."""

    def __init__(self, script: Script) -> None:
        self.script = script

    def after_create_session(self, session: Any, coord: Coordinator) -> None:
        self.script.coord = coord
        coord.register_thread(asyncio.create_task(self.wait(coord)))

    async def wait(self, coord: Coordinator) -> None:
        await coord.wait_for_stop()
        self.script.calls.append("T")


class PlainHook(SessionRunHook):
    def __init__(self, script: Script, number: int) -> None:
        self.script = script
        self.number = number

    def begin(self) -> None:
        self.script.call(f"B{self.number}")

    def after_create_session(self, session: Any, coord: Coordinator) -> None:
        self.script.call(f"N{self.number}")

    def before_run(self, run_context: Any) -> SessionRunArgs | None:
        self.script.call(f"b{self.number}", run_context)
        return None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.script.call(f"a{self.number}", run_context)

    def end(self, session: Any) -> None:
        self.script.call(f"E{self.number}")

    def on_error(self, session: Any, error: BaseException) -> None:
        self.script.call(f"e{self.number}")

    def on_recovery(self, error: BaseException, attempt: int) -> None:
        self.script.call(f"r{self.number}")


class AsyncHook(SessionRunHook):
    """A PlainHook whose methods are `async def` and suspend."""

    def __init__(self, script: Script, number: int) -> None:
        plain = PlainHook(script, number)
        for name in (
            "begin",
            "after_create_session",
            "before_run",
            "after_run",
            "end",
            "on_error",
            "on_recovery",
        ):
            setattr(self, name, self.suspending(getattr(plain, name)))

    @staticmethod
    def suspending(function: Any) -> Any:
        async def suspending(*args: Any) -> Any:
            await asyncio.sleep(0)
            return function(*args)

        return suspending


class FakeSession:
    def __init__(self, script: Script) -> None:
        self.script = script

    async def run(
        self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
    ) -> Any:
        self.script.call("R")
        return [None] * len(fetches)

    async def close(self) -> None:
        self.script.call("X")


class Creator:
    def __init__(self, script: Script) -> None:
        self.script = script

    def create_session(self) -> FakeSession:
        self.script.call("C")
        return FakeSession(self.script)


async def program(script: Script, recovers: bool, hooks: Any) -> None:
    session = _MonitoredSession(
        Creator(script), [Member(script), hooks(script, 1), hooks(script, 2)], recovers
    )
    async with session:
        for _ in range(MOST_STEPS):
            if session.should_stop():
                break
            await session.run("fetch")
            script.call("body")


async def calls_of(sequence: Sequence, recovers: bool, hooks: Any) -> str:
    script = Script(sequence.events)
    with ax.Graph().as_default():
        try:
            await program(script, recovers, hooks)
        except EndOfLoopError:
            script.calls.append("!StopIteration")
        except Exception as error:
            script.calls += [f"!{name}" for name, kind in ERRORS.items() if kind is type(error)] or [
                repr(error)
            ]
    return " ".join(script.calls)


@pytest.mark.parametrize("hooks", [PlainHook, AsyncHook])
@pytest.mark.parametrize(("sequence", "recovers"), [pytest.param(*case, id=name) for name, *case in cases()])
async def test_calls_come_in_this_order(sequence, recovers, hooks, caplog, virtual_clock):
    caplog.set_level(logging.CRITICAL)

    assert settled(sequence, await calls_of(sequence, recovers, hooks)) == settled(sequence, sequence.calls)
