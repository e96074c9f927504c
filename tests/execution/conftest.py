"""Fixtures of the engine's tests, and a check that holds in all of them."""

from __future__ import annotations

import pytest

from aioexec.execution.programs.program_run import ProgramRun, State
from tests.tiers import ops as ops, tier as tier

_FINAL = {State.DONE, State.FAILED, State.CANCELLED}
_TRANSITIONS = {
    None: {State.IDLE, State.DONE, State.FAILED},  # a run by `walk_to_end` is only ever done or failed
    State.IDLE: {State.ON_LOOP, State.ON_WORKER, State.CANCELLED, State.FAILED},
    State.ON_LOOP: {State.ON_LOOP, State.ON_WORKER, *_FINAL},
    State.ON_WORKER: {State.ON_WORKER, *_FINAL},
    State.DONE: set[State](),
    State.FAILED: set[State](),
    State.CANCELLED: set[State](),
}


@pytest.fixture(autouse=True)
def checked_transitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run of a program changes its state as the table in `program_run` has it."""
    slot = ProgramRun.__dict__["state"]

    def get(run: ProgramRun) -> State:
        state: State = slot.__get__(run)
        return state

    def change(run: ProgramRun, state: State) -> None:
        before = getattr(run, "state", None)
        assert state in _TRANSITIONS[before], f"{before} -> {state}"
        slot.__set__(run, state)

    monkeypatch.setattr(ProgramRun, "state", property(get, change))
