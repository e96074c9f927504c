"""Convolution and pooling as functions: names, arguments, static shapes, and the loops in plain Python."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from aioexec import dtypes
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.graph import Graph
from aioexec.graph.kernel import LoopKernel, Spec
from aioexec.ops import conv, conv_loops, pool
from aioexec.ops.windows import make_axes


@pytest.fixture
def graph():
    with Graph().as_default() as graph:
        yield graph


def placeholder(graph: Graph, *shape: int | None) -> Any:
    return graph.create_op("Placeholder", (), attrs={"dtype": dtypes.float32, "shape": shape}).outputs[0]


def test_static_shapes_know_what_follows_from_the_arguments(graph):
    image, filters = placeholder(graph, None, 28, None, 3), placeholder(graph, 5, 5, 3, 8)

    same = conv.conv2d(image, filters, strides=[1, 2, 2, 1], padding="SAME")
    valid = conv.conv2d(image, filters, strides=2, padding="VALID", dilations=[2, 2])
    explicit = conv.conv2d(image, filters, 1, [[0, 0], [1, 2], [0, 0], [0, 0]])

    assert same.shape.as_list() == [None, 14, None, 8]
    assert valid.shape.as_list() == [None, 10, None, 8]
    assert explicit.shape.as_list() == [None, 27, None, 8]
    assert pool.max_pool(image, 3, 2, "VALID").shape.as_list() == [None, 13, None, 3]
    assert pool.avg_pool(image, [1, 3, 3, 1], [1, 1, 1, 1], "SAME").shape.as_list() == [None, 28, None, 3]


def test_nodes_have_tensorflows_names(graph):
    image, filters = placeholder(graph, 1, 4, 4, 2), placeholder(graph, 2, 2, 2, 2)

    assert conv.conv2d(image, filters, 1, "SAME").name == "Conv2D:0"
    assert conv.conv2d(image, filters, 1, "SAME", name="c").op.type == "Conv2D"
    assert conv.conv2d_transpose(image, filters, [1, 8, 8, 2], 2).name == "conv2d_transpose:0"
    assert pool.max_pool(image, 2, 2, "VALID").name == "MaxPool:0"
    assert pool.avg_pool(image, 2, 2, "VALID", name="mean").name == "mean:0"


def test_a_transposed_convolution_has_the_shape_it_is_given(graph):
    value, filters = placeholder(graph, None, 4, 4, 3), placeholder(graph, 2, 2, 5, 3)

    assert conv.conv2d_transpose(value, filters, [7, 8, 8, 5], [1, 2, 2, 1]).shape.as_list() == [7, 8, 8, 5]


@pytest.mark.parametrize(
    ("shape", "filters", "arguments", "message"),
    [
        ((1, 3, 3, 2), (5, 5, 2, 1), {"strides": 1, "padding": "VALID"}, "subtracting 5 from 3"),
        ((1, 3, 3, 3), (2, 2, 2, 1), {"strides": 1, "padding": "SAME"}, r"Depth of input \(3\)"),
        ((1, 3, 3), (2, 2, 2, 1), {"strides": 1, "padding": "SAME"}, "must have rank 4"),
        (
            (1, 3, 3, 2),
            (2, 2, 2, 1),
            {"strides": [1, 1, 1], "padding": "SAME"},
            "strides should be of length",
        ),
        ((1, 3, 3, 2), (2, 2, 2, 1), {"strides": 0, "padding": "SAME"}, "must be positive"),
        ((1, 3, 3, 2), (2, 2, 2, 1), {"strides": 1, "padding": "FULL"}, "'FULL'"),
        ((1, 3, 3, 2), (2, 2, 2, 1), {"strides": 1, "padding": [[0, 0], [1, 1]]}, "four pairs"),
        ((1, 3, 3, 2), (2, 2, 2, 1), {"strides": 1, "padding": "SAME", "data_format": "HWCN"}, "'HWCN'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(graph, shape, filters, arguments, message):
    image, weights = placeholder(graph, *shape), placeholder(graph, *filters)

    with pytest.raises(GraphValueError, match=message):
        conv.conv2d(image, weights, **arguments)


def test_an_argument_is_given_under_one_of_its_names(graph):
    image, filters = placeholder(graph, 1, 4, 4, 2), placeholder(graph, 2, 2, 2, 2)

    with pytest.raises(GraphTypeError, match="not both"):
        conv.conv2d(image, filters, 1, "SAME", filters=filters)
    with pytest.raises(GraphTypeError, match="'filter' must be given"):
        conv.conv2d(image, strides=1, padding="SAME")


def test_a_large_convolution_is_many_launches_that_together_do_every_line():
    attrs = {"strides": (1, 1, 1, 1), "dilations": (1, 1, 1, 1), "padding": "SAME", "data_format": "NHWC"}
    specs = [Spec(np.dtype("f4"), shape) for shape in ((16, 56, 56, 64), (3, 3, 64, 128))]

    launches = conv_loops.bind_forward(attrs, specs, [Spec(np.dtype("f4"), (16, 56, 56, 128))])

    assert launches is not None
    ranges = [row.words[:2] for row in launches.rows]
    assert len(ranges) > 30
    assert ranges[0][0] == 0
    assert ranges[-1][1] == 16 * 56
    assert all(one[1] == other[0] for one, other in itertools.pairwise(ranges))
    assert all(row.cost < 2_000_000 for row in launches.rows)
    assert launches.scratch[0] <= 512 * 1024


@pytest.mark.parametrize(
    ("attrs", "image", "window"),
    [
        ({"strides": (1, 2, 1, 1), "padding": "SAME"}, (2, 4, 3, 2), (2, 2)),
        ({"strides": (1, 1, 1, 1), "padding": "VALID", "dilations": (1, 1, 2, 1)}, (1, 4, 5, 2), (2, 2)),
        ({"strides": (1, 1, 1, 1), "padding": "SAME"}, (30, 3, 2, 2), (3, 3)),
        ({"strides": (1, 1, 1, 1), "padding": "SAME"}, (2, 3, 2, 8), (1, 1)),
    ],
)
@pytest.mark.parametrize("nanoseconds", [1, 1_000_000])
def test_the_loops_run_as_plain_python_in_launches_of_any_length(
    monkeypatch, attrs, image, window, nanoseconds
):
    monkeypatch.setattr(conv_loops, "_LAUNCH_NS", nanoseconds)
    attrs = {"dilations": (1, 1, 1, 1), "data_format": "NHWC", **attrs}
    rng = np.random.default_rng(3)
    x, filters = rng.standard_normal(image), rng.standard_normal((*window, image[3], 3))
    axes = make_axes(attrs, image, window)
    dy = rng.standard_normal((image[0], axes[0].count, axes[1].count, 3))

    forward = run_in_python(conv_loops.bind_forward, attrs, [x, filters], dy.shape)
    dx = run_in_python(conv_loops.bind_input, attrs, [np.array(image), filters, dy], image)
    dfilters = run_in_python(conv_loops.bind_filter, attrs, [x, np.array(filters.shape), dy], filters.shape)

    np.testing.assert_allclose(forward, conv.correlate(x, filters, axes), rtol=1e-12)
    np.testing.assert_allclose(dx, conv.spread(filters, dy, axes), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(dfilters, conv.compare(x, dy, axes), rtol=1e-11, atol=1e-13)


def run_in_python(bind: Any, attrs: Any, inputs: list[Any], shape: tuple[int, ...]) -> Any:
    """Run launches on arrays of float64; an elementwise one is a copy by strides."""
    output = np.full(shape, np.nan)
    launches = bind(attrs, [Spec(value.dtype, value.shape) for value in inputs], [Spec(output.dtype, shape)])
    memory = {"input": [value.reshape(-1) for value in inputs], "output": [output.reshape(-1)]}
    memory["scratch"] = [np.full(size // 8, np.nan) for size in launches.scratch]
    for row in launches.rows:
        places = [memory[operand.kind][operand.index][operand.offset // 8 :] for operand in row.operands]
        if isinstance(row.kernel, LoopKernel):
            assert row.kernel.body(*places, *row.words) == 0
        else:
            rank = row.words[0]
            dims, strides = row.words[1 : 1 + rank], row.words[1 + rank :]
            source, target = (
                strided(place, dims, strides[k * rank :][:rank]) for k, place in enumerate(places)
            )
            target[...] = source
    return output


def strided(place: Any, dims: Any, strides: Any) -> Any:
    """A view of memory by dims and strides in bytes, which may be negative."""
    if min(strides) < 0:
        whole = place.base if place.base is not None else place
        return np.ndarray(dims, whole.dtype, whole, place.ctypes.data - whole.ctypes.data, strides)
    return np.lib.stride_tricks.as_strided(place, dims, strides)
