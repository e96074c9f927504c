"""Leases and pins of a variable: in every order of the actions of few steps, no buffer is written while a step reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from aioexec import dtypes
from aioexec.resources.variable import Variable

Array = np.ndarray[Any, Any]


class Steps:
    """A variable, and steps that use it as `execution` does. Each step's event is a method; what cannot happen now is False.

    `_read` are buffers that readers look at, with what they must find there; `_fetched` those that were handed out for good.
    """

    def __init__(self, variable: Variable) -> None:
        self.variable = variable
        variable.assign(np.zeros(2, np.float32))
        self._read: list[tuple[Array, float]] = []
        self._fetched: list[tuple[Array, float]] = []
        self._new: Array | None = None  # of the step that holds the lease
        self._value = 0.0

    def reader_begins(self) -> bool:
        """Run on a worker: it is bound to the present buffer and pins the variable."""
        if len(self._read) == 2:
            return False
        self.variable.pins += 1
        self._read.append((self.variable.require(), self._value))
        return True

    def reader_ends(self) -> bool:
        if not self._read:
            return False
        self._read.pop(0)
        self.variable.pins -= 1
        return True

    def fetch(self) -> bool:
        """A snapshot that its holder may keep."""
        if self._fetched:
            return False
        self._fetched.append((self.variable.read(), self._value))
        return True

    def writer_begins(self) -> bool:
        """ItemRunner._run_on_worker: with the lease, into another buffer, part of which is written now."""
        if self.variable.leased:
            return False
        self.variable.leased = True
        self._new = self.variable.next_buffer(False)
        self.variable.pins += 1
        self._new[0] = -1.0
        return True

    def writer_ends(self) -> bool:
        """Walk.give_back of a step that is done."""
        if self._new is None:
            return False
        self._value += 1.0
        self._new[:] = self._value
        self.variable.pins -= 1
        self.variable.publish(self._new)
        self._new, self.variable.leased = None, False
        return True

    def writer_is_cancelled(self) -> bool:
        """Walk.give_back of a step that is not."""
        if self._new is None:
            return False
        self.variable.pins -= 1
        self.variable.spare = self._new
        self._new, self.variable.leased = None, False
        return True

    def inline_step(self) -> bool:
        """ItemRunner.run_nowait: begins and ends in one callback of the loop, in place if it may."""
        if self.variable.leased:
            return False
        new = self.variable.next_buffer(True)
        self._value += 1.0
        new[:] = self._value
        self.variable.publish(new)
        return True

    def check(self) -> None:
        for array, value in [*self._read, *self._fetched]:
            assert (array == value).all(), f"a reader of {value} finds {array}"
        assert (self.variable.require() == self._value).all()


EVENTS: list[Callable[[Steps], bool]] = [
    Steps.reader_begins,
    Steps.reader_ends,
    Steps.fetch,
    Steps.writer_begins,
    Steps.writer_ends,
    Steps.writer_is_cancelled,
    Steps.inline_step,
]


def explored(depth: int, kind: type[Variable] = Variable) -> int:
    """Try every sequence of so many events; return how many there are."""

    def follow(events: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        steps = Steps(kind("v", dtypes.float32, (2,)))
        for number in events:
            if not EVENTS[number](steps):
                return
        steps.check()
        yield events
        if len(events) < depth:
            for number in range(len(EVENTS)):
                yield from follow((*events, number))

    return sum(1 for _ in follow(()))


@pytest.mark.parametrize(
    "depth",
    [5, pytest.param(8, marks=pytest.mark.sweep)],
)
def test_what_is_read_is_not_written(depth: int):
    assert explored(depth) > 100


@pytest.mark.parametrize("forgotten", ["pins", "escaped"])
def test_a_variable_that_forgets_its_readers_is_found(forgotten: str):
    class Forgetful(Variable):
        def next_buffer(self, in_place: bool) -> Array:
            kept, none = getattr(self, forgotten), type(getattr(self, forgotten))()
            setattr(self, forgotten, none)
            try:
                return super().next_buffer(in_place)
            finally:
                setattr(self, forgotten, kept)

    with pytest.raises(AssertionError, match="a reader of"):
        explored(4, Forgetful)
