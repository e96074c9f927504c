"""Regions of a worker, whose helpers come by the queue, in every order of the steps of few threads."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.devices.jit.llvm_machine import FaultError
from tests.devices.jit.region_model import changed
from tests.execution.queued_region_model import REGION_RUN, QueuedRegionModel

TWO: list[list[int]] = [[], []]
CHAIN = [[1], []]
JOIN = [[2], [2], []]
SPLIT = [[1, 2], [], []]


@pytest.mark.parametrize(
    ("tasks", "helpers"),
    [
        (TWO, 1),
        pytest.param(CHAIN, 1, marks=pytest.mark.slow),
        pytest.param(JOIN, 1, marks=pytest.mark.slow),
        pytest.param(SPLIT, 1, marks=pytest.mark.sweep),
        pytest.param(TWO, 2, marks=pytest.mark.sweep),
    ],
)
def test_every_task_is_done_once_without_a_deadlock(tasks: Sequence[Sequence[int]], helpers: int):
    assert QueuedRegionModel(tasks, helpers).explore() > 1000


@pytest.mark.parametrize("failing", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_task_that_fails_ends_the_region_when_its_helpers_have_left(failing: int):
    assert QueuedRegionModel(JOIN, failing=failing).explore() > 1000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        pytest.param(
            "  call void @run_move(ptr %run)\n  call void @unlock(ptr %run)\n  ret void",
            "  call void @unlock(ptr %run)\n  ret void",
            "no end can be reached",
            id="a helper that leaves does not wake the owner",
        ),
        pytest.param(
            "br i1 %is.used, label %rest, label %stopped.all",
            "br label %stopped.all",
            "a data race",
            id="the owner of a region that failed does not wait for its helpers",
        ),
        pytest.param(
            "  store ptr %frame, ptr %frame.at\n",
            "  call void @unlock(ptr %run)\n  store ptr %frame, ptr %frame.at\n  call void @lock(ptr %run)\n",
            "a data race|outside of memory",
            id="a frame becomes idle outside of the lock",
        ),
    ],
)
def test_a_fault_in_the_protocol_is_found(old: str, new: str, fault: str):
    with pytest.raises(FaultError, match=fault):
        for failing in (None, 0):
            QueuedRegionModel(JOIN, failing=failing, python=changed(REGION_RUN, old, new)).explore()
