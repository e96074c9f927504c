"""Convolutions of the phases of an image become dilated convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aioexec.formats.protos import ConfigProto, RewriterConfig
from aioexec.planning.passes import DefaultOptions, Grouping, optimization_passes
from aioexec.sessions.session import Session
from tests.planning.planned import Binder, pruned
from tests.tiers import constant, feed, graph, op, session_on

RNG = np.random.default_rng(5)
IMAGE = 2, 12, 13, 3
MOVES = {"SpaceToBatchND", "BatchToSpaceND"}


def moved(kind: str, x: Any, blocks: Any, margins: Any) -> Any:
    return op(kind, x, constant(blocks, "int32"), constant(margins, "int32"))


def filters(*shape: int) -> Any:
    return constant(RNG.uniform(-1, 1, shape).astype(np.float32))


def atrous(
    x: Any,
    filter: Any,
    *,
    blocks: Any = (2, 3),
    paddings: Any = ((2, 2), (3, 5)),
    crops: Any = ((0, 0), (0, 2)),
    kind: str = "Conv2D",
    **changed: Any,
) -> Any:
    """A dilated convolution as TensorFlow writes it."""
    attrs: dict[str, Any] = {"strides": [1] * 4, "padding": "VALID"} | changed
    phases = moved("SpaceToBatchND", x, blocks, paddings)
    return moved("BatchToSpaceND", op(kind, phases, filter, **attrs), blocks, crops)


def atrous_sequence(x: Any, filter: Any, rate: int, axis: int = -3) -> Any:
    """A causal convolution in one dimension."""
    padded = op("Pad", x, constant([[0, 0], [2 * rate, 0], [0, 0]], "int32"))
    phases = moved("SpaceToBatchND", padded, [rate], [[0, 0]])
    expanded = op("ExpandDims", phases, constant(axis, "int32"))
    y = op("Conv2D", expanded, filter, strides=[1] * 4, padding="VALID")
    return moved("BatchToSpaceND", op("Squeeze", y, squeeze_dims=[axis % 4]), [rate], [[0, 0]])


def kinds(fetches: list[Any], feeds: list[Any], options: DefaultOptions | None = None) -> list[str]:
    """The ops that run."""
    subgraph = pruned(fetches, feeds)
    optimization_passes.run_grouping(
        Grouping.POST_REWRITE_FOR_EXEC, subgraph, Binder(), options or DefaultOptions()
    )
    subgraph.check_invariants()
    return [node.op.type for node in subgraph.nodes if node.feed is None and not node.is_constant]


def dilated(x: np.ndarray, w: np.ndarray, rates: tuple[int, int], paddings: Any) -> np.ndarray:
    """A dilated convolution in float64, and the sums of the absolute values of its terms."""
    wide = np.pad(x.astype(np.float64), [(0, 0), *paddings, (0, 0)])
    spans = [(size - 1) * rate for size, rate in zip(w.shape[:2], rates, strict=True)]
    rows, columns = wide.shape[1] - spans[0], wide.shape[2] - spans[1]
    terms = []
    for values, weights in ((wide, w.astype(np.float64)), (abs(wide), abs(w.astype(np.float64)))):
        parts = [
            values[:, i * rates[0] : i * rates[0] + rows, j * rates[1] : j * rates[1] + columns]
            @ weights[i, j]
            for i in range(w.shape[0])
            for j in range(w.shape[1])
        ]
        terms.append(sum(parts[1:], parts[0]))
    return np.stack(terms)


@pytest.mark.parametrize("jit", ["off", "eager"])
async def test_a_convolution_of_phases_becomes_a_dilated_convolution(jit):
    w = RNG.uniform(-1, 1, (3, 3, 3, 4)).astype(np.float32)
    with graph() as made:
        x = feed(IMAGE)
        y = atrous(x, constant(w))
    value = RNG.uniform(-1, 1, IMAGE).astype(np.float32)

    async with session_on(made, jit) as session:
        found = await session.run(y, {x: value})

    assert kinds([y], [x]) == ["Conv2D"]
    expected, size = dilated(value, w, (2, 3), [(2, 2), (3, 3)])
    # the sum of 27 products, each rounded: at most 28 half units of the sum of absolute values
    np.testing.assert_array_less(abs(found - expected), 28 * 2.0**-24 * size)


async def test_the_bits_are_those_of_the_convolution_of_phases():
    with graph() as made:
        x = feed(IMAGE)
        y = atrous(x, filters(3, 3, 3, 4))
    value = RNG.uniform(-1, 1, IMAGE).astype(np.float32)
    config = ConfigProto()
    config.graph_options.rewrite_options.remapping = RewriterConfig.OFF

    async with Session(graph=made) as rewritten, Session(graph=made, config=config) as plain:
        results = [await session.run(y, {x: value}) for session in (rewritten, plain)]

    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("axis", [-3, 2])
async def test_convolutions_in_one_dimension_share_no_phases_and_no_pad(axis):
    shape = (1, 3) if axis == -3 else (3, 1)
    w, v = (RNG.uniform(-1, 1, (*shape, 5, 4)).astype(np.float32) for _ in range(2))
    with graph() as made:
        x = feed((2, 16, 5))
        fetches = [atrous_sequence(x, constant(each), 4, axis) for each in (w, v)]
    value = RNG.uniform(-1, 1, (2, 16, 5)).astype(np.float32)

    async with session_on(made, "off") as session:
        found = await session.run(fetches, {x: value})

    assert sorted(kinds(fetches, [x])) == ["Conv2D"] * 2 + ["ExpandDims"] * 2 + ["Squeeze"] * 2
    for each, filter in zip(found, (w, v), strict=True):
        expected, _ = dilated(value[:, None], filter.reshape(1, 3, 5, 4), (1, 4), [(0, 0), (8, 0)])
        np.testing.assert_allclose(each, expected[:, 0], rtol=1e-5, atol=1e-5)


def test_a_depthwise_convolution_of_phases_is_dilated():
    with graph():
        x = feed(IMAGE)
        y = atrous(x, filters(3, 3, 3, 2), kind="DepthwiseConv2dNative")

    assert kinds([y], [x]) == ["DepthwiseConv2dNative"]


@pytest.mark.parametrize(
    "changed",
    [
        {"strides": [1, 2, 2, 1], "crops": ((0, 0), (0, 0))},
        {"padding": "SAME"},
        {"dilations": [1, 2, 2, 1], "crops": ((0, 0), (0, 0))},
        {"crops": ((3, 0), (0, 2))},
    ],
    ids=["strides", "SAME", "dilations", "more cropped than padded"],
)
def test_other_convolutions_of_phases_stay(changed):
    with graph():
        x = feed(IMAGE)
        y = atrous(x, filters(2, 2, 3, 4), **changed)

    assert set(kinds([y], [x])) >= MOVES


def test_phases_that_are_fetched_or_of_unknown_size_stay():
    with graph():
        x, unknown = feed(IMAGE), feed((None, None, None, 3))
        y, z = atrous(x, filters(3, 3, 3, 4)), atrous(unknown, filters(3, 3, 3, 4))
        convolved = y.op.inputs[0]

    assert set(kinds([y, convolved], [x])) >= MOVES
    assert set(kinds([z], [unknown])) >= MOVES


def test_the_toggle_of_the_rewriter_turns_it_off():
    with graph():
        x = feed(IMAGE)
        y = atrous(x, filters(3, 3, 3, 4))

    assert set(kinds([y], [x], DefaultOptions(remapping=False))) >= MOVES
