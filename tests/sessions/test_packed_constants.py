"""Constants that kernels take in a layout of their own are packed once for all programs and sessions of a graph."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.devices.jit import panels as packing
from aioexec.planning.layout import packed_constants as module
from aioexec.planning.layout.packed_constants import PackedConstants
from tests.tiers import constant, graph, op, programs, session_on

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not packing.vector_bytes(), reason="products are left to BLAS"),
]

W = np.random.default_rng(2).standard_normal((100, 96)).astype(np.float32)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> PackedConstants:
    """The packed constants of this test only."""
    made = PackedConstants(1 << 24)
    monkeypatch.setattr(module, "packed_constants", lambda: made)
    return made


@pytest.fixture
def packings(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The layouts in which constants are packed, in order."""
    found: list[Any] = []
    pack = packing.pack

    def noted(matrix: Any, panels: Any) -> Any:
        found.append(panels)
        return pack(matrix, panels)

    monkeypatch.setattr(packing, "pack", noted)
    return found


def product() -> tuple[Any, Any, Any]:
    with graph() as made:
        x = ax.placeholder("float32", (None, 100))
        return made, x, op("MatMul", x, constant(W))


def rows(count: int) -> Any:
    return np.random.default_rng(count).standard_normal((count, 100)).astype(np.float32)


async def test_programs_for_several_shapes_and_signatures_share_one_packed_constant(known, packings):
    made, x, y = product()
    with made.as_default():
        z = op("Neg", y)

    async with session_on(made, "eager") as session:
        for count in (1, 7, 50):
            for fetch, sign in ((y, 1), (z, -1)):
                found = await session.run(fetch, {x: rows(count)})
                np.testing.assert_allclose(found, sign * (rows(count) @ W), rtol=1e-4, atol=1e-4)
        assert len(programs(session)) == 6

    assert len(packings) == 1


async def test_two_sessions_of_a_graph_share_it(known, packings):
    made, x, y = product()

    async with session_on(made, "eager") as one, session_on(made, "eager") as other:
        for session in (one, other):
            await session.run(y, {x: rows(3)})
        (mine,), (theirs,) = (programs(session)[0].variant.packed for session in (one, other))

    assert mine is theirs
    assert len(packings) == 1


async def test_a_report_shows_its_bytes(known):
    made, x, y = product()

    async with session_on(made, "eager") as session:
        await session.run(y, {x: rows(3)})
        text = await session.explain(y, {x: rows(3)})
        report = await session.describe(y, {x: rows(3)})

    (program,) = report.partitions[0].items[-1].programs
    assert program.packed_bytes == 100 * 96 * 4  # a multiple of the widths of panels, 16 and 32
    assert "packed constants 38400 bytes" in text


async def test_memory_is_freed_when_session_and_graph_are_gone(known):
    made, x, y = product()
    async with session_on(made, "eager") as session:
        await session.run(y, {x: rows(3)})
        assert known.nbytes == 100 * 96 * 4

    del made, x, y, session
    gc.collect()

    assert known.nbytes == 0


async def test_a_constant_beyond_the_bound_is_multiplied_as_it_is(known):
    known.bound = 1000
    made, x, y = product()

    async with session_on(made, "eager") as session:
        found = await session.run(y, {x: rows(9)})
        (program,) = programs(session)

    assert not program.variant.packed
    assert program.variant.constants.nbytes >= W.nbytes
    np.testing.assert_allclose(found, rows(9) @ W, rtol=1e-4, atol=1e-4)
