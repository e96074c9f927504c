"""Fused programs give the same bits as the same programs with a row for each node, and what NumPy gives, nearly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import aioexec as ax
from aioexec.planning import fuse
from aioexec.planning.variant import ProgramRow
from tests.tiers import Tier, graph, op, programs, session_on

Array = np.ndarray[Any, Any]

UNARY = ("Neg", "Exp", "Tanh", "Sin", "Square", "Relu", "Sqrt", "Sigmoid", "Floor")
BINARY = ("Add", "Sub", "Mul", "Maximum", "RealDiv")
SHAPES = [(), (1,), (7,), (33,), (64,), (5, 1), (5, 33), (3, 5, 33), (130,), (2, 130), (0, 33), (3, 1, 33)]


@dataclass(frozen=True)
class Step:
    """One node: its kind and which earlier values it takes, counted from the last."""

    kind: str
    inputs: tuple[int, ...]


@st.composite
def recipes(draw: st.DrawFn) -> tuple[list[tuple[int, ...]], list[Step], list[int]]:
    """Shapes of the feeds, steps, and which values are fetched."""
    base = draw(st.sampled_from(SHAPES))
    parts = [tuple(draw(st.sampled_from([dim, 1])) for dim in base[cut:]) for cut in range(len(base) + 1)]
    feeds = [base, *draw(st.lists(st.sampled_from(parts), min_size=1, max_size=3))]
    kinds = st.sampled_from([*UNARY, *BINARY, *BINARY, "float64", "int32", "where", "Sum", "Max", "Transpose"])
    steps = [
        Step(draw(kinds), (draw(st.integers(0, 6)), draw(st.integers(0, 6))))
        for _ in range(draw(st.integers(3, 14)))
    ]
    fetched = draw(st.lists(st.integers(0, len(steps) - 1), max_size=2))
    return feeds, steps, fetched


def built(step: Step, values: list[Any]) -> Any:
    """The node of a step."""
    x, y = (values[-1 - index % len(values)] for index in step.inputs)
    if step.kind in UNARY:
        return op(step.kind, ax.abs(x) if step.kind == "Sqrt" else x)
    if step.kind in BINARY:
        return op(step.kind, x, y)
    if step.kind == "float64":
        return ax.cast(ax.cast(x, "float64") * 1.5, "float32")
    if step.kind == "int32":
        return ax.cast(ax.cast(ax.clip_by_value(x, -100.0, 100.0), "int32") + 3, "float32")
    if step.kind == "where":
        return ax.where(ax.greater(x, 0.25), x, -x)
    if step.kind == "Transpose":
        return ax.transpose(x)
    rank = x.shape.rank
    return op(step.kind, x, ax.constant([rank - 1] if rank else [], "int32", [1 if rank else 0]))


async def results(made: ax.Graph, fetches: list[Any], feeds: dict[Any, Array], jit: str) -> tuple[list[Array], int]:
    """What is fetched, twice, and how many rows are fused."""
    async with session_on(made, jit) as session:
        first = await session.run(fetches, feeds)
        second = await session.run(fetches, feeds)
        rows = [row for program in programs(session) for row in program.variant.rows] if jit == "eager" else []
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)
    return first, sum(isinstance(row, ProgramRow) and bool(row.parts) for row in rows)


async def check(recipe: tuple[list[tuple[int, ...]], list[Step], list[int]]) -> int:
    """Compare the three ways to run a recipe; returns how many rows were fused."""
    shapes, steps, fetched = recipe
    random = np.random.default_rng(len(steps))
    with graph() as made:
        feeds = {
            ax.placeholder("float32", shape): random.normal(size=shape).astype(np.float32) for shape in shapes
        }
        values: list[Any] = list(feeds)
        for step in steps:
            x, y = (values[-1 - index % len(values)] for index in step.inputs)
            try:
                np.broadcast_shapes(tuple(x.shape.as_list()), tuple(y.shape.as_list()))
            except ValueError:
                continue
            values.append(built(step, values))
        fetches = [values[-1], *(values[len(feeds) + k] for k in fetched if len(feeds) + k < len(values))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fuse, "LEAST_SAVED_NS", 0)
        together, count = await results(made, fetches, feeds, "eager")
        patch.setattr(fuse, "LEAST_SAVED_NS", math.inf)
        apart, none = await results(made, fetches, feeds, "eager")
    assert none == 0
    for one, other in zip(together, apart, strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()
    return count


@pytest.mark.slow
@settings(max_examples=250)
@given(recipes())
async def test_random_graphs_give_the_same_bits_fused_or_not(recipe):
    await check(recipe)
