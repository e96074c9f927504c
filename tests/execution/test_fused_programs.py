"""Fused programs yield the same bits as programs with a row for each node, and NumPy's values within tolerance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import aioexec as ax
from aioexec.planning.fusion import elementwise
from aioexec.planning.layout.variant import ProgramRow
from tests.tiers import graph, op, programs, session_on

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
    kinds = st.sampled_from(
        [*UNARY, *BINARY, *BINARY, "float64", "int32", "where", "Sum", "Max", "Transpose"]
    )
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


async def results(
    made: ax.Graph, fetches: list[Any], feeds: dict[Any, Array], jit: str
) -> tuple[list[Array], int]:
    """The fetched values, twice, and the number of fused rows."""
    async with session_on(made, jit) as session:
        first = await session.run(fetches, feeds)
        second = await session.run(fetches, feeds)
        rows = (
            [row for program in programs(session) for row in program.variant.rows] if jit == "eager" else []
        )
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
        patch.setattr(elementwise, "LEAST_SAVED_NS", 0)
        together, count = await results(made, fetches, feeds, "eager")
        patch.setattr(elementwise, "LEAST_SAVED_NS", math.inf)
        apart, none = await results(made, fetches, feeds, "eager")
    assert none == 0
    for one, other in zip(together, apart, strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()
    return count


@pytest.mark.slow
@settings(max_examples=30)
@given(recipes())
async def test_random_graphs_give_the_same_bits_fused_or_not(recipe):
    await check(recipe)


def gelu(x, tanh, exp, log):
    return 0.5 * x * (1.0 + tanh(0.7978846 * (x + 0.044715 * x * x * x)))


def softplus_and_more(x, tanh, exp, log):
    return log(1.0 + exp(-x * x)) / (2.0 + tanh(x)) - x * 0.25


def polynomial(x, tanh, exp, log):
    y = x
    for k in range(40):
        y = y * 0.5 + x * (0.01 * k)
    return y


@pytest.mark.parametrize("function", [gelu, softplus_and_more, polynomial])
@pytest.mark.parametrize("shape", [(), (1,), (31,), (65,), (3, 37), (2, 3, 130)])
async def test_what_is_fused_computes_what_numpy_does(function, shape, monkeypatch):
    monkeypatch.setattr(elementwise, "LEAST_SAVED_NS", 0)
    array = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    with graph() as made:
        x = ax.placeholder("float32", shape)
        y = function(x, ax.tanh, ax.exp, ax.log)

    (result,), count = await results(made, [y], {x: array}, "eager")

    assert count >= 1
    expected = function(array.astype(np.float64), np.tanh, np.exp, np.log)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)  # a few roundings of float32 each


async def test_updates_in_place_are_those_of_single_rows(monkeypatch):
    """Variables that are read before and after they are written, in steps that follow each other."""
    contents = []
    for least in (0, math.inf):
        monkeypatch.setattr(elementwise, "LEAST_SAVED_NS", least)
        with graph() as made:
            v = ax.get_variable("v", [5, 33], use_resource=True, initializer=ax.ones_initializer())
            w = ax.get_variable("w", [33], use_resource=True, initializer=ax.ones_initializer())
            x = ax.placeholder("float32", [5, 33])
            before = v.read_value() * 2.0
            loss = ax.reduce_sum(ax.square(ax.tanh(v * x + w)))
            train = ax.train.AdamOptimizer(0.1).minimize(loss)
            with made.control_dependencies([train, before.op]):
                doubled = v.assign_add(ax.exp(-v.read_value()))
            with made.control_dependencies([doubled.op]):
                after = v.read_value() - before
        async with session_on(made, "eager") as session:
            with made.as_default():
                await session.run(ax.global_variables_initializer())
            array = np.random.default_rng(2).normal(size=(5, 33)).astype(np.float32)
            steps = [await session.run([before, after, loss, doubled], {x: array}) for _ in range(4)]
            contents.append([*(value for step in steps for value in step), *(await session.run([v, w]))])

    for one, other in zip(*contents, strict=True):
        np.testing.assert_array_equal(one, other)


def looped(x):
    """A loop and a conditional over arrays of the shape of x."""

    def body(i, state, total):
        fresh = ax.tanh(state * 0.5 + x) - 0.1 * total
        return i + 1, fresh, total + ax.exp(-ax.square(fresh))

    _, state, total = ax.while_loop(lambda i, state, total: i < 5, body, [0, ax.exp(x), x * 2.0])
    chosen = ax.cond(ax.reduce_sum(total) > 0.0, lambda: ax.exp(-state) + 1.0, lambda: ax.tanh(state) * 2.0)
    return [state, total, chosen]


async def test_a_loop_gives_the_same_bits_fused_or_not(monkeypatch):
    found = []
    array = np.random.default_rng(3).normal(size=(3, 37)).astype(np.float32)
    for least in (0, math.inf):
        monkeypatch.setattr(elementwise, "LEAST_SAVED_NS", least)
        with graph() as made:
            x = ax.placeholder("float32", [3, 37])
            fetches = looped(x)
        fetched, count = await results(made, fetches, {x: array}, "eager")
        assert (count > 0) == (least == 0)
        found.append(fetched)

    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


async def test_every_node_of_a_fused_row_is_traced(monkeypatch):
    monkeypatch.setattr(elementwise, "LEAST_SAVED_NS", 0)
    with graph() as made:
        x = ax.placeholder("float32", [64])
        y = ax.tanh(ax.exp(x, name="first"), name="second") * 2.0
    options = ax.RunOptions(trace_level=ax.RunOptions.FULL_TRACE)
    metadata = ax.RunMetadata()

    async with session_on(made, "eager") as session:
        await session.run(y, {x: np.zeros(64, np.float32)}, options=options, run_metadata=metadata)

    (device,) = [each for each in metadata.step_stats.dev_stats if each.node_stats]
    stats = {each.node_name: each for each in device.node_stats}
    assert {"first", "second", y.op.name} <= set(stats)
    first, second = stats["first"], stats["second"]
    assert first.all_start_micros <= second.all_start_micros
    assert second.op_start_rel_nanos >= 0
