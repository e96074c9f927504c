"""TensorFlow's monitored sessions call hooks, tasks and sessions in the order of our table."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from typing import Any

import pytest

from tests.train.call_sequences import MOST_STEPS, OURS, Sequence, cases, settled

pytestmark = pytest.mark.interop


class Script:
    """Records calls, and injects events into them; as in `tests.train.test_call_sequences`, in threads."""

    def __init__(self, tf: Any, events: dict[str, list[str]]) -> None:
        self.events = events
        self.calls: list[str] = []
        self.counts: Counter[str] = Counter()
        self.coord: Any = None
        self.threads: list[tuple[Any, threading.Thread]] = []
        self.kinds = {
            "Aborted": lambda: tf.errors.AbortedError(None, None, "scripted"),
            "Unavailable": lambda: tf.errors.UnavailableError(None, None, "scripted"),
            "OutOfRange": lambda: tf.errors.OutOfRangeError(None, None, "scripted"),
            "StopIteration": StopIteration,
            "Value": ValueError,
            "Key": KeyError,
        }

    def call(self, word: str, context: Any = None) -> None:
        self.counts[word] += 1
        if word != "body":
            self.calls.append(word)
        for event in self.events.get(f"{word}:{self.counts[word]}", ()):
            of_task, _, what = event.rpartition("_")
            if of_task:
                self.fail_task(what)
            elif what == "stop":
                context.request_stop()
            else:
                raise self.error(what)

    def error(self, what: str) -> Exception:
        return self.kinds[what]()

    def fail_task(self, what: str) -> None:
        if what == "stop":
            self.coord.request_stop()
            return
        try:
            raise self.error(what)
        except Exception as error:  # TensorFlow takes an error only where it is handled
            self.coord.request_stop(error)

    def end_threads(self) -> None:
        """End the threads that TensorFlow leaves behind."""
        for coord, thread in self.threads:
            coord.request_stop()
            thread.join()

    def name_of(self, error: BaseException) -> str:
        return next(name for name, make in self.kinds.items() if type(make()) is type(error))


def hooks_of(tf: Any, script: Script) -> list[Any]:
    class Member(tf.train.SessionRunHook):
        """Lets the coordinator have a thread."""

        def after_create_session(self, session: Any, coord: Any) -> None:
            script.coord = coord
            thread = threading.Thread(target=self.wait, args=(coord,), daemon=True)
            coord.register_thread(thread)
            thread.start()
            script.threads.append((coord, thread))

        def wait(self, coord: Any) -> None:
            coord.wait_for_stop()
            script.calls.append("T")

    class Hook(tf.train.SessionRunHook):
        def __init__(self, number: int) -> None:
            self.number = number

        def begin(self) -> None:
            script.call(f"B{self.number}")

        def after_create_session(self, session: Any, coord: Any) -> None:
            script.call(f"N{self.number}")

        def before_run(self, run_context: Any) -> None:
            script.call(f"b{self.number}", run_context)

        def after_run(self, run_context: Any, run_values: Any) -> None:
            script.call(f"a{self.number}", run_context)

        def end(self, session: Any) -> None:
            script.call(f"E{self.number}")

    return [Member(), Hook(1), Hook(2)]


class FakeSession:
    def __init__(self, script: Script) -> None:
        self.script = script

    def run(self, fetches: Any, **kwargs: Any) -> Any:
        self.script.call("R")
        return dict.fromkeys(fetches)

    def close(self) -> None:
        self.script.call("X")


class Creator:
    def __init__(self, script: Script) -> None:
        self.script = script

    def create_session(self) -> FakeSession:
        self.script.call("C")
        return FakeSession(self.script)


def calls_of(tf: Any, sequence: Sequence, recovers: bool) -> str:
    from tensorflow.python.training.monitored_session import _MonitoredSession

    script = Script(tf, sequence.events)
    with tf.Graph().as_default():
        try:
            with _MonitoredSession(Creator(script), hooks_of(tf, script), recovers) as session:
                for _ in range(MOST_STEPS):
                    if session.should_stop():
                        break
                    session.run("fetch")
                    script.call("body")
        except Exception as error:
            script.calls.append(f"!{script.name_of(error)}")
    calls = " ".join(script.calls)
    script.end_threads()
    return calls


COMPARED = [
    pytest.param(sequence, recovers, id=name)
    for name, sequence, recovers in cases()
    if sequence.because != OURS  # calls that TensorFlow does not have
]


@pytest.mark.parametrize(("sequence", "recovers"), COMPARED)
def test_tensorflow_calls_the_same_in_the_same_order(tf, sequence, recovers, caplog):
    caplog.set_level(logging.CRITICAL, logger="tensorflow")
    expected = sequence.calls if sequence.tensorflow is None else sequence.tensorflow
    ours_alone = ("e1", "e2", "r1", "r2")
    expected = " ".join(word for word in expected.split() if word not in ours_alone)

    assert settled(sequence, calls_of(tf, sequence, recovers)) == settled(sequence, expected)
