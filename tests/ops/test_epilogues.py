"""Convolutions and products with what follows them, in one kernel: the results are those of NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.tiers import constant, feed, graph, op, op_of_each_row, programs, session_on, share_all

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(3)


def drawn(*shape: int, dtype: str = "float32") -> Array:
    return RNG.uniform(-2, 2, shape).astype(dtype)


def conv(x: Any, size: int, n: int, stride: int = 1, padding: str = "SAME") -> Any:
    filters = constant(drawn(size, size, x.shape.as_list()[-1], n, dtype=x.dtype.name), x.dtype.name)
    return op("Conv2D", x, filters, strides=[1, stride, stride, 1], padding=padding)


def product(x: Any, n: int) -> Any:
    return op("MatMul", x, constant(drawn(x.shape.as_list()[-1], n, dtype=x.dtype.name), x.dtype.name))


LINEAR: dict[str, tuple[tuple[int, ...], Callable[[Any], Any]]] = {
    "lines": ((2, 13, 17, 5), lambda x: conv(x, 3, 37)),
    "strided": ((1, 21, 20, 4), lambda x: conv(x, 3, 40, 2, "VALID")),
    "pointwise": ((3, 9, 7, 6), lambda x: conv(x, 1, 45)),
    "short lines": ((30, 6, 4, 5), lambda x: conv(x, 3, 34)),
    "product": ((29, 33), lambda x: product(x, 150)),
}
"""A shape of the input, and an operation on it, for each kernel that has epilogues."""


def biased(y: Any, seed: int = 5) -> tuple[Any, Array]:
    n = y.shape.as_list()[-1]
    bias = np.random.default_rng(seed).uniform(-2, 2, n).astype(y.dtype.name)
    return op("BiasAdd", y, constant(bias, y.dtype.name)), bias


async def run(made: Any, fetched: Any, feeds: Any) -> tuple[Any, set[str]]:
    """The result of a native program, and the ops of its rows; packing filters counts as their convolution."""
    async with session_on(made, "eager") as session:
        result = await session.run(fetched, feeds)
        (program,) = programs(session)
        return result, set(op_of_each_row(program))


@pytest.fixture(params=["whole", "shared"])
def _shares(request, monkeypatch):
    if request.param == "shared":
        share_all(monkeypatch)


@pytest.mark.usefixtures("_shares")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", LINEAR)
@pytest.mark.parametrize(("rectifier", "bound"), [("Relu", np.inf), ("Relu6", 6)])
async def test_bias_and_rectifier(kind, dtype, rectifier, bound):
    shape, build = LINEAR[kind]
    value = drawn(*shape, dtype=dtype)
    value.reshape(-1)[::301] = np.nan
    with graph() as made:
        x = feed(shape, dtype)
        y = build(x)
        z, bias = biased(y)
        end = op(rectifier, z)
        end_alone = op(rectifier, y)

    plain, _ = await run(made, y, {x: value})

    for fetched, expected in ((end, plain + bias), (end_alone, plain)):
        found, rows = await run(made, fetched, {x: value})
        assert rows == {y.op.type}
        np.testing.assert_array_equal(found, np.clip(expected, 0, bound))
