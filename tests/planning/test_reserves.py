"""Checks for the capacity of lists come first in straight-line code, and each before its own append."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.graph.apply import apply_any_op, apply_op
from aioexec.graph.kernels.kernel import LoopKernel
from aioexec.planning.layout.variant import ProgramRow
from tests.planning.recognized import run
from tests.planning.test_layout import laid_out
from tests.tiers import feed, graph

STEPS = 21
X = np.arange(3, dtype=np.float32)


def made(limit: int = -1) -> Any:
    return apply_op("EmptyTensorList", [3], limit, element_dtype=ax.float32)


def push(handle: Any, value: Any) -> Any:
    return apply_op("TensorListPushBack", handle, value)


def stacked(handle: Any, count: int) -> Any:
    """The elements of a list, the last one first."""
    found = []
    for _ in range(count):
        handle, value = apply_any_op("TensorListPopBack", handle, [3], element_dtype=ax.float32)
        found.append(value)
    return ax.stack(found)


def kinds(results: list[Any], feeds: dict[Any, Any]) -> list[str]:
    """The kernels of the rows on lists, in order."""
    rows = [row for row in laid_out(results, feeds).rows if isinstance(row, ProgramRow)]
    names = [row.kernel.body.__name__ for row in rows if isinstance(row.kernel, LoopKernel)]
    return [name for name in names if name in ("reserve", "append")]


async def test_the_checks_of_several_lists_come_before_their_appends():
    with graph():
        x = feed([3])

        def body(t: Any, first: Any, second: Any) -> Any:
            y = x + ax.cast(t, ax.float32)
            return t + 1, push(first, y), push(second, y * y)

        lists = ax.while_loop(lambda t, *_: t < STEPS, body, [0, made(), made()])[1:]
        results = [stacked(each, STEPS) for each in lists]

    order = kinds(results, {x: X})
    first, second = await run(results, {x: X}, "eager")

    assert order == ["reserve", "reserve", "append", "append"]
    expected = X + np.arange(STEPS, dtype=np.float32)[::-1, None]
    np.testing.assert_array_equal(first, expected)
    np.testing.assert_array_equal(second, expected**2)


async def test_a_list_that_is_pushed_to_twice_is_checked_twice():
    with graph():
        x = feed([3])

        def body(t: Any, handle: Any) -> Any:
            y = x + ax.cast(t, ax.float32)
            return t + 1, push(push(handle, y), -y)

        handle = ax.while_loop(lambda t, _: t < STEPS, body, [0, made()])[1]
        result = stacked(handle, 2 * STEPS)

    order = kinds([result], {x: X})
    (found,) = await run([result], {x: X}, "eager")

    assert order == ["reserve", "append", "reserve", "append"]
    expected = [sign * (X + t) for t in range(STEPS)[::-1] for sign in (-1, 1)]
    np.testing.assert_array_equal(found, expected)


async def test_a_push_in_a_branch_is_checked_in_it():
    with graph():
        x = feed([3])

        def body(t: Any, some: Any, count: Any) -> Any:
            y = x + ax.cast(t, ax.float32)
            some, count = ax.cond(
                ax.equal(t % 3, 0), lambda: (push(some, y), count + 1), lambda: (some, count)
            )
            return t + 1, some, count

        _, some, count = ax.while_loop(lambda t, *_: t < STEPS, body, [0, made(), 0])
        result = stacked(some, STEPS // 3)

    found, pushed = await run([result, count], {x: X}, "eager")

    assert pushed == STEPS // 3
    np.testing.assert_array_equal(found, [X + t for t in range(0, STEPS, 3)[::-1]])


@pytest.mark.parametrize("jit", ["off", "eager"])
async def test_a_list_that_is_full_is_an_error(jit):
    with graph():
        x = feed([3])
        lists = ax.while_loop(
            lambda t, *_: t < STEPS, lambda t, a, b: (t + 1, push(a, x), push(b, x)), [0, made(), made(5)]
        )[1:]
        results = [stacked(each, 2) for each in lists]

    with pytest.raises(ax.errors.InvalidArgumentError, match=r"(?i)full|size|exceed"):
        await run(results, {x: X}, jit)
