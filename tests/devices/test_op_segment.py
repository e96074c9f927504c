"""The kernels of a device: one for each session and node."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from aioexec.devices.op_segment import OpSegment
from aioexec.errors import InvalidArgumentError, NotFoundError


def a_kernel() -> Any:
    """A kernel that is equal to no other."""
    return lambda: None


@pytest.mark.behaviour(127)
def test_a_session_and_node_has_one_kernel_made_at_its_first_use():
    segment = OpSegment()
    segment.add_hold("a")
    segment.add_hold("b")

    first = segment.find_or_create("a", "node", a_kernel)

    assert segment.find_or_create("a", "node", pytest.fail) is first
    assert segment.find_or_create("a", "other", a_kernel) is not first
    assert segment.find_or_create("b", "node", a_kernel) is not first


@pytest.mark.behaviour(127)
def test_a_session_that_does_not_hold_the_segment_is_not_found():
    segment = OpSegment()
    segment.add_hold("a")
    segment.remove_hold("a")

    for session in ("a", "never"):
        with pytest.raises(NotFoundError, match=f"Session {session} is not found"):
            segment.find_or_create(session, "node", pytest.fail)


@pytest.mark.behaviour(127)
def test_a_kernel_that_could_not_be_made_is_tried_again():
    segment = OpSegment()
    segment.add_hold("a")

    def fail() -> Any:
        raise InvalidArgumentError("no such dtype")

    for _ in range(2):
        with pytest.raises(InvalidArgumentError, match="no such dtype"):
            segment.find_or_create("a", "node", fail)
    kernel = segment.find_or_create("a", "node", a_kernel)

    assert segment.find_or_create("a", "node", pytest.fail) is kernel


@pytest.mark.behaviour(127)
def test_kernels_stay_until_every_hold_is_given_back():
    segment = OpSegment()
    segment.add_hold("a")
    segment.add_hold("a")
    kernel = segment.find_or_create("a", "node", a_kernel)

    segment.remove_hold("a")
    assert segment.find_or_create("a", "node", pytest.fail) is kernel
    segment.remove_hold("a")
    segment.add_hold("a")

    assert segment.find_or_create("a", "node", a_kernel) is not kernel


def test_a_hold_that_is_not_held_is_given_back_in_vain(caplog: pytest.LogCaptureFixture):
    OpSegment().remove_hold("a")

    assert caplog.messages == ["session a holds no kernels"]


def test_two_threads_that_want_one_kernel_make_it_once():
    segment, making = OpSegment(), threading.Event()
    made: list[Any] = []
    got: list[Any] = []
    segment.add_hold("a")

    def make() -> Any:
        making.set()
        second.start()
        made.append(a_kernel())
        return made[-1]

    def want() -> None:
        making.wait()
        got.append(segment.find_or_create("a", "node", make))

    second = threading.Thread(target=want)
    got.append(segment.find_or_create("a", "node", make))
    second.join()

    assert len(made) == 1
    assert got == made * 2


def test_a_kernel_may_make_others():
    segment = OpSegment()
    segment.add_hold("a")

    inner = segment.find_or_create("a", "outer", lambda: segment.find_or_create("a", "inner", a_kernel))

    assert segment.find_or_create("a", "inner", pytest.fail) is inner
