"""The calls of a monitored session, in order: a table for the tests and for the comparison with TensorFlow.

A program runs at most four steps with two hooks:

    async with MonitoredSession(creator, hooks) as session:
        while not session.should_stop():
            await session.run("fetch")

Its calls are written as words:

    B1 B2   begin of the first and second hook      C       a session is created
    N1 N2   after_create_session                    b1 b2   before_run
    R       a step of the session                   a1 a2   after_run
    E1 E2   end                                     X       the session is closed
    e1 e2   on_error                                r1 r2   on_recovery
    T       a task of the coordinator has ended     !Error  raised by the program

`e` and `r` do not exist in TensorFlow. A script defines the effect of a call, here of the second of its kind: `b1:2 Aborted`.
`stop` is the context's `request_stop`; `tasks_stop` and `tasks_Aborted` are the stop request or error of a task of the
coordinator meanwhile; `body` is an action of the program itself after a step.
"""

from __future__ import annotations

from dataclasses import dataclass

STEP = "b1 b2 R a1 a2"
OPEN = "B1 B2 C N1 N2"
DONE = "E1 E2 T X"
FAILED = "e1 e2 T X"
AGAIN = "T X r1 r2 C N1 N2"
MOST_STEPS = 4


@dataclass(frozen=True)
class Sequence:
    """One program.

    Attributes:
        script: what happens in which call.
        calls: what is called.
        tensorflow: what TensorFlow calls where that differs, None where it does not; `because` says why, and alone that the
            script means nothing there.
    """

    script: str
    calls: str
    tensorflow: str | None = None
    because: str = ""

    @property
    def events(self) -> dict[str, list[str]]:
        """By call, what happens in it."""
        return {call: events for call, *events in (line.split() for line in self.script.split(", ") if line)}


THREE = f"{STEP} {STEP} {STEP}"
FOUR = f"{THREE} {STEP}"
GIVEN_UP = "a session that is given up before it is ready is closed"
OURS = "there is no such call"

ENDS = {
    "nothing happens": Sequence("", f"{OPEN} {FOUR} {DONE}"),
    "a hook asks for a stop after a step": Sequence("a1:2 stop", f"{OPEN} {STEP} {STEP} {DONE}"),
    "a hook asks for a stop before a step": Sequence("b2:1 stop", f"{OPEN} {STEP} {DONE}"),
    "a task asks for a stop": Sequence("R:2 tasks_stop", f"{OPEN} {STEP} {STEP} {DONE}"),
    "the body raises StopIteration": Sequence("body:2 StopIteration", f"{OPEN} {STEP} {STEP} {DONE}"),
    "the body is at the end of input": Sequence("body:1 OutOfRange", f"{OPEN} {STEP} {DONE}"),
    "before_run is at the end of input": Sequence("b2:2 OutOfRange", f"{OPEN} {STEP} b1 b2 {DONE}"),
    "the step is at the end of input": Sequence("R:2 OutOfRange", f"{OPEN} {STEP} b1 b2 R {DONE}"),
    "after_run is at the end of input": Sequence("a2:2 OutOfRange", f"{OPEN} {STEP} b1 b2 R a1 a2 {DONE}"),
    "before_run raises StopIteration": Sequence("b1:2 StopIteration", f"{OPEN} {STEP} b1 {DONE}"),
    "after_run raises StopIteration": Sequence("a1:2 StopIteration", f"{OPEN} {STEP} b1 b2 R a1 {DONE}"),
    "begin raises StopIteration": Sequence("B1:1 StopIteration", "B1 !StopIteration"),
    "the creator raises StopIteration": Sequence("C:1 StopIteration", "B1 B2 C !StopIteration"),
    "end raises StopIteration": Sequence("E1:1 StopIteration", f"{OPEN} {FOUR} E1 e2 T X !StopIteration"),
    "begin is at the end of input": Sequence("B2:1 OutOfRange", "B1 B2 !OutOfRange"),
    "the creator is at the end of input": Sequence("C:1 OutOfRange", "B1 B2 C !OutOfRange"),
    "after_create_session is at the end of input": Sequence(
        "N2:1 OutOfRange", f"{OPEN} T X !OutOfRange", f"{OPEN} !OutOfRange", GIVEN_UP
    ),
    "end is at the end of input": Sequence("E2:1 OutOfRange", f"{OPEN} {FOUR} {DONE} !OutOfRange"),
    "closing is at the end of input": Sequence("X:1 OutOfRange", f"{OPEN} {FOUR} {DONE}"),
}
"""Loops that end well, or by what would end a loop."""

