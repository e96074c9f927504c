"""Explores every interleaving of the steps of threads, each state once.

Each state must be free of faults, and from each the end, where all threads have ended, must be reachable: otherwise a thread
waits for something that no thread does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from tests.devices.jit.llvm_machine import FaultError, Machine, State


def explore(
    machine: Machine, first: State, check_end: Callable[[State], None], limit: int = 2_000_000
) -> int:
    """Return how many states there are.

    Raises:
        FaultError: a state is wrong, or one from which the end cannot be reached; it names the steps that lead there.
    """
    found = _Exploration(machine, first, limit)
    found.run(check_end)
    found.check_that_the_end_is_reached()
    return len(found.states)


class _Exploration:
    """`origins`: for each state the one it was first reached from, and by which thread; `before`: all it is reached from."""

    def __init__(self, machine: Machine, first: State, limit: int) -> None:
        self.states = [first]
        self._machine = machine
        self._limit = limit
        self._numbers = {first: 0}
        self._origins = [(-1, -1)]
        self._before: list[list[int]] = [[]]
        self._ends: list[int] = []

    def run(self, check_end: Callable[[State], None]) -> None:
        for at, state in enumerate(self.states):  # which grow
            try:
                self._expand(at, state)
                if not any(thread.stack for thread in state.threads):
                    self._ends.append(at)
                    check_end(state)
            except AssertionError as error:
                raise FaultError(f"{error}, after {self._steps(at)}") from None

    def _expand(self, at: int, state: State) -> None:
        for number, thread in enumerate(state.threads):
            if not thread.stack:
                continue
            for choice in (0, 1):
                self._note(self._machine.step(state, number, choice), at, number)
                if not self._machine.has_chosen:
                    break

    def _note(self, state: State, origin: int, thread: int) -> None:
        found = self._numbers.get(state)
        if found is None:
            assert len(self.states) < self._limit, "too many states"
            found = self._numbers[state] = len(self.states)
            self.states.append(state)
            self._origins.append((origin, thread))
            self._before.append([])
        self._before[found].append(origin)

    def check_that_the_end_is_reached(self) -> None:
        reaching = set(self._ends)
        queue = deque(self._ends)
        while queue:
            for each in self._before[queue.popleft()]:
                if each not in reaching:
                    reaching.add(each)
                    queue.append(each)
        if len(reaching) < len(self.states):
            stuck = next(k for k in range(len(self.states)) if k not in reaching)
            raise FaultError(f"no end can be reached after {self._steps(stuck)}")

    def _steps(self, at: int) -> str:
        """The steps that lead to a state: of each the thread and the segment it begins with."""
        steps = []
        while at > 0:
            at, number = self._origins[at]
            segment = self.states[at].threads[number].stack[-1][0]
            steps.append(f"{number}:{self._machine.names[segment]}")
        return " ".join(reversed(steps))
