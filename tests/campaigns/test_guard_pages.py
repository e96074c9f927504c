"""Guarded memory: accesses outside of it crash, as the campaigns of guard pages assume."""

from __future__ import annotations

import numpy as np
import pytest

from tests.campaigns.guard_pages import PAGE, Guards


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