FAILURES = {
    "begin fails": Sequence("B2:1 Value", "B1 B2 !Value"),
    "the creator fails": Sequence("C:1 Value", "B1 B2 C !Value"),
    "after_create_session fails": Sequence(
        "N1:1 Value", "B1 B2 C N1 T X !Value", "B1 B2 C N1 !Value", GIVEN_UP
    ),
    "before_run fails": Sequence("b1:2 Value", f"{OPEN} {STEP} b1 {FAILED} !Value"),
    "the step fails": Sequence("R:2 Value", f"{OPEN} {STEP} b1 b2 R {FAILED} !Value"),
    "after_run fails": Sequence("a1:2 Value", f"{OPEN} {STEP} b1 b2 R a1 {FAILED} !Value"),
    "the body fails": Sequence("body:2 Value", f"{OPEN} {STEP} {STEP} {FAILED} !Value"),
    "end fails": Sequence("E1:1 Value", f"{OPEN} {FOUR} E1 e2 T X !Value"),
    "closing fails": Sequence("X:1 Value", f"{OPEN} {FOUR} {DONE}"),
    "a task fails": Sequence("R:2 tasks_Value", f"{OPEN} {STEP} {STEP} {DONE} !Value"),
    "a task fails, then the step": Sequence("R:2 tasks_Value Key", f"{OPEN} {STEP} b1 b2 R {FAILED} !Value"),
    "a task fails, then the step ends": Sequence(
        "R:2 tasks_Value OutOfRange", f"{OPEN} {STEP} b1 b2 R {DONE} !Value"
    ),
    "a task fails, then end": Sequence("R:4 tasks_Value, E1:1 Key", f"{OPEN} {FOUR} E1 e2 T X !Value"),
    "end fails, then a task": Sequence(
        "E1:1 tasks_Value Key", f"{OPEN} {FOUR} E1 e2 T X !Value", because="the task was first here too"
    ),
    "on_error fails": Sequence("R:1 Value, e1:1 Key", f"{OPEN} b1 b2 R {FAILED} !Value", because=OURS),
    "the step fails, then closing": Sequence("R:1 Value, X:1 Key", f"{OPEN} b1 b2 R {FAILED} !Value"),
    "the body is preempted": Sequence("body:1 Aborted", f"{OPEN} {STEP} {FAILED} !Aborted"),
}
"""Errors that end the loop: the first one is raised."""

