"""Scales and shifts of channels are folded into constant filters where nothing else uses the values between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.planning.passes import DefaultOptions, Grouping, optimization_passes
from aioexec.planning.subgraph import Subgraph
from tests.planning.planned import Binder, by_name, names, plan, pruned
from tests.tiers import constant, feed, graph, op, session_on

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(7)
N = 6


def drawn(*shape: int, low: float = -1.0, high: float = 1.0, dtype: str = "float32") -> Array:
    return RNG.uniform(low, high, shape).astype(dtype)


SCALE, OFFSET, MEAN, VARIANCE = drawn(N, low=0.5, high=2), drawn(N), drawn(N), drawn(N, low=0.2, high=2)
EPSILON = 0.001


def conv(x: Any, order: str = "NHWC", dtype: str = "float32") -> Any:
    filters = constant(drawn(3, 3, 4, N, dtype=dtype), dtype)
    return op("Conv2D", x, filters, strides=[1] * 4, padding="SAME", data_format=order, name="conv")


def depthwise(x: Any) -> Any:
    filters = constant(drawn(3, 3, 3, 2))
    return op("DepthwiseConv2dNative", x, filters, strides=[1] * 4, padding="SAME", name="conv")


def product(x: Any, transpose: bool = False) -> Any:
    b = constant(drawn(N, 4) if transpose else drawn(4, N))
    return op("MatMul", x, b, transpose_b=transpose, name="conv")


def batch_norm(
    y: Any, version: str = "V3", order: str = "NHWC", training: bool = False, operands: Any = None
) -> Any:
    vectors = operands or [constant(each) for each in (SCALE, OFFSET, MEAN, VARIANCE)]
    attrs = {"epsilon": EPSILON, "data_format": order, "is_training": training}
    return op(f"FusedBatchNorm{version}", y, *vectors, **attrs, name="bn")[0]


def normalized(y: Array) -> Array:
    """What batch normalisation makes of channels-last values, by its definition."""
    wide = (y.astype(np.float64) - MEAN) / np.sqrt(VARIANCE.astype(np.float64) + EPSILON)
    return np.asarray(wide * SCALE + OFFSET)


def written_out(y: Any) -> Any:
    """As `tf.nn.batch_normalization` writes it."""
    root = op("Rsqrt", op("AddV2", constant(VARIANCE), constant(EPSILON)))
    inverse = op("Mul", root, constant(SCALE))
    shift = op("Sub", constant(OFFSET), op("Mul", constant(MEAN), inverse))
    return op("AddV2", op("Mul", y, inverse), shift, name="bn")


def by_quotient(y: Any) -> Any:
    root = op("Sqrt", op("AddV2", constant(VARIANCE), constant(EPSILON)))
    centred = op("RealDiv", op("Sub", y, constant(MEAN)), root)
    return op("Add", constant(OFFSET), op("Mul", constant(SCALE), centred), name="bn")


def optimised(fetches: list[Any], feeds: list[Any], options: DefaultOptions | None = None) -> Subgraph:
    subgraph = pruned(fetches, feeds)
    optimization_passes.run_grouping(
        Grouping.POST_REWRITE_FOR_EXEC, subgraph, Binder(), options or DefaultOptions()
    )
    subgraph.check_invariants()
    return subgraph


def kinds(subgraph: Subgraph) -> list[str]:
    """The ops that run."""
    return [node.op.type for node in subgraph.nodes if node.feed is None and not node.is_constant]


async def both(made: Any, x: Any, linear: Any, y: Any, value: Array, jit: str = "off") -> tuple[Array, Array]:
    """The linear operation by itself, and the end of the chain, each fetched alone."""
    async with session_on(made, jit) as session:
        return np.asarray(await session.run(linear, {x: value})), np.asarray(await session.run(y, {x: value}))


# It fires


@pytest.mark.parametrize("tail", [batch_norm, written_out, by_quotient])
@pytest.mark.parametrize(
    ("linear", "shape"),
    [
        (conv, (2, 5, 4, 4)),
        (depthwise, (2, 5, 4, 3)),
        (product, (7, 4)),
        (lambda x: product(x, transpose=True), (7, 4)),
    ],
    ids=["conv", "depthwise", "product", "transposed"],
)
@pytest.mark.parametrize("jit", ["off", "eager"])
async def test_constant_batch_normalisation_becomes_filter_and_bias(linear, shape, tail, jit):
    if len(shape) == 2 and tail is batch_norm:
        tail = written_out  # FusedBatchNorm is for images
    with graph() as made:
        x = feed(shape)
        before = linear(x)
        y = tail(before)

    subgraph = optimised([y], [x])
    found, result = await both(made, x, before, y, drawn(*shape), jit)

    assert kinds(subgraph) == [before.op.type, "BiasAdd"]
    assert names(subgraph)[-1] == "bn"
    np.testing.assert_allclose(result, normalized(found), rtol=0, atol=2e-6 * abs(found).max())


@pytest.mark.parametrize("version", ["", "V2", "V3"])
def test_every_version_of_batch_normalisation_is_folded(version):
    with graph():
        x = feed((None, 5, 4, 4))
        y = op("Relu", batch_norm(conv(x), version), name="y")

    assert kinds(optimised([y], [x])) == ["Conv2D", "BiasAdd", "Relu"]


async def test_channels_first_are_folded_too():
    with graph() as made:
        x = feed((2, 4, 5, 3))
        before = conv(x, "NCHW")
        y = batch_norm(before, order="NCHW")
        scaled = op("Mul", conv(x, "NCHW"), constant(SCALE[:, None, None]), name="scaled")

    subgraph = optimised([y], [x])
    value = drawn(2, 4, 5, 3)
    found, result = await both(made, x, before, y, value)

    assert kinds(subgraph) == ["Conv2D", "BiasAdd"]
    assert by_name(subgraph)["bn"].op.attrs["data_format"] == "NCHW"
    expected = np.moveaxis(normalized(np.moveaxis(found, 1, -1)), -1, 1)
    np.testing.assert_allclose(result, expected, rtol=0, atol=2e-6 * abs(found).max())
    assert kinds(optimised([scaled], [x])) == ["Conv2D"]


async def test_a_bias_before_and_after_is_folded_into_one():
    with graph() as made:
        x = feed((2, 5, 4, 4))
        before = conv(x)
        biased = op("BiasAdd", before, constant(MEAN))
        y = op("Add", batch_norm(op("Mul", biased, constant(2.0))), constant(0.25), name="y")

    subgraph = optimised([y], [x])
    found, result = await both(made, x, before, y, drawn(2, 5, 4, 4))

    assert kinds(subgraph) == ["Conv2D", "BiasAdd"]
    expected = normalized((found.astype(np.float64) + MEAN) * 2) + 0.25
    np.testing.assert_allclose(result, expected, rtol=0, atol=4e-6 * abs(found).max())


async def test_a_scale_alone_leaves_no_bias():
    with graph() as made:
        x = feed((7, 4))
        before = product(x)
        y = op("Mul", before, constant(0.125), name="y")

    subgraph = optimised([y], [x])
    found, result = await both(made, x, before, y, drawn(7, 4))

    assert kinds(subgraph) == ["MatMul"]
    np.testing.assert_array_equal(result, found * np.float32(0.125))


async def test_constants_may_come_through_identities_and_in_double_precision():
    with graph() as made:
        x = feed((2, 5, 4, 4), "float64")
        filters = op("Identity", op("Identity", constant(drawn(3, 3, 4, N), "float64")))
        before = op("Conv2D", x, filters, strides=[1] * 4, padding="VALID", name="conv")
        y = op("Mul", before, op("Identity", constant(SCALE, "float64")), name="y")

    found, result = await both(made, x, before, y, drawn(2, 5, 4, 4, dtype="float64"))

    assert kinds(optimised([y], [x])) == ["Conv2D"]
    np.testing.assert_allclose(
        result, found * SCALE.astype(np.float64), rtol=0, atol=1e-14 * abs(found).max()
    )


def test_the_rest_of_a_chain_stays_behind_a_value_that_is_fetched():
    with graph():
        x = feed((2, 5, 4, 4))
        first = batch_norm(conv(x))
        y = op("Mul", first, constant(SCALE), name="y")

    assert kinds(optimised([y, first], [x])) == ["Conv2D", "BiasAdd", "Mul"]


async def test_the_result_may_have_any_uses():
    with graph() as made:
        x = feed((2, 5, 4, 4))
        before = conv(x)
        bn = batch_norm(before)
        with made.control_dependencies([bn.op]):
            after = op("Identity", x, name="after")
        y = op("Add", op("Relu", bn), bn, name="y")
        z = op("Mul", after, constant(1.0), name="z")

    subgraph = optimised([y, z, bn], [x])

    assert kinds(subgraph).count("FusedBatchNormV3") == 0
    assert [each.name for each in by_name(subgraph)["after"].controls] == ["bn"]


def test_signatures_of_a_graph_share_the_folded_filter():
    with graph():
        x = feed((2, 5, 4, 4))
        y = batch_norm(conv(x))
        z = op("Relu", y, name="z")

    first, second = (by_name(optimised([each], [x]))["conv/folded"].values for each in (y, z))

    assert first is not None
    assert second is not None
    assert first[0] is second[0]


# It must not


def unfolded(
    build: Callable[[Any, Any], Any], *also: str, options: DefaultOptions | None = None
) -> list[str]:
    """The ops that run of what is built on x, if tensors named `also` are fetched too."""
    with graph() as made:
        x = feed((2, 5, 4, 4))
        y = build(made, x)
        fetches = [y, *map(made.get_tensor_by_name, also)]
    return kinds(optimised(fetches, [x], options))


def test_statistics_of_the_batch_are_not_constant():
    assert "FusedBatchNormV3" in unfolded(lambda _, x: batch_norm(conv(x), training=True))


def test_operands_that_are_fed_are_not_constant():
    with graph():
        x, factors, filters = feed((2, 5, 4, 4)), feed([N]), feed((3, 3, 4, N))
        y = op("Mul", conv(x), factors)
        z = op("Mul", op("Conv2D", x, filters, strides=[1] * 4, padding="SAME"), constant(SCALE))

    assert kinds(optimised([y], [x, factors])) == ["Conv2D", "Mul"]
    assert kinds(optimised([z], [x, filters])) == ["Conv2D", "Mul"]


def test_a_constant_that_is_fed_is_not_folded():
    with graph():
        x, factors = feed((2, 5, 4, 4)), constant(SCALE)
        y = op("Mul", conv(x), factors)

    assert kinds(optimised([y], [x, factors])) == ["Conv2D", "Mul"]


def test_a_convolution_that_is_fetched_or_used_twice_stays():
    def twice(_: Any, x: Any) -> Any:
        made = conv(x)
        return op("Add", batch_norm(made), op("Relu", made))

    assert unfolded(lambda _, x: batch_norm(conv(x)), "conv:0") == ["Conv2D", "FusedBatchNormV3"]
    assert "FusedBatchNormV3" in unfolded(twice)


def test_other_outputs_of_batch_normalisation_need_it():
    assert "FusedBatchNormV3" in unfolded(lambda _, x: batch_norm(conv(x)), "bn:1")


def test_nothing_is_folded_across_control_edges():
    def waited_for(made: Any, x: Any) -> Any:
        y = conv(x)
        with made.control_dependencies([y.op]):
            late = op("Identity", x, name="late")
        return op("Add", op("Relu", batch_norm(y)), op("Sum", late, constant([0, 1, 2, 3], "int32")))

    def waiting(made: Any, x: Any) -> Any:
        y, two, other = conv(x), constant(2.0), op("NoOp", name="other")
        with made.control_dependencies([other]):
            return op("Mul", y, two)

    assert "FusedBatchNormV3" in unfolded(waited_for)
    assert unfolded(waiting) == ["Conv2D", "NoOp", "Mul"]


def test_nothing_is_folded_across_devices():
    with graph():
        x = feed((2, 5, 4, 4))
        y = op("Mul", conv(x), constant(SCALE), name="y")
    subgraph = pruned([y], [x])
    by_name(subgraph)["y"].device = "/device:CPU:1"

    optimization_passes.run_grouping(Grouping.POST_REWRITE_FOR_EXEC, subgraph, Binder())

    assert kinds(subgraph) == ["Conv2D", "Mul"]


@pytest.mark.parametrize(
    "operand",
    [drawn(4, 1), drawn(5, 1, 1), drawn(2, 1, 1, 1), drawn(1, 1, 1, 1, N), drawn(5, 4, N)],
    ids=lambda each: str(each.shape),
)
def test_an_operand_that_varies_along_other_dimensions_stays(operand):
    assert unfolded(lambda _, x: op("Mul", conv(x), constant(operand))) == ["Conv2D", "Mul"]


def test_a_bias_alone_stays_as_it_is():
    built = unfolded(lambda _, x: op("Add", op("BiasAdd", conv(x), constant(MEAN)), constant(OFFSET)))

    assert built == ["Conv2D", "BiasAdd", "Add"]


def test_another_order_of_dimensions_is_not_folded():
    with graph():
        x = feed((2, 4, N, 5))
        filters = constant(drawn(3, 3, 4, N))
        y = op("Conv2D", x, filters, strides=[1] * 4, padding="SAME", data_format="NCHW")
        z = batch_norm(y, order="NHWC", operands=[constant(np.ones(5)) for _ in range(4)])

    assert kinds(optimised([z], [x])) == ["Conv2D", "FusedBatchNormV3"]


@pytest.mark.parametrize("scale", [np.inf, np.nan, 3e38])
def test_scales_that_are_not_finite_stay_operations(scale):
    factors = SCALE.copy()
    factors[2] = scale

    def build(_: Any, x: Any) -> Any:
        return op("Mul", op("Mul", conv(x), constant(factors)), constant(100.0))

    assert unfolded(build) == ["Conv2D", "Mul", "Mul"]
    assert unfolded(lambda _, x: op("RealDiv", conv(x), constant(0.0))) == ["Conv2D", "RealDiv"]


def test_constants_minus_a_value_and_half_precision_stay():
    assert unfolded(lambda _, x: op("Mul", op("Sub", constant(1.0), conv(x)), constant(2.0))) == [
        "Conv2D",
        "Sub",
        "Mul",
    ]
    with graph():
        x = feed((7, 4), "float16")
        y = op("Mul", op("MatMul", x, constant(drawn(4, N), "float16")), constant(2.0, "float16"))
    assert kinds(optimised([y], [x])) == ["MatMul", "Mul"]


def test_a_large_filter_is_not_copied(monkeypatch):
    monkeypatch.setattr("aioexec.planning.rewriting.channel_scales.LARGEST_FOLDED", 3 * 3 * 4 * N * 4 - 1)

    assert unfolded(lambda _, x: batch_norm(conv(x))) == ["Conv2D", "FusedBatchNormV3"]


def test_the_toggle_of_the_rewriter_turns_it_off():
    off = DefaultOptions(remapping=False)

    assert unfolded(lambda _, x: batch_norm(conv(x)), options=off) == ["Conv2D", "FusedBatchNormV3"]


@pytest.mark.parametrize("field", ["remapping", "disable_meta_optimizer"])
async def test_a_session_reads_the_toggle(field):
    config = ax.ConfigProto()
    config.aioexec.jit = "off"
    rewriter = config.graph_options.rewrite_options
    setattr(rewriter, field, rewriter.OFF if field == "remapping" else True)
    with graph() as made:
        x = feed((1, 5, 4, 4))
        y = batch_norm(conv(x))

    async with ax.Session(graph=made, config=config) as session:
        metadata = ax.RunMetadata()
        options = ax.RunOptions(output_partition_graphs=True)
        await session.run(y, {x: drawn(1, 5, 4, 4)}, options=options, run_metadata=metadata)

    ops = {node.op for part in metadata.partition_graphs for node in part.node}
    assert "FusedBatchNormV3" in ops


# Around it


def test_what_was_folded_is_exported_as_it_runs():
    with graph():
        x = feed((2, 5, 4, 4))
        y = batch_norm(conv(x))

    made = plan([y], [x])

    assert [node.name for node in made.subgraph.nodes if node.is_constant] == ["conv/folded", "bn/folded"]


async def test_gradients_through_constant_statistics_are_as_before():
    value = drawn(2, 5, 4, 4)
    factors = SCALE.astype(np.float64) / np.sqrt(VARIANCE.astype(np.float64) + EPSILON)
    with graph() as made:
        x = feed(value.shape)
        y = conv(x)
        bn = batch_norm(y)
        (slope,) = ax.gradients(bn, x)
        (expected,) = ax.gradients(y, x, [constant(np.broadcast_to(factors, (2, 5, 4, N)))])

    async with session_on(made, "off") as session:
        found, wanted = await session.run([slope, expected], {x: value})

    assert "FusedBatchNormV3" in kinds(optimised([bn, slope], [x]))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-6 * abs(wanted).max())
