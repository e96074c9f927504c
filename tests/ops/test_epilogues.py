"""Convolutions and products with what follows them, in one kernel: the results are those of NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from aioexec.graph.kernels.kernel import LoopKernel
from aioexec.planning.layout.variant import ProgramRow
from tests.tiers import constant, feed, graph, op, op_of_each_row, programs, session_on, share_all, with_slow

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(3)


def drawn(*shape: int, dtype: str = "float32") -> Array:
    return RNG.uniform(-2, 2, shape).astype(dtype)


def weights(x: Any, *shape: int) -> Any:
    """A constant of the dtype of x, which is packed before the first run."""
    return constant(drawn(*shape, dtype=x.dtype.name), x.dtype.name)


UNKNOWN: dict[Any, Array] = {}
"""What is fed for weights that are not known when the program is laid out."""


def unknown(x: Any, *shape: int) -> Any:
    made = feed(shape, x.dtype.name)
    UNKNOWN[made] = drawn(*shape, dtype=x.dtype.name)
    return made


def with_unknown(made: Any, feeds: dict[Any, Any]) -> dict[Any, Any]:
    return feeds | {tensor: value for tensor, value in UNKNOWN.items() if tensor.graph is made}


def conv(
    x: Any, size: int, n: int, stride: int = 1, padding: str = "SAME", filters: Callable[..., Any] = weights
) -> Any:
    made = filters(x, size, size, x.shape.as_list()[-1], n)
    return op("Conv2D", x, made, strides=[1, stride, stride, 1], padding=padding)


def depthwise(x: Any, size: int, stride: int = 1) -> Any:
    filters = weights(x, size, size, x.shape.as_list()[-1], 1)
    return op("DepthwiseConv2dNative", x, filters, strides=[1, stride, stride, 1], padding="SAME")


def product(x: Any, n: int, matrix: Callable[..., Any] = weights) -> Any:
    return op("MatMul", x, matrix(x, x.shape.as_list()[-1], n))


LINEAR: dict[str, tuple[tuple[int, ...], Callable[..., Any]]] = {
    "first layer": ((1, 15, 17, 3), lambda x, n=24: conv(x, 3, n, 2)),
    "depthwise": ((2, 8, 9, 64), lambda x, n=64: depthwise(x, 3)),
    "depthwise, strided": ((1, 11, 8, 64), lambda x, n=64: depthwise(x, 5, 2)),
    "lines": ((2, 13, 17, 40), lambda x, n=69: conv(x, 3, n, filters=unknown)),
    "packed lines": ((1, 21, 20, 36), lambda x, n=72: conv(x, 3, n, 2, "VALID")),
    "pointwise": ((1, 9, 7, 66), lambda x, n=85: conv(x, 1, n, filters=unknown)),
    "packed pointwise": ((3, 19, 7, 66), lambda x, n=85: conv(x, 1, n)),
    "short lines": ((16, 3, 2, 5), lambda x, n=34: conv(x, 3, n, filters=unknown)),
    "product": ((29, 33), lambda x, n=150: product(x, n, unknown)),
    "packed product": ((229, 33), lambda x, n=150: product(x, n)),
}
"""A shape of the input, and an operation on it, for each kernel that has epilogues."""

KINDS = with_slow(LINEAR, "short lines")
DTYPES = with_slow(("float32", "float64"), "float64")


def biased(y: Any, seed: int = 5) -> tuple[Any, Array]:
    n = y.shape.as_list()[-1]
    bias = np.random.default_rng(seed).uniform(-2, 2, n).astype(y.dtype.name)
    return op("BiasAdd", y, constant(bias, y.dtype.name)), bias


async def run(made: Any, fetched: Any, feeds: Any) -> tuple[Any, set[str]]:
    """The result of a native program, and the ops of its rows; packing filters counts as their convolution."""
    async with session_on(made, "eager") as session:
        result = await session.run(fetched, with_unknown(made, feeds))
        (program,) = programs(session)
        return result, set(op_of_each_row(program))


@pytest.fixture(params=["whole", "shared"])
def _shares(request, monkeypatch):
    monkeypatch.setattr("aioexec.planning.fusion.elementwise.LEAST_SAVED_NS", 0)  # small values fuse too
    if request.param == "shared":
        share_all(monkeypatch)


@pytest.mark.usefixtures("_shares")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
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


def erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[x.dtype])(x)


def swish(y: Any) -> Any:
    return op("Mul", y, op("Sigmoid", y))


def hard_swish(y: Any) -> Any:
    return op("Mul", op("Mul", y, op("Relu6", op("AddV2", y, constant(3.0)))), constant(1 / 6))


def gelu(y: Any) -> Any:
    half = op("Mul", constant(0.5), op("AddV2", op("Erf", op("Mul", y, constant(0.5**0.5))), constant(1.0)))
    return op("Mul", y, half)


def gelu_by_tanh(y: Any) -> Any:
    cube = op("Mul", op("Mul", y, op("Mul", y, y)), constant(0.044715))
    inner = op("Mul", constant((2 / np.pi) ** 0.5), op("AddV2", y, cube))
    return op("Mul", y, op("Mul", constant(0.5), op("AddV2", constant(1.0), op("Tanh", inner))))


ACTIVATIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Array]]] = {
    "leaky": (lambda y: op("LeakyRelu", y, alpha=0.125), lambda v: np.where(v > 0, v, v / 8)),
    "sigmoid": (lambda y: op("Sigmoid", y), lambda v: 1 / (1 + np.exp(-v))),
    "swish": (swish, lambda v: v / (1 + np.exp(-v))),
    "hard swish": (hard_swish, lambda v: v * np.clip(v + 3, 0, 6) / 6),
    "gelu": (gelu, lambda v: v * (1 + erf(v * 0.5**0.5)) / 2),
    "gelu by tanh": (
        gelu_by_tanh,
        lambda v: v * (1 + np.tanh((2 / np.pi) ** 0.5 * (v + 0.044715 * v**3))) / 2,
    ),
}


@pytest.mark.usefixtures("_shares")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ACTIVATIONS)
async def test_activations(kind, name):
    shape, build = LINEAR[kind]
    activation, by_numpy = ACTIVATIONS[name]
    value = drawn(*shape)
    with graph() as made:
        x = feed(shape)
        y = build(x)
        z, bias = biased(y)
        end = activation(z)

    plain, _ = await run(made, y, {x: value})
    found, rows = await run(made, end, {x: value})

    assert rows == {y.op.type}
    expected = by_numpy((plain + bias).astype(np.float64))
    np.testing.assert_allclose(found, expected, rtol=3e-6, atol=3e-6)


@pytest.mark.usefixtures("_shares")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_residual_is_added_and_rectified(kind, dtype):
    shape, build = LINEAR[kind]
    value = drawn(*shape, dtype=dtype)
    with graph() as made:
        x = feed(shape, dtype)
        y = build(x)
        z, bias = biased(y)
        residual = feed(y.shape.as_list(), dtype)
        end = op("Relu", op("AddV2", residual, z))
    other = drawn(*y.shape.as_list(), dtype=dtype)

    plain, _ = await run(made, y, {x: value})
    found, rows = await run(made, end, {x: value, residual: other})

    assert rows == {y.op.type}
    np.testing.assert_array_equal(found, np.maximum(other + (plain + bias), 0))


@pytest.mark.usefixtures("_shares")
@pytest.mark.parametrize("kind", KINDS)
async def test_vectors_and_scalars_beside_the_result(kind):
    shape, build = LINEAR[kind]
    value = drawn(*shape)
    with graph() as made:
        x = feed(shape)
        n = 64
        y = build(x, n)
        scale, shift, factor = feed([n]), feed([n]), feed([])
        end = op("Tanh", op("Mul", op("AddV2", op("Mul", y, scale), shift), factor))
    vectors = drawn(n), drawn(n)

    plain, _ = await run(made, y, {x: value})
    found, rows = await run(made, end, {x: value, scale: vectors[0], shift: vectors[1], factor: 0.125})

    assert rows == {y.op.type}
    inner = (plain * vectors[0] + vectors[1]) / 8
    np.testing.assert_allclose(found, np.tanh(inner.astype(np.float64)), rtol=3e-6, atol=3e-6)


@pytest.mark.usefixtures("_shares")
async def test_the_later_of_two_convolutions_adds_both():
    with graph() as made:
        x = feed((2, 9, 8, 5))
        first, second = conv(x, 1, 40), conv(x, 3, 40)
        end = op("Relu", op("AddV2", first, second))
    value = drawn(2, 9, 8, 5)

    one, _ = await run(made, first, {x: value})
    two, _ = await run(made, second, {x: value})
    found, rows = await run(made, end, {x: value})

    assert rows == {"Conv2D"}
    np.testing.assert_array_equal(found, np.maximum(one + two, 0))


@pytest.mark.usefixtures("_shares")
async def test_blocks_whose_residual_is_the_input_of_the_next():
    with graph() as made:
        x = feed((2, 9, 8, 36))
        y = x
        ends = []
        for _ in range(3):
            made_here = conv(op("Relu", conv(y, 1, 12)), 1, 36)
            y = op("Relu", op("AddV2", y, made_here))
            ends.append((made_here, y))
    value = drawn(2, 9, 8, 36) / 8

    async with session_on(made, "eager") as session:
        found = await session.run(y, {x: value})
        before = value
        for conv_of_block, end in ends:
            plain, result = await session.run([conv_of_block, end], {x: value})
            np.testing.assert_array_equal(result, np.maximum(before + plain, 0))
            before = result

    np.testing.assert_array_equal(found, before)


@pytest.mark.parametrize("kind", KINDS)
async def test_each_case_has_a_kernel_of_its_own(kind):
    bodies = {
        "first layer": "forward",
        "depthwise": "three_adjacent_taps",
        "depthwise, strided": "five_adjacent_taps_strided",
        "lines": "forward",
        "packed lines": "forward",
        "pointwise": "multiply",
        "packed pointwise": "multiply_panels",
        "short lines": "forward_batch",
        "product": "matmul_real",
        "packed product": "multiply_panels",
    }
    shape, build = LINEAR[kind]
    with graph() as made:
        x = feed(shape)
        y = build(x)

    async with session_on(made, "eager") as session:
        await session.run(y, with_unknown(made, {x: drawn(*shape)}))
        (program,) = programs(session)

    kernels = [row.kernel for row in program.variant.rows if isinstance(row, ProgramRow)]
    assert isinstance(kernels[-1], LoopKernel)
    assert kernels[-1].body.__name__ == bodies[kind]