RECOVERIES = {
    "begin is preempted": Sequence("B2:1 Aborted", "B1 B2 !Aborted"),
    "the creator is preempted": Sequence(
        "C:1 Aborted, C:2 Unavailable", f"B1 B2 C r1 r2 C r1 r2 C N1 N2 {FOUR} {DONE}"
    ),
    "after_create_session is preempted": Sequence(
        "N2:1 Unavailable", f"{OPEN} {AGAIN} {FOUR} {DONE}", f"{OPEN} C N1 N2 {FOUR} {DONE}", GIVEN_UP
    ),
    "before_run is preempted": Sequence("b2:2 Aborted", f"{OPEN} {STEP} b1 b2 {AGAIN} {THREE} {DONE}"),
    "the step is preempted": Sequence("R:2 Aborted", f"{OPEN} {STEP} b1 b2 R {AGAIN} {THREE} {DONE}"),
    "after_run is preempted": Sequence(
        "a1:2 Unavailable", f"{OPEN} {STEP} b1 b2 R a1 {AGAIN} {THREE} {DONE}"
    ),
    "end is preempted": Sequence("E2:1 Aborted", f"{OPEN} {FOUR} {DONE} !Aborted"),
    "closing is preempted": Sequence("X:1 Aborted", f"{OPEN} {FOUR} {DONE}"),
    "the step is preempted again and again": Sequence(
        "R:2 Aborted, R:3 Unavailable, R:4 Aborted",
        f"{OPEN} {STEP} b1 b2 R {AGAIN} b1 b2 R {AGAIN} b1 b2 R {AGAIN} {THREE} {DONE}",
    ),
    "the step and the next creator are preempted": Sequence(
        "R:2 Aborted, C:2 Aborted", f"{OPEN} {STEP} b1 b2 R T X r1 r2 C r1 r2 C N1 N2 {THREE} {DONE}"
    ),
    "a task is preempted": Sequence(
        "R:2 tasks_Aborted", f"{OPEN} {STEP} {STEP} {AGAIN} {STEP} {STEP} {DONE}"
    ),
    "a task is preempted, so the step fails": Sequence(
        "R:2 tasks_Unavailable Value", f"{OPEN} {STEP} b1 b2 R {AGAIN} {THREE} {DONE}"
    ),
    "a task is preempted, so the step is at the end of input": Sequence(
        "R:2 tasks_Unavailable OutOfRange", f"{OPEN} {STEP} b1 b2 R {AGAIN} {THREE} {DONE}"
    ),
    "the lost session cannot be closed": Sequence(
        "R:2 Aborted, X:1 Value", f"{OPEN} {STEP} b1 b2 R {AGAIN} {THREE} {DONE}"
    ),
    "the next creator fails": Sequence(
        "R:2 Aborted, C:2 Value", f"{OPEN} {STEP} b1 b2 R T X r1 r2 C e1 e2 !Value"
    ),
    "the next creator is at the end of input": Sequence(
        "R:2 Aborted, C:2 OutOfRange", f"{OPEN} {STEP} b1 b2 R T X r1 r2 C E1 E2"
    ),
    "after_create_session fails the next time": Sequence(
        "R:2 Aborted, N2:2 Value",
        f"{OPEN} {STEP} b1 b2 R {AGAIN} T X e1 e2 !Value",
        f"{OPEN} {STEP} b1 b2 R {AGAIN} !Value",
        GIVEN_UP,
    ),
    "on_recovery fails": Sequence(
        "R:2 Aborted, r1:1 Value", f"{OPEN} {STEP} b1 b2 R T X r1 e1 e2 !Value", because=OURS
    ),
    "on_recovery raises StopIteration": Sequence(
        "R:2 Aborted, r1:1 StopIteration", f"{OPEN} {STEP} b1 b2 R T X r1 E1 E2", because=OURS
    ),
    "the steps of the new session fail": Sequence(
        "R:2 Aborted, R:4 Value", f"{OPEN} {STEP} b1 b2 R {AGAIN} {STEP} b1 b2 R {FAILED} !Value"
    ),
}
"""Preemptions of a session that recovers."""

SINGULAR = {
    "the creator is preempted": Sequence("C:1 Aborted", "B1 B2 C !Aborted"),
    "the step is preempted": Sequence("R:2 Aborted", f"{OPEN} {STEP} b1 b2 R {FAILED} !Aborted"),
    "a task is preempted": Sequence("R:2 tasks_Aborted", f"{OPEN} {STEP} {STEP} {FAILED} !Aborted"),
    "a task fails": Sequence("R:2 tasks_Value", f"{OPEN} {STEP} {STEP} {FAILED} !Value"),
    "closing is preempted": Sequence("X:1 Aborted", f"{OPEN} {FOUR} {DONE}"),
    "the step is at the end of input": Sequence("R:2 OutOfRange", f"{OPEN} {STEP} b1 b2 R {DONE}"),
}
"""Events of a session that does not recover."""


def settled(sequence: Sequence, calls: str) -> str:
    """Calls without what depends on when tasks get to run: a task that was stopped by another ends whenever it likes."""
    return calls.replace(" T", "") if "tasks_" in sequence.script else calls


def cases() -> list[tuple[str, Sequence, bool]]:
    """All programs: a name, the sequence, whether the session recovers."""
    recovering = {**ENDS, **FAILURES, **RECOVERIES}
    return [(name, sequence, True) for name, sequence in recovering.items()] + [
        (f"singular: {name}", sequence, False) for name, sequence in SINGULAR.items()
    ]
