"""Convolutions with constant filters, which programs hold in panels, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.devices.jit.panels import vector_bytes
from aioexec.ops.common import shares
from aioexec.ops.convolution import conv, launches as conv_launches, sizes
from aioexec.ops.convolution.windows import make_axes
from tests.ops.convolution.launched import run_in_python
from tests.tiers import constant, graph, op, programs, share_all

SAME = {"padding": "SAME"}
CASES: dict[str, tuple[Any, tuple[int, ...], tuple[int, int], int]] = {
    "one tap": (SAME, (2, 9, 10, 128), (1, 1), 40),
    "one tap, strided": (SAME | {"strides": (1, 2, 2, 1)}, (2, 9, 30, 64), (1, 1), 70),
    "short lines": (SAME, (2, 7, 5, 24), (3, 3), 40),
    "short lines, strided": (SAME | {"strides": (1, 3, 2, 1)}, (1, 8, 9, 24), (3, 2), 40),
    "short lines without padding": ({"padding": "VALID"}, (3, 7, 6, 24), (3, 2), 40),
    "padding that no window reaches": (
        {
            "padding": "EXPLICIT",
            "explicit_paddings": (0, 0, 1, 2, 0, 2, 0, 0),
            "strides": (1, 3, 3, 1),
        },
        (1, 7, 8, 24),
        (2, 2),
        44,
    ),
    "dilated short lines": (SAME | {"dilations": (1, 2, 2, 1)}, (1, 7, 6, 24), (3, 3), 40),
    "lines": (SAME, (1, 6, 20, 24), (3, 3), 40),
    "lines of several images": (SAME | {"strides": (1, 2, 2, 1)}, (2, 6, 33, 24), (3, 3), 40),
    "dilated lines": (SAME | {"dilations": (1, 1, 2, 1)}, (1, 6, 20, 24), (3, 3), 40),
    "many images of short lines": (SAME, (20, 4, 3, 24), (3, 3), 40),
}


def operands(case: str) -> tuple[dict[str, Any], Any, Any, Any]:
    """Attributes, images, filters, and axes."""
    attrs, image, window, depth = CASES[case]
    attrs = {"strides": (1, 1, 1, 1), "dilations": (1, 1, 1, 1), "data_format": "NHWC", **attrs}
    random = np.random.default_rng(3)
    x, filters = random.standard_normal(image), random.standard_normal((*window, image[3], depth))
    return attrs, x, filters, make_axes(attrs, image, window)


@pytest.mark.parametrize("copied", [0, 1 << 24])
@pytest.mark.parametrize(("nanoseconds", "lanes"), [(4_000_000, 1), (2_000, 3)])
@pytest.mark.parametrize("case", CASES)
def test_the_loops_run_as_plain_python_in_launches_and_shares(monkeypatch, case, nanoseconds, lanes, copied):
    monkeypatch.setattr(shares, "LAUNCH_NS", nanoseconds)
    monkeypatch.setattr(conv_launches, "MOST_COPIED", copied)
    monkeypatch.setattr(sizes, "_SMALL_FILTERS", 0)
    attrs, x, filters, axes = operands(case)
    shape = (x.shape[0], axes[0].count, axes[1].count, filters.shape[3])

    found = run_in_python(conv_launches.bind_forward, attrs, [x, filters], shape, lanes, may_be_packed=True)

    np.testing.assert_allclose(found, conv.correlate(x, filters, axes), rtol=1e-11, atol=1e-12)


@pytest.mark.skipif(not vector_bytes(), reason="products are left to BLAS")
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES)
async def test_programs_have_the_same_bits_for_any_number_of_workers(monkeypatch, case, dtype):
    share_all(monkeypatch)
    monkeypatch.setattr(sizes, "_SMALL_FILTERS", 0)
    attrs, x, filters, axes = operands(case)
    bias = np.random.default_rng(4).standard_normal(filters.shape[3])
    found = []
    for workers in (1, 3):
        config = ax.ConfigProto(intra_op_parallelism_threads=workers, use_per_session_threads=True)
        config.aioexec.jit = "eager"
        with graph() as made:
            fed = ax.placeholder(dtype, x.shape)
            images = op("Conv2D", fed, constant(filters, dtype), **attrs)
            y = op("Relu", op("BiasAdd", images, constant(bias, dtype)))
        async with ax.Session(graph=made, config=config) as session:
            found.append(await session.run(y, {fed: x.astype(dtype)}))
            (program,) = programs(session)
            (packed,) = program.variant.packed
            assert packed.content.shape == filters.shape
            assert program.variant.constants.nbytes < 2048  # the bias alone

    expected = np.maximum(conv.correlate(x, filters, axes) + bias, 0)
    tolerance = 1e-4 if dtype == "float32" else 1e-11
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(found[0], expected, rtol=tolerance, atol=tolerance)
