"""Variables: snapshots never change, buffers are reused only when they are not referenced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aioexec import dtypes
from aioexec.errors import FailedPreconditionError, InvalidArgumentError
from aioexec.resources.variable import Variable


def variable(content: Any = None, dims: Any = (3,)) -> Variable:
    made = Variable("v", dtypes.float32, dims)
    if content is not None:
        made.assign(np.asarray(content, np.float32))
    return made


def test_before_it_is_assigned_there_is_nothing_to_read():
    v = variable()

    assert not v.is_initialized
    for use in (v.require, v.read, lambda: v.update(lambda present: present)):
        with pytest.raises(FailedPreconditionError, match="uninitialized value v"):
            use()


def test_an_assigned_value_is_a_copy():
    value = np.ones(3, np.float32)
    v = variable(value)

    value[0] = 5

    assert v.read()[0] == 1


@pytest.mark.parametrize("shape", [(), (1,), (2, 0)])
def test_updates_keep_the_shape_even_of_scalars(shape: tuple[int, ...]):
    v = variable(np.zeros(shape), shape)

    v.update(lambda present: present + 1)
    v.update(lambda present: present)

    assert v.read().shape == shape
    np.testing.assert_array_equal(v.read(), np.ones(shape))


def test_wrong_dtypes_and_shapes_are_refused_and_change_nothing():
    v = variable([1, 2, 3])

    for wrong in (np.zeros(3), np.zeros(4, np.float32), np.zeros((3, 1), np.float32)):
        with pytest.raises(InvalidArgumentError, match="'v'"):
            v.assign(wrong)
    with pytest.raises(InvalidArgumentError, match="'v'"):
        v.update(lambda present: present[:2])
    np.testing.assert_array_equal(v.read(), [1, 2, 3])


def test_an_unchecked_shape_is_noted_until_a_checked_one_comes():
    v = variable([1, 2, 3])

    v.assign(np.zeros(5, np.float32), validate_shape=False)
    assert v.deviates
    assert v.next_buffer(in_place=True).shape == (3,)
    v.assign(np.zeros(3, np.float32))
    assert not v.deviates


def test_a_snapshot_is_not_written_in_place():
    v = variable([1, 2, 3])
    snapshot = v.read()

    fresh = v.next_buffer(in_place=True)
    fresh[:] = 9
    v.publish(fresh)

    np.testing.assert_array_equal(snapshot, [1, 2, 3])
    np.testing.assert_array_equal(v.read(), [9, 9, 9])


def test_without_readers_two_buffers_take_turns():
    v = variable([1, 2, 3])
    seen = set()
    for _ in range(6):
        fresh = v.next_buffer(in_place=False)
        seen.add(fresh.ctypes.data)
        v.publish(fresh)

    assert len(seen) == 2


class Readers(RuleBasedStateMachine):
    """Programs and steps over one variable, in any order: no one's content changes while it is held."""

    def __init__(self) -> None:
        super().__init__()
        self.variable = variable([0, 0, 0])
        self.count = 0
        self.snapshots: list[tuple[Any, Any]] = []  # (array, what it must hold), for good
        self.pinned: list[tuple[Any, Any]] = []  # the same, until the program ends
        self.writing: Any = None  # what a program with the lease writes into

    def content(self) -> Any:
        self.count += 1
        return np.full(3, self.count, np.float32)

    @rule()
    def read(self) -> None:
        array = self.variable.read()
        self.snapshots.append((array, array.copy()))

    @rule()
    def begin_to_read_on_a_worker(self) -> None:
        array = self.variable.require()
        self.variable.pins += 1
        self.pinned.append((array, array.copy()))

    @precondition(lambda self: self.pinned)
    @rule(data=st.data())
    def end_to_read_on_a_worker(self, data: st.DataObject) -> None:
        self.pinned.pop(data.draw(st.integers(0, len(self.pinned) - 1)))
        self.variable.pins -= 1

    @precondition(lambda self: self.writing is None)
    @rule(in_place=st.booleans())
    def update_inline(self, in_place: bool) -> None:
        fresh = self.variable.next_buffer(in_place)
        fresh[:] = self.content()
        self.variable.publish(fresh)

    @precondition(lambda self: self.writing is None)
    @rule()
    def assign(self) -> None:
        self.variable.assign(self.content())

    @precondition(lambda self: self.writing is None)
    @rule()
    def begin_to_write_on_a_worker(self) -> None:
        before = self.variable.require()
        self.variable.pins += 1
        self.writing = self.variable.next_buffer(in_place=False)
        assert not np.shares_memory(self.writing, before)
        self.writing[:] = self.content()

    @precondition(lambda self: self.writing is not None)
    @rule(succeeds=st.booleans())
    def end_to_write_on_a_worker(self, succeeds: bool) -> None:
        self.variable.pins -= 1
        if succeeds:
            self.variable.publish(self.writing)
            np.testing.assert_array_equal(self.variable.require(), self.writing)
        else:
            self.variable.spare = self.writing
        self.writing = None

    @invariant()
    def what_is_held_does_not_change(self) -> None:
        for array, expected in (*self.snapshots, *self.pinned):
            np.testing.assert_array_equal(array, expected)
        assert self.variable.spare is not self.variable.buffer
        assert self.variable.pins == len(self.pinned) + (self.writing is not None)


TestReaders = pytest.mark.slow(Readers.TestCase)
