"""Convolutions whose lines are shared by workers, with equal bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aioexec import ConfigProto, Session
from aioexec.graph.kernels.kernel import Spec
from aioexec.ops.convolution import conv, launches, loops
from aioexec.ops.convolution.windows import make_axes
from tests.tiers import constant, feed, graph, op, op_of_each_row, programs, share_all

Array = np.ndarray[Any, Any]

CASES: dict[str, tuple[tuple[int, ...], tuple[int, int], int, dict[str, Any]]] = {
    "three channels": ((2, 23, 21, 3), (5, 3), 35, {"strides": (1, 2, 2, 1), "padding": "SAME"}),
    "one image": ((1, 19, 30, 3), (7, 7), 24, {"strides": (1, 2, 2, 1), "padding": "SAME"}),
    "dilated": ((1, 20, 18, 5), (3, 3), 33, {"dilations": (1, 2, 2, 1), "padding": "SAME"}),
    "without padding": ((3, 12, 14, 4), (3, 2), 9, {"padding": "VALID"}),
    "filters in panels": ((2, 23, 21, 35), (3, 5), 40, {"padding": "SAME"}),
    "one image, filters in panels": (
        (1, 21, 80, 24),
        (3, 3),
        80,
        {"strides": (1, 2, 2, 1), "padding": "SAME"},
    ),
}


def attributes(case: str) -> dict[str, Any]:
    plain = {"strides": (1, 1, 1, 1), "dilations": (1, 1, 1, 1), "data_format": "NHWC"}
    return {**plain, **CASES[case][3]}


async def result(case: str, workers: int, arrays: list[Array]) -> Array:
    """The convolution with bias and rectifier, by one kernel."""
    config = ConfigProto(intra_op_parallelism_threads=workers, use_per_session_threads=True)
    config.aioexec.jit = "eager"
    x, filters, bias = arrays
    with graph() as made:
        image = feed(x.shape)
        y = op("Conv2D", image, constant(filters), **attributes(case))
        fetched = op("Relu", op("BiasAdd", y, constant(bias)))
    async with Session(graph=made, config=config) as session:
        found = await session.run(fetched, {image: x})
        (program,) = programs(session)
    assert set(op_of_each_row(program)) == {"Conv2D"}
    return found


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
async def test_lines_are_shared_by_workers_with_equal_bits(monkeypatch, case):
    share_all(monkeypatch)
    shape, window, n, _ = CASES[case]
    rng = np.random.default_rng(6)
    arrays = [rng.standard_normal(each).astype(np.float32) for each in (shape, (*window, shape[-1], n), (n,))]
    arrays[1] /= 8

    alone, together = [await result(case, workers, arrays) for workers in (1, 3)]

    assert alone.tobytes() == together.tobytes()
    x, filters, bias = (each.astype(np.float64) for each in arrays)
    wanted = conv.correlate(x, filters, make_axes(attributes(case), shape, filters.shape)) + bias
    np.testing.assert_allclose(alone, np.maximum(wanted, 0), rtol=1e-5, atol=1e-5)


def test_one_image_is_cut_into_lines_unless_the_filters_are_larger():
    def unit(size: int, c: int, n: int) -> tuple[Any, str, int]:
        shapes = (1, size, size, c), (3, 3, c, n), (1, size, size, n)
        image, filters, output = (Spec(np.dtype("f4"), shape) for shape in shapes)
        made = launches.bind_forward(
            attributes("one image") | {"strides": (1, 1, 1, 1)}, [image, filters], [output]
        )
        assert made is not None
        row = made.rows[-1]
        assert row.units is not None
        return row.kernel.body, "lines" if row.units.word == 1 else "filters", row.words[row.units.word]

    assert unit(64, 3, 32) == (loops.forward, "lines", 64)
    assert unit(64, 64, 128) == (loops.forward, "lines", 64)
    assert unit(64, 32, 32) == (loops.forward, "lines", 64)
    assert unit(14, 256, 256) == (loops.forward, "filters", 256)
    assert unit(14, 256, 32) == (loops.forward, "lines", 14)
