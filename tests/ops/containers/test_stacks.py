"""Stacks, as graphs that TensorFlow differentiated use them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import InternalError, InvalidArgumentError
from aioexec.graph.apply import apply_any_op, apply_no_output_op, apply_op
from aioexec.graph.graph import Graph
from tests.tiers import Tier, tier as tier

OF: dict[str, Any] = {"elem_type": ax.float32}


@pytest.mark.parametrize(("version", "size"), [("", []), ("V2", [-1])])
async def test_what_is_pushed_last_is_popped_first(version: str, size: list[int], tier: Tier):
    with Graph().as_default() as graph:
        stack = apply_any_op(f"Stack{version}", *size, **OF)
        popped = []
        waits = [apply_any_op(f"StackPush{version}", stack, value) for value in ([1.0],)]
        with graph.control_dependencies(waits):
            waits = [apply_any_op(f"StackPush{version}", stack, [2.0, 3.0])]
        for _ in range(2):
            with graph.control_dependencies(waits):
                waits = [apply_any_op(f"StackPop{version}", stack, **OF)]
            popped += waits
        with graph.control_dependencies(waits):
            closed = apply_any_op(f"StackClose{version}", stack)
        async with tier.session(graph) as session:
            first, second, _ = await session.run([*popped, closed])

    np.testing.assert_array_equal(first, [2, 3])
    np.testing.assert_array_equal(second, [1])


async def test_a_loop_pushes_what_another_pops(tier: Tier):
    with Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [2])
        stack = apply_op("StackV2", -1, **OF)
        count, pushed = ax.while_loop(
            lambda i, y: i < 4, lambda i, y: (i + 1, apply_op("StackPushV2", stack, y) * x), [0, x]
        )
        with graph.control_dependencies([pushed]):
            count = ax.identity(count)
        _, total = ax.while_loop(
            lambda i, total: i > 0,
            lambda i, total: (i - 1, total * 0.5 + ax.reshape(apply_op("StackPopV2", stack, **OF), [2])),
            [count, ax.zeros([2])],
        )
        async with tier.session(graph) as session:
            found = await session.run(total, {x: [1.0, 2.0]})

    np.testing.assert_array_equal(found, [1 + 0.5 + 0.25 + 0.125, 2 + 4 / 2 + 8 / 4 + 16 / 8])


@pytest.mark.parametrize(
    ("made", "verb", "error", "message"),
    [
        (-1, "pop", InvalidArgumentError, r"Stack\[mine\] is empty"),
        (1, "push", InvalidArgumentError, r"Stack\[mine\] overflowed its max_size \(1\)"),
        (-1, "close", InvalidArgumentError, r"Stack\[mine\] has already been closed"),
        (-1, "other", InternalError, "does not match declared output type int32"),
    ],
)
async def test_what_a_stack_refuses(made: int, verb: str, error: type[Exception], message: str, tier: Tier):
    with Graph().as_default() as graph:
        stack = apply_op("StackV2", made, stack_name="mine", **OF)
        before: list[Any] = [] if verb == "pop" else [apply_op("StackPushV2", stack, 1.0)]
        if verb == "close":
            before = [apply_no_output_op("StackCloseV2", stack)]
        with graph.control_dependencies(before):
            if verb == "push":
                last = apply_op("StackPushV2", stack, 2.0)
            else:
                last = apply_op("StackPopV2", stack, elem_type=ax.int32 if verb == "other" else ax.float32)
        async with tier.session(graph) as session:
            with pytest.raises(error, match=message):
                await session.run(last)
