"""Convolutions of 3 × 3 windows become Winograd's where the session allows it, with errors within a stated bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.formats.protos import RewriterConfig
from aioexec.graph.kernels import kernel_registry
from aioexec.ops.convolution import conv
from aioexec.ops.convolution.windows import make_axes
from aioexec.planning.passes import DefaultOptions, Grouping, optimization_passes
from aioexec.planning.rewriting import winograd
from aioexec.planning.subgraph import Subgraph
from tests.planning.planned import Binder, pruned
from tests.tiers import constant, feed, graph, op, op_of_each_row, programs, share_all

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(5)
SHAPE, N = (2, 26, 28, 33), 35
ATTRS: dict[str, Any] = {"strides": [1] * 4, "padding": "SAME"}


def convolution(x: Any, filters: Any, **attrs: Any) -> Any:
    return op("Conv2D", x, filters, **{**ATTRS, **attrs}, name="conv")


def filters_of(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype("float32")


def optimised(y: Any, x: Any, aggressive: bool = True, device: str = "") -> Subgraph:
    subgraph = pruned([y], [x])
    for node in subgraph.nodes:
        node.device = device or node.device
    options = DefaultOptions(aggressive_remapping=aggressive)
    optimization_passes.run_grouping(Grouping.POST_REWRITE_FOR_EXEC, subgraph, Binder(), options)
    subgraph.check_invariants()
    return subgraph


def kinds(y: Any, x: Any, aggressive: bool = True) -> set[str]:
    """The ops of the nodes after the passes, but for constants and feeds."""
    nodes = optimised(y, x, aggressive).nodes
    return {node.row.name for node in nodes if node.feed is None} - {"Const"}


@pytest.mark.parametrize("batch", [None, 2])
def test_a_large_convolution_with_constant_filters_is_replaced(batch):
    with graph():
        x = feed((batch, *SHAPE[1:]))
        y = convolution(x, constant(filters_of(3, 3, SHAPE[3], N)))

        assert kinds(y, x) == {"_WinogradConv2D"}
        assert kinds(y, x, aggressive=False) == {"Conv2D"}


@pytest.mark.parametrize(
    ("shape", "filters", "attrs"),
    [
        (SHAPE, (3, 3, 33, 35), {"strides": [1, 2, 2, 1]}),
        (SHAPE, (3, 3, 33, 35), {"dilations": [1, 2, 2, 1]}),
        (SHAPE, (3, 5, 33, 35), {}),
        (SHAPE, (3, 3, 33, 31), {}),
        ((2, 26, 28, 31), (3, 3, 31, 35), {}),
        ((2, 26, 28, 66), (3, 3, 33, 36), {}),
        ((2, 24, 28, 33), (3, 3, 33, 35), {}),
        ((2, None, 28, 33), (3, 3, 33, 35), {}),
        ((2, 28, 28, 192), (3, 3, 192, 192), {}),
        ((2, 33, 26, 28), (3, 3, 33, 35), {"data_format": "NCHW"}),
    ],
)
def test_any_other_convolution_stays(shape, filters, attrs):
    with graph():
        x = feed(shape)
        y = convolution(x, constant(filters_of(*filters)), **attrs)

        assert kinds(y, x) == {"Conv2D"}


def test_a_convolution_on_a_device_without_a_kernel_for_the_other_op_stays(monkeypatch):
    monkeypatch.setattr(kernel_registry, "_kernels", {})
    kernel_registry.register_kernel("Conv2D", "GPU", lambda context: lambda launcher, x, filters: None)
    monkeypatch.setattr(winograd, "transform_filters", lambda filter: pytest.fail("they were transformed"))
    with graph():
        x = feed(SHAPE)
        y = convolution(x, constant(filters_of(3, 3, SHAPE[3], N)))

        found = optimised(y, x, device="/job:localhost/replica:0/task:0/device:GPU:0")

        assert "Conv2D" in {node.row.name for node in found.nodes if node.feed is None}


def test_filters_that_are_no_finite_constants_of_single_precision_stay():
    infinite = filters_of(3, 3, SHAPE[3], N)
    infinite[1, 1, 2, 3] = np.inf
    with graph():
        x, wide, given = feed(SHAPE), feed(SHAPE, "float64"), feed((3, 3, SHAPE[3], N))

        assert kinds(convolution(x, constant(infinite)), x) == {"Conv2D"}
        assert kinds(convolution(wide, constant(np.ones_like(infinite), "float64")), wide) == {"Conv2D"}
        assert "Conv2D" in kinds(convolution(x, given), x)


def test_plans_of_a_graph_share_transformed_filters():
    def transformed(y: Any, x: Any) -> Any:
        (node,) = (node for node in optimised(y, x).nodes if node.row.name == "_WinogradConv2D")
        values = node.inputs[1][0].values
        assert values is not None
        return values[0]

    with graph():
        x = feed(SHAPE)
        y = convolution(x, constant(filters_of(3, 3, SHAPE[3], N)))

        assert transformed(y, x) is transformed(y, x)


DATA = {
    "normal": lambda shape: RNG.standard_normal(shape),
    "rectified": lambda shape: np.maximum(RNG.standard_normal(shape) - 1, 0),
    "of one sign": lambda shape: RNG.uniform(0, 1, shape),
    "with outliers": lambda shape: RNG.standard_t(3, shape),
}


async def results(
    x: Array, filters: Array, bias: Array, workers: int, jit: str = "eager"
) -> tuple[Array, set[str]]:
    """The convolution with bias and ReLU6, and the ops of the rows of its program."""
    config = ax.ConfigProto(intra_op_parallelism_threads=workers, use_per_session_threads=True)
    config.aioexec.jit = jit
    config.graph_options.rewrite_options.remapping = RewriterConfig.AGGRESSIVE
    with graph() as made:
        image = feed(x.shape)
        y = op("Relu6", op("BiasAdd", convolution(image, constant(filters)), constant(bias)))
    async with ax.Session(graph=made, config=config) as session:
        found = await session.run(y, {image: x})
        kinds = (
            set() if jit == "off" else {kind for made in programs(session) for kind in op_of_each_row(made)}
        )
    return found, kinds


@pytest.mark.slow
@pytest.mark.parametrize("jit", ["eager", "off"])
@pytest.mark.parametrize("data", DATA)
async def test_errors_are_within_the_bound_of_a_sum_in_any_order(data, jit):
    """The bound of a sum of k products is k half units of the last place of the sum of their absolute values."""
    x, filters = DATA[data](SHAPE).astype("float32"), filters_of(3, 3, SHAPE[3], N)
    filters /= np.float32(np.sqrt(9 * SHAPE[3]) * np.abs(x).max())
    bias = np.full(N, 3, np.float32)

    found, ops = await results(x, filters, bias, 1, jit)

    axes = make_axes({**ATTRS, "dilations": [1] * 4, "data_format": "NHWC"}, x.shape, filters.shape)
    exact = conv.correlate(x.astype("f8"), filters.astype("f8"), axes) + bias
    sizes = conv.correlate(np.abs(x).astype("f8"), np.abs(filters).astype("f8"), axes) + bias
    bound = 9 * SHAPE[3] * 2.0**-24 * sizes + 8 * np.spacing(np.abs(exact).astype("f4"))
    assert ops <= {"_WinogradConv2D"}
    assert np.all(np.abs(found - np.clip(exact, 0, 6)) <= bound)


@pytest.mark.slow
async def test_bits_do_not_depend_on_the_number_of_workers(monkeypatch):
    share_all(monkeypatch)
    x, filters, bias = (
        RNG.standard_normal(SHAPE).astype("float32"),
        filters_of(3, 3, SHAPE[3], N),
        filters_of(N),
    )

    (alone, ops), (together, _) = [await results(x, filters, bias, workers) for workers in (1, 3)]

    assert ops == {"_WinogradConv2D"}
    assert alone.tobytes() == together.tobytes()
