"""Packed constants: one copy for all that use a constant, freed with the last of them, and no more than a bound."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

from aioexec.devices.jit import panels as packing
from aioexec.graph.kernels.panels import Panels
from aioexec.planning.layout.packed_constants import PackedConstants

PANELS = Panels(16, 32)
NBYTES = 16 * 32 * 4


@pytest.fixture(autouse=True)
def vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "vector_bytes", lambda: 32)


def weights() -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).standard_normal((16, 32)).astype(np.float32)


def test_a_constant_is_packed_once_and_shared():
    known, content = PackedConstants(1 << 20), weights()

    one, other = (known.claim(content, PANELS) for _ in range(2))

    assert one is other
    assert one is not None
    assert one.array() is one.array()
    assert known.nbytes == NBYTES


def test_views_of_the_same_memory_share_and_other_layouts_do_not():
    known, content = PackedConstants(1 << 20), weights()

    one = known.claim(content, PANELS)
    view = known.claim(content.view(), PANELS)
    flipped = known.claim(content, Panels(32, 16, transposed=True))
    equal = known.claim(content.copy(), PANELS)

    assert one is view
    assert len({id(each) for each in (one, flipped, equal)}) == 3
    assert known.nbytes == 3 * NBYTES


def test_memory_is_freed_with_the_last_use():
    known = PackedConstants(1 << 20)
    one, other = (known.claim(weights(), PANELS) for _ in range(2))
    assert known.nbytes == 2 * NBYTES

    del one
    gc.collect()
    assert known.nbytes == NBYTES

    del other
    gc.collect()
    assert known.nbytes == 0


def test_what_exceeds_the_bound_is_not_packed():
    known = PackedConstants(2 * NBYTES)
    kept = [known.claim(weights(), PANELS) for _ in range(2)]

    assert known.claim(weights(), PANELS) is None

    kept.pop()
    gc.collect()
    assert known.claim(weights(), PANELS) is not None


def test_threads_that_claim_at_once_share():
    known, content = PackedConstants(1 << 20), weights()
    found, start = [], threading.Barrier(4)

    def claim() -> None:
        start.wait()
        constant = known.claim(content, PANELS)
        assert constant is not None
        found.append((constant, constant.array()))

    threads = [threading.Thread(target=claim) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == 4
    assert len({id(array) for _, array in found}) == 1
