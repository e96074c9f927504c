"""Convolution and pooling as functions: names, arguments, static shapes, and the loops in plain Python."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from aioexec import ConfigProto, Session, dtypes
from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError
from aioexec.graph.graph import Graph
from aioexec.graph.kernels.kernel import ElementwiseKernel, Spec
from aioexec.ops.common import shares
from aioexec.ops.convolution import conv, filter_gradients, input_gradients, launches as conv_launches, sizes
from aioexec.ops.convolution.windows import make_axes
from aioexec.ops.pooling import loops, pool2d
from tests.ops.convolution.launched import run_in_python


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
    assert pool2d.max_pool(image, 3, 2, "VALID").shape.as_list() == [None, 13, None, 3]
    assert pool2d.avg_pool(image, [1, 3, 3, 1], [1, 1, 1, 1], "SAME").shape.as_list() == [None, 28, None, 3]


def test_nodes_have_tensorflows_names(graph):
    image, filters = placeholder(graph, 1, 4, 4, 2), placeholder(graph, 2, 2, 2, 2)

    assert conv.conv2d(image, filters, 1, "SAME").name == "Conv2D:0"
    assert conv.conv2d(image, filters, 1, "SAME", name="c").op.type == "Conv2D"
    assert conv.conv2d_transpose(image, filters, [1, 8, 8, 2], 2).name == "conv2d_transpose:0"
    assert pool2d.max_pool(image, 2, 2, "VALID").name == "MaxPool:0"
    assert pool2d.avg_pool(image, 2, 2, "VALID", name="mean").name == "mean:0"


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


def test_a_large_convolution_is_many_launches_that_together_do_every_image():
    attrs = {"strides": (1, 1, 1, 1), "dilations": (1, 1, 1, 1), "padding": "SAME", "data_format": "NHWC"}
    specs = [Spec(np.dtype("f4"), shape) for shape in ((16, 56, 56, 64), (5, 5, 64, 128))]

    launches = conv_launches.bind_forward(attrs, specs, [Spec(np.dtype("f4"), (16, 56, 56, 128))])

    assert launches is not None
    _, *rows = launches.rows  # the first one copies the filters
    assert len(rows) > 8
    lines = [row.words[1] for row in rows]
    assert sum(lines) == 16 * 56
    assert [row.words[0] for row in rows] == list(itertools.accumulate(lines[:-1], initial=0))
    assert all(row.cost < 8_000_000 for row in rows)


@pytest.mark.parametrize(
    ("attrs", "image", "window"),
    [
        ({"strides": (1, 2, 1, 1), "padding": "SAME"}, (2, 4, 3, 2), (2, 2)),
        ({"strides": (1, 1, 1, 1), "padding": "VALID", "dilations": (1, 1, 2, 1)}, (1, 4, 5, 2), (2, 2)),
        ({"strides": (1, 1, 1, 1), "padding": "SAME"}, (30, 3, 2, 2), (3, 3)),
        ({"strides": (1, 1, 1, 1), "padding": "SAME"}, (2, 3, 2, 8), (1, 1)),
        ({"strides": (1, 1, 1, 1), "padding": "SAME"}, (1, 9, 10, 8), (3, 3)),
        ({"strides": (1, 1, 1, 1), "padding": "SAME"}, (1, 12, 11, 9), (2, 3)),  # filters are copied
        ({"strides": (1, 1, 1, 1), "padding": "SAME"}, (16, 3, 3, 9), (1, 1)),
        ({"strides": (1, 3, 2, 1), "padding": "VALID"}, (2, 6, 8, 3), (3, 2)),  # windows do not overlap
    ],
)
@pytest.mark.parametrize("small_filters", [0, 2**20])
@pytest.mark.parametrize(("nanoseconds", "lanes"), [(1, 1), (1_000_000, 1), (1_000_000, 3)])
def test_the_loops_run_as_plain_python_in_launches_and_shares(
    monkeypatch, attrs, image, window, nanoseconds, lanes, small_filters
):
    monkeypatch.setattr(shares, "LAUNCH_NS", nanoseconds)
    monkeypatch.setattr(sizes, "_SMALL_FILTERS", small_filters)
    monkeypatch.setattr(filter_gradients, "_LEAST_SIDE", 5)  # windows of many channels are copied
    attrs = {"dilations": (1, 1, 1, 1), "data_format": "NHWC", **attrs}
    rng = np.random.default_rng(3)
    x, filters = rng.standard_normal(image), rng.standard_normal((*window, image[3], DEPTH))
    axes = make_axes(attrs, image, window)
    dy = rng.standard_normal((image[0], axes[0].count, axes[1].count, DEPTH))

    forward = run_in_python(conv_launches.bind_forward, attrs, [x, filters], dy.shape, lanes)
    dx = run_in_python(input_gradients.bind_input, attrs, [np.array(image), filters, dy], image, lanes)
    dfilters = run_in_python(
        filter_gradients.bind_filter, attrs, [x, np.array(filters.shape), dy], filters.shape, lanes
    )

    np.testing.assert_allclose(forward, conv.correlate(x, filters, axes), rtol=1e-12)
    np.testing.assert_allclose(dx, conv.spread(filters, dy, axes), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(dfilters, conv.compare(x, dy, axes), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("window", [(1, 1), (3, 3), (2, 4), (5, 1)])
@pytest.mark.parametrize("strides", [(2, 2), (3, 1), (1, 2)])
@pytest.mark.parametrize("padding", ["SAME", "VALID", "EXPLICIT"])
@pytest.mark.parametrize(("least_channels", "lanes"), [(8, 1), (8, 3), (99, 1)])
def test_gradients_in_the_input_with_strides(monkeypatch, window, strides, padding, least_channels, lanes):
    monkeypatch.setattr(input_gradients, "FEW_CHANNELS", least_channels)
    monkeypatch.setattr(shares, "LAUNCH_NS", 1_000_000)
    explicit = (0, 0, 2, 1, 0, 3, 0, 0) if padding == "EXPLICIT" else ()
    attrs = {"strides": (1, *strides, 1), "padding": padding, "explicit_paddings": explicit}
    attrs |= {"dilations": (1, 1, 1, 1), "data_format": "NHWC"}
    image = (2, 9, 10, 9)
    rng = np.random.default_rng(5)
    filters = rng.standard_normal((*window, image[3], DEPTH))
    axes = make_axes(attrs, image, window)
    dy = rng.standard_normal((image[0], axes[0].count, axes[1].count, DEPTH))

    dx = run_in_python(input_gradients.bind_input, attrs, [np.array(image), filters, dy], image, lanes)

    np.testing.assert_allclose(dx, conv.spread(filters, dy, axes), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    ("image", "window", "stride", "least_side", "groups"),
    [
        ((8, 4, 5, 3), (1, 1), 1, 99, 8),  # windows are rows of a matrix
        ((8, 4, 5, 8), (3, 3), 1, 5, 8),  # they are copied
        ((8, 4, 5, 3), (3, 2), 2, 99, 4),  # they slide
        ((6, 4, 5, 3), (3, 2), 1, 99, 1),  # images do not form groups
    ],
)
@pytest.mark.parametrize(("nanoseconds", "lanes"), [(1, 1), (1_000_000, 3)])
def test_groups_of_images_have_gradients_of_filters_that_are_added(
    monkeypatch, image, window, stride, least_side, groups, nanoseconds, lanes
):
    monkeypatch.setattr(shares, "LAUNCH_NS", nanoseconds)
    monkeypatch.setattr(filter_gradients, "_LEAST_SIDE", least_side)
    monkeypatch.setattr(filter_gradients, "_LEAST_WINDOWS", 12)
    attrs = {
        "strides": (1, stride, stride, 1),
        "padding": "SAME",
        "dilations": (1, 1, 1, 1),
        "data_format": "NHWC",
    }
    rng = np.random.default_rng(4)
    x, shape = rng.standard_normal(image), (*window, image[3], DEPTH)
    axes = make_axes(attrs, image, window)
    dy = rng.standard_normal((image[0], axes[0].count, axes[1].count, DEPTH))

    specs = [Spec(x.dtype, x.shape), Spec(np.dtype("i4"), (4,)), Spec(dy.dtype, dy.shape)]
    launches = filter_gradients.bind_filter(attrs, specs, [Spec(x.dtype, shape)])
    dfilters = run_in_python(filter_gradients.bind_filter, attrs, [x, np.array(shape), dy], shape, lanes)

    assert launches is not None
    last = launches.rows[-1].kernel
    assert (len(last.inputs) if isinstance(last, ElementwiseKernel) else 1) == groups
    np.testing.assert_allclose(dfilters, conv.compare(x, dy, axes), rtol=1e-11, atol=1e-13)


DEPTH = 35


@pytest.mark.parametrize(
    ("ksize", "strides", "padding", "shape"),
    [
        ((2, 2), (2, 2), "VALID", (5, 4, 6, 3)),
        ((3, 2), (1, 2), "SAME", (5, 4, 5, 2)),
        ((2, 3), (2, 2), "VALID", (1, 5, 5, 1)),
    ],
)
@pytest.mark.parametrize("lanes", [1, 3])
def test_pools_run_as_plain_python_in_shares(ksize, strides, padding, shape, lanes):
    attrs = {"ksize": (1, *ksize, 1), "strides": (1, *strides, 1), "padding": padding, "data_format": "NHWC"}
    x = np.random.default_rng(4).permutation(np.prod(shape)).reshape(shape).astype(np.float64)
    axes = make_axes(attrs, shape, ksize)
    y = pool2d.maximum(x, axes)

    largest = run_in_python(loops.bind_max, attrs, [x], y.shape, lanes)
    mean = run_in_python(loops.bind_average, attrs, [x], y.shape, lanes)
    to_largest = run_in_python(loops.bind_max_grad, attrs, [x, y, y], shape, lanes)
    to_all = run_in_python(loops.bind_average_grad, attrs, [np.array(shape), y], shape, lanes)

    np.testing.assert_array_equal(largest, y)
    np.testing.assert_allclose(mean, pool2d.average(x, axes), rtol=1e-14)
    np.testing.assert_allclose(
        to_largest, pool2d.return_to(y, pool2d.first_maximum(x, axes), axes), rtol=1e-14
    )
    np.testing.assert_allclose(to_all, pool2d.average_adjoint(y, axes), rtol=1e-13)


@pytest.mark.parametrize("op_type", ["Conv3DBackpropFilter", "Conv3DBackpropInput"])
async def test_windows_of_another_rank_are_invalid(graph, op_type):
    image = np.zeros((1, 2, 2, 2, 1), np.float32)
    feeds = [placeholder(graph, *image.shape) for _ in range(3)]
    attrs = {"strides": [1] * 5, "padding": "SAME", "dilations": [1] * 4}
    op = graph.create_op(op_type, feeds, attrs=attrs)

    async with Session(graph=graph) as session:
        with pytest.raises(InvalidArgumentError, match="must specify 5 dimensions"):
            await session.run(op.outputs[0], dict.fromkeys(feeds, image))


@pytest.mark.parametrize(
    ("image", "filters"),
    [((2, 4, 4), (2, 2, 4, 3)), ((1, 1, 2), (1, 1, 2, 2)), ((2, 4, 4, 3), (2, 3, 3)), ((), (2, 2, 3, 3))],
)
async def test_ranks_that_are_unknown_until_the_run_are_checked_then(graph, image, filters):
    given = [
        graph.create_op("Placeholder", (), attrs={"dtype": dtypes.float32, "shape": None}) for _ in range(2)
    ]
    one, other = (op.outputs[0] for op in given)
    made = conv.conv2d(one, other, 1, "SAME")

    for jit in ("off", "eager"):
        config = ConfigProto()
        config.aioexec.jit = jit
        async with Session(graph=graph, config=config) as session:
            with pytest.raises(InvalidArgumentError, match="must be 4-dimensional"):
                await session.run(
                    made, {one: np.zeros(image, np.float32), other: np.zeros(filters, np.float32)}
                )
