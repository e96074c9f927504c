"""Epilogues of convolutions give the same bits as separate rows, on any number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.ops.common import shares
from aioexec.planning.layout import variant_builder
from tests.tiers import graph, op, op_of_each_row, programs, share_all, with_slow

Array = np.ndarray[Any, Any]

CASES = {
    "lines": ((2, 9, 11, 9), (3, 2, 9, 37), "float32"),
    "filters shared": ((1, 12, 12, 9), (3, 2, 9, 70), "float32"),
    "filters as given": ((1, 5, 11, 9), (3, 2, 9, 37), "float32"),
    "across images": ((30, 3, 3, 9), (2, 2, 9, 37), "float32"),
    "points": ((3, 7, 11, 9), (1, 1, 9, 37), "float32"),
    "doubles": ((2, 9, 11, 9), (3, 2, 9, 37), "float64"),
}


def values(case: str) -> list[Array]:
    """Images, filters and a bias; a NaN among them, and a channel that comes out as zero of either sign."""
    image, filters, dtype = CASES[case]
    random = np.random.default_rng(5)
    x, w, b = (random.standard_normal(shape).astype(dtype) for shape in (image, filters, filters[-1:]))
    x[0, 2, 2, 4] = np.nan
    w[..., 3], b[3] = 0, -0.0
    return [x, w, b]


def expected(x: Array, w: Array, b: Array) -> Array:
    """A convolution of windows one apart, padded to the same size."""
    sizes = [(size - 1) // 2 for size in w.shape[:2]]
    edges = [(before, size - 1 - before) for before, size in zip(sizes, w.shape[:2], strict=True)]
    padded = np.pad(x.astype(np.float64), ((0, 0), *edges, (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[:2], axis=(1, 2))
    found: Array = np.maximum(np.einsum("bhwcij,ijcn->bhwn", windows, w.astype(np.float64)) + b, 0)
    return found


async def result(case: str, workers: int) -> tuple[Array, list[str]]:
    """The result, and the kinds of the nodes in rows, in order."""
    arrays = values(case)
    config = ax.ConfigProto(intra_op_parallelism_threads=workers, use_per_session_threads=True)
    config.aioexec.jit = "eager"
    with graph() as made:
        x, w, b = (ax.placeholder(each.dtype, each.shape) for each in arrays)
        y = op("Conv2D", x, w, strides=[1, 1, 1, 1], padding="SAME")
        z = op("Relu", op("Add", y, b))
    async with ax.Session(graph=made, config=config) as session:
        found = await session.run(z, dict(zip((x, w, b), arrays, strict=True)))
        (program,) = programs(session)
    return found, op_of_each_row(program)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("case", with_slow(CASES, "across images", "doubles"))
async def test_a_bias_and_a_rectifier_have_the_bits_of_rows_of_their_own(monkeypatch, case, workers):
    share_all(monkeypatch)
    monkeypatch.setattr(shares, "LAUNCH_NS", 20_000)

    found, kinds = await result(case, workers)
    for fusion in ("fuse_epilogues", "call_epilogues"):
        monkeypatch.setattr(variant_builder, fusion, lambda layout: None)
    apart, others = await result(case, 1)

    assert set(kinds) == {"Conv2D"}
    assert {"Add", "Conv2D"} <= set(others)
    assert found.tobytes() == apart.tobytes()
    wanted = expected(*values(case))
    assert np.isnan(found).any()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
