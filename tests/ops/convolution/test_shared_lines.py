"""Convolutions whose lines are shared by workers, with equal bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aioexec import ConfigProto, Session
from aioexec.graph.kernels.kernel import Spec
from aioexec.ops.convolution import conv, launches, loops
from aioexec.ops.convolution.windows import make_axes
from tests.ops.convolution.launched import run_in_python
from tests.tiers import constant, feed, graph, op, op_of_each_row, programs, share_all

Array = np.ndarray[Any, Any]

CASES: dict[str, tuple[tuple[int, ...], tuple[int, int], int, dict[str, Any]]] = {
    "three channels": ((2, 23, 21, 3), (5, 3), 35, {"strides": (1, 2, 2, 1), "padding": "SAME"}),
    "one image": ((1, 19, 30, 3), (7, 7), 24, {"strides": (1, 2, 2, 1), "padding": "SAME"}),
    "dilated": ((1, 20, 18, 5), (3, 3), 33, {"dilations": (1, 2, 2, 1), "padding": "SAME"}),
    "without padding": ((3, 12, 14, 4), (3, 2), 9, {"padding": "VALID"}),
    "filters in panels": ((2, 23, 21, 35), (3, 5), 40, {"padding": "SAME"}),
    "a long line": ((1, 1, 192, 6), (1, 3), 12, {"dilations": (1, 1, 4, 1), "padding": "SAME"}),
    "a long line, filters in panels": (
        (1, 1, 128, 96),
        (1, 2),
        96,
        {"padding": "EXPLICIT", "explicit_paddings": (0, 0, 0, 0, 1, 0, 0, 0)},
    ),
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


def line_of(
    size: int, channels: int, n: int, taps: int, **changed: Any
) -> tuple[dict[str, Any], Array, Array, Array]:
    """Attributes, a line, filters and the convolution of a line."""
    plain = {"strides": (1, 1, 1, 1), "dilations": (1, 1, 1, 1), "data_format": "NHWC", "padding": "VALID"}
    rng, attrs = np.random.default_rng(size), plain | changed
    x, filters = rng.standard_normal((1, 1, size, channels)), rng.standard_normal((1, taps, channels, n))
    return attrs, x, filters, conv.correlate(x, filters, make_axes(attrs, x.shape, filters.shape))


CAUSAL = {"padding": "EXPLICIT", "explicit_paddings": (0, 0, 0, 0, 8, 0, 0, 0), "dilations": (1, 1, 4, 1)}


@pytest.mark.parametrize(
    ("line", "pieces"),
    [
        (line_of(65, 3, 5, 2), 2),
        (line_of(192, 3, 5, 3, padding="SAME", dilations=(1, 1, 2, 1)), 2),
        (line_of(224, 3, 5, 3, padding="SAME", strides=(1, 1, 2, 1)), 2),
        (line_of(400, 3, 5, 3, **CAUSAL), 4),
    ],
    ids=["without padding", "dilated", "strides", "causal"],
)
@pytest.mark.parametrize("lanes", [1, 3])
def test_a_long_line_is_cut_into_pieces(line, pieces, lanes):
    attrs, x, filters, expected = line

    result = run_in_python(launches.bind_forward, attrs, [x, filters], expected.shape, lanes)

    specs = [Spec(each.dtype, each.shape) for each in (x, filters, expected)]
    made = launches.bind_forward(attrs, specs[:2], specs[2:])
    assert made is not None
    assert made.rows[-1].units is not None
    assert made.rows[-1].words[made.rows[-1].units.word] == pieces
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("may_be_packed", [False, True])
def test_pieces_of_a_line_take_filters_of_any_size(may_be_packed):
    attrs, x, filters, expected = line_of(96, 96, 100, 2, padding="SAME")

    result = run_in_python(
        launches.bind_forward, attrs, [x, filters], expected.shape, 3, may_be_packed=may_be_packed
    )

    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [55, 63])
def test_a_line_that_no_pieces_fill_stays_whole(size):
    attrs, x, filters, expected = line_of(size, 3, 5, 3, padding="SAME")

    specs = [Spec(each.dtype, each.shape) for each in (x, filters, expected)]
    made = launches.bind_forward(attrs, specs[:2], specs[2:])

    assert made is not None
    assert made.rows[-1].words[1] == 1


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
