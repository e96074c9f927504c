"""Pads become explicit paddings of the convolutions behind them, if nothing else uses the padded image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from aioexec.planning.passes import DefaultOptions, Grouping, optimization_passes
from tests.planning.planned import Binder, by_name, pruned
from tests.tiers import constant, feed, graph, op, session_on

SHAPE = 2, 7, 6, 4
RNG = np.random.default_rng(2)
VALUE = RNG.uniform(-1, 1, SHAPE).astype(np.float32)
FILTERS = RNG.uniform(-1, 1, (3, 3, 4, 5)).astype(np.float32)
ONE = [[0, 0], [1, 2], [0, 1], [0, 0]]


def pad(x: Any, paddings: Any = ONE) -> Any:
    return op("Pad", x, constant(paddings, "int32"), name="pad")


def conv(x: Any, kind: str = "Conv2D", padding: str = "VALID", order: str = "NHWC", stride: int = 2) -> Any:
    strides = [1, stride, stride, 1] if order == "NHWC" else [1, 1, stride, stride]
    attrs = {"strides": strides, "padding": padding, "data_format": order}
    return op(kind, x, constant(FILTERS), **attrs, name="conv")


def kinds(fetches: list[Any], feeds: list[Any], options: DefaultOptions | None = None) -> list[str]:
    """The ops that run."""
    subgraph = pruned(fetches, feeds)
    optimization_passes.run_grouping(
        Grouping.POST_REWRITE_FOR_EXEC, subgraph, Binder(), options or DefaultOptions()
    )
    subgraph.check_invariants()
    return [node.op.type for node in subgraph.nodes if node.feed is None and not node.is_constant]


@pytest.mark.parametrize("kind", ["Conv2D", "DepthwiseConv2dNative"])
@pytest.mark.parametrize("jit", ["off", "eager"])
async def test_a_pad_becomes_padding_of_the_convolution(kind, jit):
    with graph() as made:
        x, padded = feed(SHAPE), feed((2, 10, 7, 4))
        y, apart = conv(pad(x), kind), conv(padded, kind)

    async with session_on(made, jit) as session:
        found = await session.run(y, {x: VALUE})
        expected = await session.run(apart, {padded: np.pad(VALUE, ONE)})

    assert kinds([y], [x]) == [kind]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


async def test_pads_of_a_chain_are_all_folded():
    with graph() as made:
        x = feed((1, 5, 5, 5))
        square = constant(RNG.uniform(-1, 1, (3, 3, 5, 5)))
        attrs: dict[str, Any] = {"strides": [1] * 4, "padding": "VALID"}
        y = x
        for _ in range(3):
            y = op("Conv2D", pad(y, [[0, 0], [1, 1], [1, 1], [0, 0]]), square, **attrs)
        same = x
        for _ in range(3):
            same = op("Conv2D", same, square, strides=[1] * 4, padding="SAME")
    value = RNG.uniform(-1, 1, (1, 5, 5, 5)).astype(np.float32)

    async with session_on(made, "off") as session:
        found, expected = await session.run(y, {x: value}), await session.run(same, {x: value})

    assert kinds([y], [x]) == ["Conv2D"] * 3
    np.testing.assert_array_equal(found, expected)


def test_channels_first_are_padded_in_their_order():
    with graph():
        x = feed((2, 4, 7, 6))
        y = conv(pad(x, [[0, 0], [0, 0], [3, 1], [0, 2]]), order="NCHW")
    subgraph = pruned([y], [x])

    optimization_passes.run_grouping(Grouping.POST_REWRITE_FOR_EXEC, subgraph, Binder())

    assert by_name(subgraph)["conv"].op.attrs["explicit_paddings"] == (0, 0, 0, 0, 3, 1, 0, 2)


async def test_a_pad_before_convolutions_in_one_dimension_is_folded_into_each_of_them():
    with graph() as made:
        x, padded = feed((2, 9, 6)), feed((2, 13, 6))
        filters = constant(RNG.uniform(-1, 1, (1, 3, 6, 5)))

        def convolved(image: Any) -> Any:
            expanded = op("ExpandDims", image, constant(-3, "int32"))
            return op("Conv2D", expanded, filters, strides=[1] * 4, padding="VALID")

        causal = op("Pad", x, constant([[0, 0], [4, 0], [0, 0]], "int32"))
        fetches = [convolved(causal), op("Neg", convolved(causal))]
        apart = [convolved(padded), op("Neg", convolved(padded))]
    value = RNG.uniform(-1, 1, (2, 9, 6)).astype(np.float32)

    async with session_on(made, "off") as session:
        found = await session.run(fetches, {x: value})
        expected = await session.run(apart, {padded: np.pad(value, [[0, 0], [4, 0], [0, 0]])})

    assert "Pad" not in kinds(fetches, [x])
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_explicit_paddings_are_added():
    with graph():
        x = feed(SHAPE)
        attrs = {"strides": [1] * 4, "padding": "EXPLICIT", "explicit_paddings": (0, 0, 2, 0, 0, 1, 0, 0)}
        y = op("Conv2D", pad(x), constant(FILTERS), **attrs, name="conv")
    subgraph = pruned([y], [x])

    optimization_passes.run_grouping(Grouping.POST_REWRITE_FOR_EXEC, subgraph, Binder())

    assert by_name(subgraph)["conv"].op.attrs["explicit_paddings"] == (0, 0, 3, 2, 0, 2, 0, 0)


def twice(x: Any) -> Any:
    padded = pad(x)
    return op(
        "AddV2",
        op("Sum", conv(padded), constant([0, 1, 2, 3], "int32")),
        op("Max", padded, constant(0, "int32")),
    )


@pytest.mark.parametrize(
    "build",
    [
        twice,
        lambda x: conv(pad(x), padding="SAME"),
        lambda x: conv(pad(x, [[1, 0], [1, 1], [1, 1], [0, 0]])),
        lambda x: conv(op("MirrorPad", x, constant(ONE, "int32"), mode="REFLECT")),
        lambda x: conv(op("PadV2", x, constant(ONE, "int32"), constant(1.0))),
    ],
    ids=["used twice", "SAME", "batch", "mirrored", "not zero"],
)
def test_other_pads_stay(build: Callable[[Any], Any]):
    with graph():
        x = feed(SHAPE)
        y = build(x)

    assert any("Pad" in kind for kind in kinds([y], [x]))


def test_a_pad_that_is_fetched_or_whose_paddings_are_fed_stays():
    with graph():
        x, paddings = feed(SHAPE), feed([4, 2], "int32")
        padded = pad(x)
        y = conv(padded)
        z = conv(op("Pad", x, paddings))

    assert kinds([y, padded], [x]) == ["Pad", "Conv2D"]
    assert kinds([z], [x, paddings]) == ["Pad", "Conv2D"]


def test_the_toggle_of_the_rewriter_turns_it_off():
    with graph():
        x = feed(SHAPE)
        y = conv(pad(x))

    assert kinds([y], [x], DefaultOptions(remapping=False)) == ["Pad", "Conv2D"]
