"""Transposed convolutions whose windows do not overlap: products that write lines of the image."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.devices.jit.panels import vector_bytes
from aioexec.graph.kernels.kernel import Spec
from aioexec.ops.convolution import conv, input_gradients, loops
from aioexec.ops.convolution.windows import make_axes
from tests.ops.convolution.launched import run_in_python
from tests.tiers import constant, graph, op_of_each_row, programs, share_all

Array = np.ndarray[Any, Any]

CASES: dict[str, tuple[tuple[int, ...], tuple[int, int], int]] = {
    "whole panels": ((2, 5, 6, 40), (2, 2), 16),
    "panels that taps share": ((1, 4, 21, 40), (3, 2), 13),
    "few elements": ((3, 2, 3, 5), (1, 3), 2),
}


def attributes(window: tuple[int, int]) -> dict[str, Any]:
    return {
        "strides": (1, *window, 1),
        "dilations": (1, 1, 1, 1),
        "data_format": "NHWC",
        "padding": "SAME",
    }


def drawn(case: str) -> tuple[Array, Array, tuple[int, ...]]:
    """The images, the filters, and the shape of the result."""
    shape, window, c = CASES[case]
    rng = np.random.default_rng(5)
    result = shape[0], shape[1] * window[0], shape[2] * window[1], c
    return rng.standard_normal(shape), rng.standard_normal((*window, c, shape[3])) / 4, result


def by_hand(x: Array, filters: Array) -> Array:
    """Each element of x spreads its window."""
    windows = np.einsum("bhwn,ijcn->bhiwjc", x, filters)
    batch, h, i, w, j, c = windows.shape
    return windows.reshape(batch, h * i, w * j, c)


@pytest.mark.parametrize("packs", [False, True])
@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("case", CASES)
def test_the_loop_runs_as_plain_python_in_shares(case, lanes, packs):
    x, filters, shape = drawn(case)
    inputs = [np.array(shape), filters, x]

    found = run_in_python(
        input_gradients.bind_input, attributes(CASES[case][1]), inputs, shape, lanes, may_be_packed=packs
    )

    np.testing.assert_allclose(found, by_hand(x, filters), rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES)
async def test_bias_and_rectifier_are_applied_by_the_kernel_with_equal_bits_for_any_workers(
    monkeypatch, case, dtype
):
    share_all(monkeypatch)
    x, filters, shape = drawn(case)
    bias = np.random.default_rng(6).standard_normal(shape[3])
    strides = attributes(CASES[case][1])["strides"]
    found = []
    for workers in (1, 3):
        config = ax.ConfigProto(intra_op_parallelism_threads=workers, use_per_session_threads=True)
        config.aioexec.jit = "eager"
        with graph() as made:
            fed = ax.placeholder(dtype, x.shape)
            y = ax.nn.conv2d_transpose(fed, constant(filters, dtype), shape, strides)
            fetched = ax.nn.relu(ax.nn.bias_add(y, constant(bias, dtype)))
        async with ax.Session(graph=made, config=config) as session:
            found.append(await session.run(fetched, {fed: x.astype(dtype)}))
            (program,) = programs(session)
            assert set(op_of_each_row(program)) == {"Conv2DBackpropInput"}

    tolerance = 1e-5 if dtype == "float32" else 1e-12
    np.testing.assert_array_equal(*found)
    expected = np.maximum(by_hand(x, filters) + bias, 0)
    np.testing.assert_allclose(found[0], expected, rtol=tolerance, atol=tolerance)


@pytest.mark.skipif(not vector_bytes(), reason="products are left to BLAS")
@pytest.mark.parametrize(
    ("c", "n", "packs"), [(32, 64, True), (64, 32, True), (24, 64, False), (32, 4, False)]
)
def test_constant_filters_are_packed_if_those_of_a_line_of_taps_are_whole_panels(c, n, packs):
    shapes = (4,), (2, 2, c, n), (1, 8, 8, n)
    sizes, filters, dy = (
        Spec(np.dtype(kind), shape, may_be_packed=kind == "f4")
        for kind, shape in zip(("i4", "f4", "f4"), shapes, strict=True)
    )
    attrs = attributes((2, 2))

    made = input_gradients.bind_input(attrs, [sizes, filters, dy], [Spec(np.dtype("f4"), (1, 16, 16, c))])

    assert made is not None
    assert made.rows[-1].kernel.body is loops.enlarge
    assert bool(made.packed) == packs
    assert len(made.rows) == (1 if packs else 2)


@pytest.mark.parametrize(
    "changed",
    [
        {"strides": (1, 1, 2, 1)},
        {"dilations": (1, 2, 1, 1)},
        {"padding": "EXPLICIT", "explicit_paddings": (0, 0, 1, 1, 0, 0, 0, 0)},
        {"padding": "VALID"},
    ],
)
def test_images_with_overlaps_gaps_or_padding_are_added_to_window_by_window(changed):
    attrs = attributes((2, 2)) | changed
    shape = (1, 9, 8, 16)
    axes = make_axes(attrs, shape, (2, 2))
    rng = np.random.default_rng(7)
    dy = rng.standard_normal((1, axes[0].count, axes[1].count, 12))
    filters = rng.standard_normal((2, 2, 16, 12))

    found = run_in_python(input_gradients.bind_input, attrs, [np.array(shape), filters, dy], shape, 1)

    np.testing.assert_allclose(found, conv.spread(filters, dy, axes), rtol=1e-11, atol=1e-12)
