"""Guarded memory: accesses outside of it crash, as the campaigns of guard pages assume."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.execution.programs.run_memory import RunMemory
from tests.campaigns.guard_pages import PAGE, Guards, guarded
from tests.tiers import session_on


def test_an_array_of_more_than_all_memory_is_refused_as_numpy_refuses_it():
    guards = Guards(before=False)

    for elements in (2**46, 2**60):
        with pytest.raises(MemoryError):
            guards.empty(elements, np.float32)
    with pytest.raises(ValueError, match=r"too big|too large|dimension"):
        guards.empty(2**63, np.uint8)


@pytest.mark.parametrize("before", [False, True])
def test_an_array_ends_or_begins_at_a_guard_page(before: bool):
    array = Guards(before).empty(3, np.float32)

    begin = array.ctypes.data
    assert (begin if before else begin + array.nbytes) % PAGE == 0


async def test_values_between_rows_and_outputs_of_a_run_end_at_a_guard_page(monkeypatch: pytest.MonkeyPatch):
    stored: list[np.ndarray[Any, Any]] = []
    bind = RunMemory.bind

    def noted(self: RunMemory, slot: int, array: np.ndarray[Any, Any]) -> None:
        stored.append(array)
        bind(self, slot, array)

    monkeypatch.setattr(RunMemory, "bind", noted)
    with ax.Graph().as_default() as graph, guarded():
        x = ax.placeholder(ax.float32, [3, 3])
        y = ax.matrix_inverse(x + 1.0) * 2.0  # an inverse has no compiled kernel
        async with session_on(graph, "eager") as session:
            outputs = [await session.run(y, {x: np.eye(3, dtype=np.float32)}) for _ in range(2)]

    assert stored
    assert {(each.ctypes.data + each.nbytes) % PAGE for each in (*stored, outputs[1])} == {0}
