"""Variables in the memory of a device: an update whose work fails is undone, whatever the order in which works end."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aioexec import dtypes
from aioexec.errors import FailedPreconditionError, InternalError, InvalidArgumentError
from aioexec.resources.device_variable import DeviceVariable


class Work:
    """An event that the test ends."""

    def __init__(self) -> None:
        self.is_done = False
        self.error: Exception | None = None
        self._callbacks: list[Callable[[], object]] = []

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        self._callbacks.append(callback)

    def end(self, error: Exception | None = None) -> Work:
        self.is_done, self.error = True, error
        for callback in self._callbacks:
            callback()
        self._callbacks.clear()
        return self


class Content:
    """A buffer of three float32."""

    dtype, shape, nbytes, device = np.dtype(np.float32), (3,), 12, "/device:TOY:0"

    def __init__(self, ready: Work) -> None:
        self.ready = ready


FAILED = InternalError("the work failed")


def variable() -> DeviceVariable:
    return DeviceVariable("v", dtypes.float32, (3,))


def test_a_failed_first_assignment_leaves_the_variable_uninitialised():
    v, work = variable(), Work()
    v.replace(Content(work))
    assert v.is_initialized

    work.end(FAILED)

    with pytest.raises(FailedPreconditionError, match="uninitialized value v"):
        v.content()


def test_work_that_has_failed_before_does_not_replace_the_content():
    v, content = variable(), Content(Work().end())
    v.replace(content)

    v.replace(Content(Work().end(FAILED)))

    assert v.content() is content


def test_a_content_is_kept_until_the_update_is_certain():
    v, work = variable(), Work()
    v.replace(Content(Work().end()))
    before = weakref.ref(v.content())
    v.replace(Content(work))
    gc.collect()
    assert before() is not None

    work.end()

    gc.collect()
    assert before() is None


def test_a_content_is_dropped_when_the_device_has_accepted_the_update():
    v, work, accepted = variable(), Work(), Work()
    v.replace(Content(Work().end()))
    before = weakref.ref(v.content())

    v.replace(Content(work), accepted=accepted.end())

    gc.collect()
    assert before() is None
    assert v.content().ready is work


def test_a_failed_update_does_not_bring_back_what_was_destroyed():
    v, work = variable(), Work()
    v.replace(Content(Work().end()))
    v.replace(Content(work))
    v.buffer = None

    work.end(FAILED)

    assert not v.is_initialized


@pytest.mark.parametrize(("attribute", "value"), [("dtype", np.dtype(np.int32)), ("shape", (4,))])
def test_a_buffer_of_another_kind_is_refused(attribute: str, value: Any):
    v, content = variable(), Content(Work().end())
    setattr(content, attribute, value)

    with pytest.raises(InvalidArgumentError, match="'v'"):
        v.replace(content)

    assert not v.is_initialized


class Updates(RuleBasedStateMachine):
    """Updates whose works end in any order, against a list of all contents."""

    def __init__(self) -> None:
        super().__init__()
        self.variable = variable()
        self.variable.replace(Content(Work().end()))
        self.contents: list[Any] = [self.variable.content()]

    @rule()
    def update(self) -> None:
        self.contents.append(Content(Work()))
        self.variable.replace(self.contents[-1])

    @precondition(lambda self: any(not each.ready.is_done for each in self.contents))
    @rule(data=st.data(), fails=st.booleans())
    def end(self, data: Any, fails: bool) -> None:
        content = data.draw(st.sampled_from([each for each in self.contents if not each.ready.is_done]))
        content.ready.end(FAILED if fails else None)

    @invariant()
    def the_content_is_the_newest_that_has_not_failed(self) -> None:
        expected = [each for each in self.contents if each.ready.error is None][-1]
        assert self.variable.content() is expected

    @invariant()
    def nothing_is_kept_without_need(self) -> None:
        certain = max(
            k for k, each in enumerate(self.contents) if each.ready.is_done and not each.ready.error
        )
        uncertain = [each for each in self.contents[certain:] if not each.ready.is_done]
        assert [each.after for each in self.variable._uncertain] == uncertain


TestUpdates = Updates.TestCase
