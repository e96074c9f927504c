"""A bias and a rectifier as an epilogue of a product yield the bits of separate rows, for any division among threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.planning.layout import variant_builder
from tests.tiers import graph, op, op_of_each_row, programs, share_all, with_slow

Array = np.ndarray[Any, Any]

CASES = {
    "shared by columns": ((40, 33), (33, 300), "MatMul", {}, "float32"),
    "shared by rows": ((130, 33), (33, 20), "MatMul", {}, "float32"),
    "transposed": ((33, 40), (300, 33), "MatMul", {"transpose_a": True, "transpose_b": True}, "float32"),
    "doubles": ((40, 33), (33, 300), "MatMul", {}, "float64"),
    "integers": ((40, 33), (33, 300), "MatMul", {}, "int32"),
    "a batch": ((3, 5, 40, 33), (3, 1, 33, 17), "BatchMatMulV2", {}, "float32"),
    "a batch by one": ((3, 40, 33), (33, 17), "BatchMatMulV2", {}, "float32"),
}


def values(case: str) -> list[Array]:
    """Factors and a bias; a NaN among them where there is one, and a column that comes out as zero of either sign."""
    left, right, _, attrs, dtype = CASES[case]
    random = np.random.default_rng(7)
    n = right[-2] if attrs else right[-1]
    a, b, bias = ((random.standard_normal(shape) * 4).astype(dtype) for shape in (left, right, (n,)))
    if dtype != "int32":
        a[..., 2, 4] = np.nan
    (b.T if attrs else b)[..., 3], bias[3] = 0, -0.0
    return [a, b, bias]


async def result(case: str, workers: int, rectifies: bool) -> tuple[Array, list[str]]:
    """The result, and the kinds of the nodes in rows."""
    arrays = values(case)
    _, _, kind, attrs, _ = CASES[case]
    config = ax.ConfigProto(intra_op_parallelism_threads=workers, use_per_session_threads=True)
    config.aioexec.jit = "eager"
    with graph() as made:
        a, b, bias = (ax.placeholder(each.dtype, each.shape) for each in arrays)
        y = op("AddV2", op(kind, a, b, **attrs), bias)
        z = op("Relu", y) if rectifies else y
    async with ax.Session(graph=made, config=config) as session:
        found = await session.run(z, dict(zip((a, b, bias), arrays, strict=True)))
        (program,) = programs(session)
    return found, op_of_each_row(program)


@pytest.mark.parametrize("rectifies", [False, True])
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("case", with_slow(CASES, "doubles", "integers"))
async def test_a_product_ends_with_a_bias_and_a_rectifier(monkeypatch, case, workers, rectifies):
    share_all(monkeypatch)

    found, kinds = await result(case, workers, rectifies)
    for name in ("fuse_epilogues", "call_epilogues"):
        monkeypatch.setattr(variant_builder, name, lambda layout: None)
    apart, others = await result(case, 1, rectifies)

    assert set(kinds) == {CASES[case][2]}
    assert set(others) > set(kinds)
    assert found.tobytes() == apart.tobytes()
    a, b, bias = values(case)
    flips = bool(CASES[case][3])
    wanted = (a.T if flips else a) @ (b.T if flips else b) + bias
    np.testing.assert_allclose(found, np.maximum(wanted, 0) if rectifies else wanted, rtol=1e-3, atol=1e-3)
