"""The positions of sliding windows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import aioexec as ax
from aioexec.graph.apply import apply_op
from aioexec.ops.convolution.windows import Axis, make_axis


def elements(axis: Axis) -> list[list[int]]:
    """For each window the elements of the image that it sees, in order."""
    taps = [axis.inside(tap) for tap in range(axis.window)]
    starts = [window * axis.stride - axis.before for window in range(axis.count)]
    return [
        [start + tap * axis.dilation for tap, inside in enumerate(taps) if inside[window]]
        for window, start in enumerate(starts)
    ]


@given(
    size=st.integers(0, 6),
    window=st.integers(1, 12),
    stride=st.integers(1, 4),
    dilation=st.integers(1, 3),
    padding=st.sampled_from(["SAME", "EXPLICIT"]),
    explicit=st.tuples(st.integers(0, 40), st.integers(36, 40)),
)
def test_windows_without_taps_in_the_padding_see_the_same_elements(
    size: int, window: int, stride: int, dilation: int, padding: str, explicit: tuple[int, int]
) -> None:
    attrs = {
        "strides": [1, stride, 1, 1],
        "dilations": [1, dilation, 1, 1],
        "padding": padding,
        "explicit_paddings": [0, 0, *explicit, 0, 0, 0, 0] if padding == "EXPLICIT" else [],
    }
    axis = make_axis(attrs, 1, size, window)

    seen = axis.seen()

    assert elements(seen) == elements(axis)
    assert seen.count == axis.count
    assert 0 <= seen.before <= axis.before


def test_windows_far_larger_than_the_image_have_few_taps() -> None:
    attrs = {"strides": [1, 1, 1, 1], "padding": "SAME"}

    seen = make_axis(attrs, 1, 4, 2**31 - 1).seen()

    assert seen.window == 7


@pytest.mark.parametrize("op_type", ["Conv2DBackpropFilter", "DepthwiseConv2dNativeBackpropFilter"])
async def test_filters_far_larger_than_the_image_have_gradients_at_once(op_type: str) -> None:
    image = np.arange(8, dtype=np.float32).reshape(1, 4, 2, 1)
    sizes = np.array([2**21 + 1, 1, 1, 1], np.int32)
    expected = np.correlate(np.pad(image[0, :, 0, 0], 4), image[0, :, 0, 0])
    expected += np.correlate(np.pad(image[0, :, 1, 0], 4), image[0, :, 1, 0])
    config = ax.ConfigProto()
    config.aioexec.jit = "off"
    with ax.Graph().as_default() as graph:
        gradient = apply_op(op_type, image, sizes, image, strides=[1, 1, 1, 1], padding="SAME")

    async with ax.Session(graph=graph, config=config) as session:
        result = (await session.run(gradient)).reshape(-1)

    half = 2**20
    np.testing.assert_array_equal(result[half - 4 : half + 5], expected)
    assert np.count_nonzero(result) == np.count_nonzero(expected)
