"""Depthwise convolution with sums in registers: the loops in plain Python, filters that are not finite, epilogues, workers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import aioexec as ax
from aioexec.graph.kernels.kernel import LoopKernel, Spec
from aioexec.ops.common import shares
from aioexec.ops.convolution import depthwise, depthwise_launches, depthwise_loops, depthwise_rows
from aioexec.ops.convolution.windows import make_axes
from aioexec.planning.layout import variant_builder
from tests.ops.convolution.launched import run_in_python
from tests.tiers import graph, op, op_of_each_row, programs, share_all

Array = np.ndarray[Any, Any]


def attributes(stride: int = 1, dilation: int = 1, padding: Any = "SAME") -> dict[str, Any]:
    """The attributes of a node; `padding` may be the elements before and after, along both axes."""
    explicit = () if isinstance(padding, str) else (0, 0, *padding, *padding, 0, 0)
    return {
        "strides": (1, stride, stride, 1),
        "dilations": (1, dilation, dilation, 1),
        "padding": padding if isinstance(padding, str) else "EXPLICIT",
        "explicit_paddings": explicit,
        "data_format": "NHWC",
    }


def expected(attrs: Any, x: Array, filters: Array) -> Array:
    return depthwise.correlate(x, filters, make_axes(attrs, x.shape, filters.shape))


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([0, depthwise_rows.NEAR]),
    st.sampled_from([0, 2**30]),
    st.tuples(st.integers(1, 2), st.integers(1, 7), st.integers(1, 13), st.integers(16, 21)),
    st.tuples(st.integers(1, 5), st.sampled_from([3, 5])),
    st.integers(1, 3),
    st.integers(1, 2),
    st.one_of(st.just("SAME"), st.tuples(st.integers(0, 4), st.integers(0, 4))),
    st.sampled_from([1, 3]),
    st.randoms(use_true_random=False),
)
def test_the_loops_run_as_plain_python_in_shares(
    near, far, shape, taps, stride, dilation, padding, lanes, random
):
    attrs = attributes(stride, dilation, padding)
    rng = np.random.default_rng(random.randrange(2**32))
    x, filters = rng.standard_normal(shape), rng.standard_normal((*taps, shape[-1], 1))
    if any(size + sum(padding) < (count - 1) * dilation + 1 for size, count in zip(shape[1:3], taps, strict=True)
           if padding != "SAME"):  # fmt: skip
        return
    wanted = expected(attrs, x, filters)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(depthwise_rows, "NEAR", near)
        patch.setattr(depthwise_launches, "_FAR_BYTES", far)
        found = run_in_python(depthwise_launches.bind_forward, attrs, [x, filters], wanted.shape, lanes)

    np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)


def test_long_convolutions_are_several_launches(monkeypatch):
    monkeypatch.setattr(shares, "LAUNCH_NS", 500)
    rng = np.random.default_rng(2)
    x, filters = rng.standard_normal((2, 6, 8, 17)), rng.standard_normal((3, 3, 17, 1))
    attrs = attributes()
    spec = Spec(x.dtype, x.shape)

    launches = depthwise_launches.bind_forward(attrs, [spec, Spec(x.dtype, filters.shape)], [spec])
    found = run_in_python(depthwise_launches.bind_forward, attrs, [x, filters], x.shape, 3)

    assert launches is not None
    assert len(launches.rows) > 1
    np.testing.assert_allclose(found, expected(attrs, x, filters), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("tap", [(0, 0), (1, 2), (2, 1)])
def test_taps_that_are_not_finite_count_outside_of_the_image_too(tap, value):
    rng = np.random.default_rng(3)
    x, filters = rng.standard_normal((2, 4, 7, 19)), rng.standard_normal((3, 3, 19, 1))
    filters[(*tap, 5, 0)] = value
    attrs = attributes()
    with np.errstate(invalid="ignore"):
        wanted = expected(attrs, x, filters)

        found = run_in_python(depthwise_launches.bind_forward, attrs, [x, filters], x.shape)

    assert np.isnan(wanted[:, 0]).any() or np.isnan(wanted[:, -1]).any() or np.isnan(wanted[..., 0, :]).any()
    np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)


def test_other_convolutions_use_a_padded_copy():
    def kernel(shape: tuple[int, ...], filters: tuple[int, ...]) -> Any:
        specs = [Spec(np.dtype("f4"), each) for each in (shape, filters)]
        output = Spec(np.dtype("f4"), (*shape[:3], filters[2] * filters[3]))
        launches = depthwise_launches.bind_forward(attributes(), specs, [output])
        assert launches is not None
        loop = launches.rows[0].kernel
        assert isinstance(loop, LoopKernel)
        return loop.body

    assert kernel((1, 8, 8, 32), (3, 3, 32, 1)) is depthwise_rows.three_adjacent_taps
    assert kernel((1, 8, 8, 31), (3, 3, 31, 1)) is depthwise_loops.forward
    assert kernel((1, 8, 8, 32), (3, 4, 32, 1)) is depthwise_loops.forward
    assert kernel((1, 8, 8, 32), (3, 3, 32, 2)) is depthwise_loops.forward


CASES = {
    "three taps": ((1, 9, 14, 40), 3, attributes()),
    "three taps, strided": ((2, 8, 13, 33), 3, attributes(2)),
    "three taps, dilated": ((1, 9, 14, 32), 3, attributes(1, 2)),
    "five taps": ((1, 6, 7, 48), 5, attributes()),
    "five taps in blocks of channels": ((2, 5, 9, 170), 5, attributes()),
    "five taps, strided": ((1, 14, 14, 35), 5, attributes(2)),
}


def values(case: str, taps: float | None = None) -> list[Array]:
    """Image, filters and bias, with a NaN in the image and a channel whose result is zero of either sign."""
    shape, window, _ = CASES[case]
    rng = np.random.default_rng(8)
    x, filters, bias = (
        rng.standard_normal(each).astype(np.float32)
        for each in (shape, (window, window, shape[-1], 1), shape[-1:])
    )
    x[0, 2, 4, 6] = np.nan
    filters[:, :, 3], bias[3] = 0, -0.0
    if taps is not None:
        filters[0, 1, 7] = taps
    return [x, filters, bias]


async def result(case: str, workers: int, arrays: list[Array], rectifier: str) -> tuple[Array, list[str]]:
    """The convolution with bias and rectifier, and the kinds of the nodes in rows."""
    config = ax.ConfigProto(intra_op_parallelism_threads=workers, use_per_session_threads=True)
    config.aioexec.jit = "eager"
    attrs = {name: value for name, value in CASES[case][2].items() if value != ()}
    with graph() as made:
        x, filters, bias = (ax.placeholder(each.dtype, each.shape) for each in arrays)
        y = op(rectifier, op("BiasAdd", op("DepthwiseConv2dNative", x, filters, **attrs), bias))
    async with ax.Session(graph=made, config=config) as session:
        found = await session.run(y, dict(zip((x, filters, bias), arrays, strict=True)))
        (program,) = programs(session)
    return found, op_of_each_row(program)


@pytest.mark.slow
@pytest.mark.parametrize("far", [0, 2**30])
@pytest.mark.parametrize(("rectifier", "taps"), [("Relu", None), ("Relu6", None), ("Relu6", np.inf)])
@pytest.mark.parametrize("case", CASES)
async def test_bias_and_rectifier_are_an_epilogue_with_equal_bits_for_any_number_of_workers(
    monkeypatch, case, rectifier, taps, far
):
    share_all(monkeypatch)
    monkeypatch.setattr(depthwise_launches, "_FAR_BYTES", far)
    arrays = values(case, taps)

    alone, kinds = await result(case, 1, arrays, rectifier)
    together, _ = await result(case, 3, arrays, rectifier)
    monkeypatch.setattr(variant_builder, "fuse_epilogues", lambda layout: None)
    apart, _ = await result(case, 1, arrays, rectifier)

    assert set(kinds) == {"DepthwiseConv2dNative"}
    assert alone.tobytes() == together.tobytes() == apart.tobytes()
    x, filters, bias = arrays
    with np.errstate(invalid="ignore"):
        wanted = np.maximum(expected(CASES[case][2], x, filters) + bias, 0)
    if rectifier == "Relu6":
        wanted = np.minimum(wanted, 6)
    np.testing.assert_allclose(alone, wanted, rtol=1e-4, atol=1e-5)
