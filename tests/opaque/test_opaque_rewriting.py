"""Passes that replace several nodes by one: on a device they make only nodes that it has a kernel for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.graph.kernels import kernel_registry
from aioexec.planning.rewriting import winograd
from aioexec.testing.opaque_device import DEVICE_TYPE, OpaqueDeviceFactory
from tests.planning import test_recognition_attention as attention
from tests.planning.recognized import drawn, layer_norm_values, softmax
from tests.tiers import feed, graph, runtime

ROWS = drawn(2, 3, 6)
IMAGE, FILTER, SCALE = drawn(1, 8, 8, 4), drawn(3, 3, 4, 4), drawn(4) + 2


def by_softmax() -> Any:
    x = feed([2, 3, 6])
    e = ax.exp(x - ax.reduce_max(x, -1, keepdims=True))
    return e / ax.reduce_sum(e, -1, keepdims=True), {x: ROWS}, softmax(ROWS)


def by_layer_norm() -> Any:
    x = feed([2, 3, 6])
    centred = x - ax.reduce_mean(x, -1, keepdims=True)
    variance = ax.reduce_mean(ax.square(centred), -1, keepdims=True)
    normalized = centred * ax.rsqrt(variance + 0.125) * np.full(6, 2, np.float32) + np.ones(6, np.float32)
    return normalized, {x: ROWS}, layer_norm_values(ROWS, np.full(6, 2), np.ones(6), 0.125)


def by_attention() -> Any:
    tensors = attention.inputs()
    return attention.bert(tensors), attention.feeds(tensors), attention.expected()


def convolved(image: Any, filter: Any) -> Any:
    """The convolution of an image, padded by zeros."""
    padded = np.pad(image, [(0, 0), (1, 1), (1, 1), (0, 0)])
    return sum(padded[:, i : i + 8, j : j + 8] @ filter[i, j] for i in range(3) for j in range(3))


def by_scales() -> Any:
    x = feed(list(IMAGE.shape))
    padded = ax.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]])
    y = ax.nn.conv2d(padded, ax.constant(FILTER), strides=[1, 1, 1, 1], padding="VALID")
    return (
        y * ax.constant(SCALE) + ax.constant(SCALE),
        {x: IMAGE},
        convolved(IMAGE, FILTER) * SCALE + SCALE,
    )


CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "softmax": (by_softmax, "Softmax"),
    "layer norm": (by_layer_norm, "_LayerNorm"),
    "attention": (by_attention, "_Attention"),
    "scales": (by_scales, "BiasAdd"),
    "winograd": (by_scales, "_WinogradConv2D"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("has_kernel", [False, True])
async def test_a_node_is_made_if_its_device_has_a_kernel(
    opaque: OpaqueDeviceFactory, monkeypatch: pytest.MonkeyPatch, case: str, has_kernel: bool
):
    build, made = CASES[case]
    monkeypatch.setattr(winograd, "LEAST_CHANNELS", 1)
    monkeypatch.setattr(winograd, "LEAST_TILES", 1)
    if not has_kernel:
        kernels = [each for each in kernel_registry._kernels[made] if each.device_type != DEVICE_TYPE]
        monkeypatch.setitem(kernel_registry._kernels, made, kernels)
    with graph() as g:
        y, feeds, expected = build()
    config = ax.ConfigProto(allow_soft_placement=True)
    config.aioexec.jit = "off"
    if case == "winograd":
        config.graph_options.rewrite_options.remapping = config.graph_options.rewrite_options.AGGRESSIVE

    async with ax.Session(graph=g, config=config) as session:
        found = await session.run(y, feeds)
        (executor,) = runtime(session)._by_asked.values()

    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    there = [
        node.row.name
        for partition in executor.plan.partitions
        if DEVICE_TYPE in partition.device
        for node in partition.subgraph.nodes
        if node.feed is None
    ]
    assert (made in there) == has_kernel
