"""Products add to a sum in place, or compute only the columns that are used, and the conditions that prevent it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.graph.kernels.kernel import LoopKernel
from aioexec.planning.layout.variant import ProgramRow, Variant
from tests.planning.recognized import drawn, run
from tests.planning.test_layout import laid_out
from tests.tiers import feed, graph, op

ADDS, COLUMNS, PITCH = 15, 4, 14
"""Arguments of the kernel of a product."""
STEPS = 3
A, B, START = drawn(5, 4), drawn(4, 160), drawn(5, 160)


def products(variant: Variant) -> list[tuple[int, ...]]:
    """The arguments of each product, and how many nodes its row does."""
    rows = [row for row in variant.rows if isinstance(row, ProgramRow)]
    kernels = [(row, row.kernel) for row in rows if isinstance(row.kernel, LoopKernel)]
    return [
        (*row.words, len(row.parts or (row,))) for row, kernel in kernels if "matmul" in kernel.body.__name__
    ]


def summed(change: Callable[[Any, Any], Any], a: Any, b: Any, start: Any) -> Any:
    """The value of a loop whose iterations each change it by a product of a."""
    return ax.while_loop(
        lambda t, _: t < STEPS,
        lambda t, total: (t + 1, change(total, ax.matmul(a + ax.cast(t, a.dtype), b))),
        [0, start],
    )[1]


def expected(a: Any = A, b: Any = B, start: Any = START) -> Any:
    a, b, total = (each.astype(np.float64) for each in (a, b, start))
    for t in range(STEPS):
        total = total + (a + t) @ b
    return total


@pytest.mark.parametrize("change", [lambda total, product: total + product, lambda *both: ax.add_n(both)])
async def test_a_product_adds_to_the_variable_of_a_loop(change):
    with graph():
        a, b, start = feed(A.shape), feed(B.shape), feed(START.shape)
        result = summed(change, a, b, start)
    feeds = {a: A, b: B, start: START}

    found = products(laid_out([result], feeds))
    (values,) = await run([result], feeds, "eager")

    assert [(words[ADDS], words[-1]) for words in found] == [(1, 2)]
    np.testing.assert_allclose(values, expected(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("terms", [129, 700])
async def test_a_product_of_many_terms_adds_too(terms):
    a, b, start = drawn(64, terms), drawn(terms, 96), drawn(64, 96)
    with graph():
        fed = [feed(each.shape) for each in (a, b, start)]
        result = summed(lambda total, product: total + product, *fed)
    feeds = dict(zip(fed, (a, b, start), strict=True))

    found = products(laid_out([result], feeds))
    (values,) = await run([result], feeds, "eager")

    assert [words[ADDS] for words in found] == [1]
    np.testing.assert_allclose(values, expected(a, b, start), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    "change",
    [
        lambda total, product: total + product + ax.reduce_sum(product),
        lambda total, product: total * 0.5 + product,
        lambda total, product: total - product,
        lambda total, product: product + product,
    ],
)
async def test_other_sums_are_left_alone(change):
    with graph():
        a, b, start = feed(A.shape), feed(B.shape), feed(START.shape)
        result = summed(change, a, b, start)

    found = products(laid_out([result], {a: A, b: B, start: START}))

    assert [words[ADDS] for words in found] == [0]


async def test_a_sum_whose_old_value_is_read_afterwards_is_left_alone():
    with graph():
        a, b, start = feed(A.shape), feed(B.shape), feed(START.shape)

        def body(t: Any, total: Any, largest: Any) -> Any:
            product = ax.matmul(a + ax.cast(t, a.dtype), b)
            return t + 1, total + product, ax.maximum(largest, ax.reduce_max(total * product))

        results = ax.while_loop(lambda t, *_: t < STEPS, body, [0, start, -1e9])[1:]
    feeds = {a: A, b: B, start: START}

    total, largest = await run(list(results), feeds, "eager")

    np.testing.assert_allclose(total, expected(), rtol=1e-5, atol=1e-5)
    before, best = START.astype(np.float64), -np.inf
    for t in range(STEPS):
        product = (A + t) @ B.astype(np.float64)
        best, before = max(best, (before * product).max()), before + product
    np.testing.assert_allclose(largest, best, rtol=1e-4)


async def test_a_product_of_integers_does_not_add():
    a, b, start = (np.arange(each.size, dtype=np.int32).reshape(each.shape) for each in (A, B, START))
    with graph():
        fed = [feed(each.shape, "int32") for each in (a, b, start)]
        result = summed(lambda total, product: total + product, *fed)
    feeds = dict(zip(fed, (a, b, start), strict=True))

    found = products(laid_out([result], feeds))
    (values,) = await run([result], feeds, "eager")

    assert [words[ADDS] for words in found] == [0]
    np.testing.assert_array_equal(values, expected(a, b, start))


@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize(("begin", "count"), [(0, 96), (32, 128), (31, 97)])
async def test_only_the_columns_that_are_used_are_computed(begin, count, transpose_b):
    with graph():
        a, b = feed(A.shape), feed(B.T.shape if transpose_b else B.shape)
        product = ax.matmul(a, b, transpose_b=transpose_b)
        y = op("Slice", product, [0, begin], [5, count])
    feeds = {a: A, b: B.T if transpose_b else B}

    (words,) = products(laid_out([y], feeds))
    (values,) = await run([y], feeds, "eager")

    assert (words[COLUMNS], words[PITCH], words[-1]) == (count, count, 2)
    np.testing.assert_allclose(values, A @ B[:, begin : begin + count], rtol=1e-5, atol=1e-6)


async def test_columns_become_the_variable_of_a_loop():
    with graph():
        a, b = feed([5, 130]), feed([130, 160])
        y = ax.while_loop(lambda t, _: t < STEPS, lambda t, x: (t + 1, ax.matmul(x, b)[:, 10:140]), [0, a])[1]
    first, matrix = drawn(5, 130), 0.1 * drawn(130, 160)

    found = products(laid_out([y], {a: first, b: matrix}))
    (values,) = await run([y], {a: first, b: matrix}, "eager")

    expected = first.astype(np.float64)
    for _ in range(STEPS):
        expected = expected @ matrix[:, 10:140]
    assert all(words[ADDS] == 0 for words in found)
    np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("use", "first"),
    [
        (lambda product: [product[:, :40], product[:, 40:]], lambda product: product[:, :40]),
        (lambda product: [product[:, :40], product], lambda product: product[:, :40]),
        (lambda product: [product[1:]], lambda product: product[1:]),
        (lambda product: [ax.transpose(product)], lambda product: product.T),
        (lambda product: [ax.nn.relu(product)[:, :40]], lambda product: np.maximum(product[:, :40], 0)),
    ],
)
async def test_a_product_that_is_used_otherwise_is_computed_whole(use, first):
    with graph():
        a, b = feed(A.shape), feed(B.shape)
        results = use(ax.matmul(a, b))
    feeds = {a: A, b: B}

    found = products(laid_out(results, feeds))
    values = await run(results, feeds, "eager")

    assert [words[COLUMNS] for words in found] == [160]
    np.testing.assert_allclose(values[0], first(A @ B), rtol=1e-5, atol=1e-6)
