"""The layers of `ax.contrib.layers`: names of variables and nodes, collections, and values by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.keys import GraphKeys
from tests.contrib.values import drawn, evaluated, filled, names

layers, framework = ax.contrib.layers, ax.contrib.framework


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


async def test_fully_connected_multiplies_adds_and_rectifies():
    x, weights, biases = drawn(2, 4), drawn(4, 3, seed=1), drawn(3, seed=2)
    y = layers.fully_connected(x, 3, weights_initializer=filled(weights), biases_initializer=filled(biases))

    assert y.op.name == "fully_connected/Relu"
    assert names(ax.trainable_variables()) == ["fully_connected/weights", "fully_connected/biases"]
    assert ax.get_collection(GraphKeys.MODEL_VARIABLES) == ax.global_variables()
    np.testing.assert_allclose(await evaluated(y), np.maximum(x @ weights + biases, 0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "op_type"), [("linear", "BiasAdd"), ("relu", "Relu"), ("relu6", "Relu6"), ("elu", "Elu")]
)
def test_fully_connected_has_short_names(name, op_type):
    assert getattr(layers, name)(drawn(2, 4), 3).op.type == op_type


def test_a_scope_is_reused():
    x = drawn(2, 4)
    layers.fully_connected(x, 3, scope="fc")
    layers.fully_connected(x, 3, scope="fc", reuse=True)
    layers.fully_connected(x, 3)
    layers.fully_connected(x, 3)

    assert [name for name in names(ax.global_variables()) if name.endswith("weights")] == [
        "fc/weights",
        "fully_connected/weights",
        "fully_connected_1/weights",
    ]
    with pytest.raises(GraphValueError, match="already exists"):
        layers.fully_connected(x, 3, scope="fc")


def test_a_normalizer_takes_the_place_of_the_bias():
    def halved(x: Any, factor: float) -> Any:
        return ax.identity(x * factor, name="halved")

    y = layers.conv2d(drawn(1, 4, 4, 2), 3, 3, normalizer_fn=halved, normalizer_params={"factor": 0.5})

    assert names(ax.global_variables()) == ["Conv/weights"]
    assert y.op.inputs[0].op.name == "Conv/halved"


def test_without_an_initializer_there_are_no_biases():
    layers.conv2d(drawn(1, 4, 4, 2), 3, 3, biases_initializer=None)

    assert names(ax.global_variables()) == ["Conv/weights"]


async def test_regularizers_of_variables_are_losses():
    weights = drawn(4, 3)
    layers.fully_connected(
        drawn(2, 4), 3, weights_initializer=filled(weights), weights_regularizer=layers.l2_regularizer(0.1)
    )

    (loss,) = ax.losses.get_regularization_losses()
    assert loss.op.name == "fully_connected/kernel/Regularizer/l2_regularizer"
    np.testing.assert_allclose(await evaluated(loss), 0.05 * np.sum(weights**2), rtol=1e-5)


def test_variables_and_outputs_are_in_collections():
    collections = {"weights": ["w"], "biases": ["b"]}
    with ax.variable_scope("net"):
        y = layers.conv2d(
            drawn(1, 4, 4, 2),
            3,
            3,
            scope="conv1",
            variables_collections=collections,
            outputs_collections="points",
        )
        z = layers.max_pool2d(y, 2, scope="pool1", outputs_collections="points")

    assert names(ax.get_collection("w")) == ["net/conv1/weights"]
    assert names(ax.get_collection("b")) == ["net/conv1/biases"]
    assert layers.utils.convert_collection_to_dict("points", clear_collection=True) == {
        "net/conv1": y,
        "net/pool1": z,
    }
    assert ax.get_collection("points") == []


def test_tensors_have_aliases():
    x, y = ax.constant(1.0, name="x"), ax.constant(2.0, name="y")
    layers.utils.append_tensor_alias(x, "one/")
    layers.utils.append_tensor_alias(x, "first")

    assert layers.utils.gather_tensors_aliases([x, y]) == ["one", "first", "y"]


async def test_convolution_multiplies_each_window():
    x, weights, biases = drawn(2, 5, 6, 2), drawn(3, 3, 2, 4, seed=1), drawn(4, seed=2)
    y = layers.conv2d(
        x,
        4,
        [3, 3],
        padding="VALID",
        activation_fn=None,
        weights_initializer=filled(weights),
        biases_initializer=filled(biases),
    )
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))

    assert y.op.name == "Conv/BiasAdd"
    expected = np.einsum("bhwcij,ijco->bhwo", windows, weights) + biases
    np.testing.assert_allclose(await evaluated(y), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "dims", "kernel", "shape"),
    [
        ("conv1d", (2, 6, 3), [3, 3, 4], [2, 3, 4]),
        ("conv2d", (2, 6, 4, 3), [3, 3, 3, 4], [2, 3, 2, 4]),
        ("conv3d", (2, 6, 4, 4, 3), [3, 3, 3, 3, 4], [2, 3, 2, 2, 4]),
        ("conv2d_transpose", (2, 6, 4, 3), [3, 3, 4, 3], [2, 12, 8, 4]),
        ("conv3d_transpose", (2, 6, 4, 4, 3), [3, 3, 3, 4, 3], [2, 12, 8, 8, 4]),
    ],
)
def test_convolutions_have_kernels_for_their_axes(name, dims, kernel, shape):
    y = getattr(layers, name)(ax.placeholder(ax.float32, dims), 4, 3, stride=2, scope="conv")

    weights, biases = ax.global_variables()
    assert (weights.op.name, weights.shape.as_list()) == ("conv/weights", kernel)
    assert (biases.op.name, biases.shape.as_list()) == ("conv/biases", [4])
    assert y.shape.as_list() == shape


def test_scopes_of_convolutions_have_their_default_names():
    x = ax.placeholder(ax.float32, [2, 6, 4, 3])
    made = [
        layers.convolution(x, 4, 3),
        layers.conv2d_transpose(x, 4, 3),
        layers.separable_conv2d(x, 4, 3),
        layers.conv2d_in_plane(x, 3),
    ]

    assert [y.op.name for y in made] == [
        "Conv/Relu",
        "Conv2d_transpose/Relu",
        "SeparableConv2d/Relu",
        "ConvInPlane/Relu",
    ]


def test_convolutions_refuse_what_does_not_fit():
    x = ax.placeholder(ax.float32, [2, 6, 4, 3])

    with pytest.raises(GraphValueError, match="rank 3, got 4"):
        layers.conv1d(x, 4, 3)
    with pytest.raises(GraphValueError, match="Invalid data_format"):
        layers.convolution(x, 4, 3, data_format="WRONG")
    with pytest.raises(GraphValueError, match="not supported"):
        layers.convolution(ax.placeholder(ax.float32, [2, 6]), 4, 3)
    with pytest.raises(GraphValueError, match="NCHW or NHWC"):
        layers.conv2d_transpose(x, 4, 3, data_format="NCDHW")
    with pytest.raises(GraphValueError, match="NCHW or NHWC"):
        layers.max_pool2d(x, 2, data_format="WRONG")
    with pytest.raises(GraphValueError, match="num_outputs"):
        layers.fully_connected(x, 4.0)


def test_a_separable_convolution_without_outputs_is_depthwise():
    x = ax.placeholder(ax.float32, [2, 6, 4, 3])
    y = layers.separable_conv2d(x, None, 3, depth_multiplier=2, stride=2, scope="dw")

    weights, biases = ax.global_variables()
    assert (weights.op.name, weights.shape.as_list()) == ("dw/depthwise_weights", [3, 3, 3, 2])
    assert (biases.op.name, biases.shape.as_list()) == ("dw/biases", [6])
    assert y.shape.as_list() == [2, 3, 2, 6]


def test_a_separable_convolution_has_two_kernels():
    layers.separable_conv2d(ax.placeholder(ax.float32, [2, 6, 4, 3]), 5, 3, scope="sep")

    assert names(ax.global_variables()) == ["sep/depthwise_weights", "sep/pointwise_weights", "sep/biases"]


async def test_a_plane_is_convolved_by_one_kernel():
    x, weights = drawn(1, 4, 5, 2), drawn(2, 2, 1, 1, seed=1)
    y = layers.conv2d_in_plane(
        x,
        2,
        padding="VALID",
        activation_fn=None,
        weights_initializer=filled(weights),
        biases_initializer=None,
    )
    windows = np.lib.stride_tricks.sliding_window_view(x, (2, 2), axis=(1, 2))

    expected = np.einsum("bhwcij,ij->bhwc", windows, weights[:, :, 0, 0])
    np.testing.assert_allclose(await evaluated(y), expected, rtol=1e-5, atol=1e-6)


async def test_pooling_takes_maxima_and_means():
    x = drawn(1, 4, 4, 2)
    parts = x.reshape(1, 2, 2, 2, 2, 2)
    largest, mean = layers.max_pool2d(x, [2, 2]), layers.avg_pool2d(x, 2)

    assert (largest.op.name, mean.op.name) == ("MaxPool2D/MaxPool", "AvgPool2D/AvgPool")
    found = await evaluated([largest, mean])
    np.testing.assert_allclose(found[0], parts.max((2, 4)), rtol=1e-6)
    np.testing.assert_allclose(found[1], parts.mean((2, 4)), rtol=1e-5, atol=1e-6)


def test_volumes_are_pooled():
    x = ax.placeholder(ax.float32, [2, 4, 6, 4, 3])

    assert layers.max_pool3d(x, 2).shape.as_list() == [2, 2, 3, 2, 3]
    assert layers.avg_pool3d(x, 2, stride=1, padding="SAME").shape.as_list() == [2, 4, 6, 4, 3]


async def test_pooling_of_any_rank():
    x = drawn(1, 6, 2)
    found = await evaluated([layers.pool(x, 2, "MAX", stride=2), layers.pool(x, [2], "AVG", stride=2)])

    np.testing.assert_allclose(found[0], x.reshape(1, 3, 2, 2).max(2), rtol=1e-6)
    np.testing.assert_allclose(found[1], x.reshape(1, 3, 2, 2).mean(2), rtol=1e-5, atol=1e-6)
    with pytest.raises(GraphValueError, match="Rank"):
        layers.pool(ax.placeholder(ax.float32, [2, 3]), 2, "MAX")
    with pytest.raises(GraphValueError, match="positive integers"):
        layers.pool(x, 0, "MAX")


async def test_examples_without_ids_are_embedded():
    ids = ax.SparseTensor([[0, 0], [0, 1], [2, 0]], ax.constant([1, 0, 2], ax.int64), [3, 2])
    table = drawn(3, 4)
    found = await evaluated(layers.safe_embedding_lookup_sparse(ax.constant(table), ids))

    np.testing.assert_allclose(found, [table[:2].mean(0), np.zeros(4), table[2]], rtol=1e-5)


async def test_a_layer_is_repeated_and_stacked():
    x = drawn(2, 4)
    layers.repeat(x, 2, layers.fully_connected, 4, scope="r")
    layers.stack(x, layers.fully_connected, [3, 2], scope="s")
    layers.stack(x, layers.linear, [(3,), 2])

    assert [name for name in names(ax.global_variables()) if name.endswith("weights")] == [
        "r/r_1/weights",
        "r/r_2/weights",
        "s/s_1/weights",
        "s/s_2/weights",
        "Stack/fully_connected_1/weights",
        "Stack/fully_connected_2/weights",
    ]
    with pytest.raises(GraphValueError, match="list or tuple"):
        layers.stack(x, layers.fully_connected, 3)  # type: ignore[arg-type]


async def test_dropout_scales_what_remains():
    x = np.ones((100, 10), np.float32)
    dropped, kept = layers.dropout(x, 0.8, seed=1), layers.dropout(x, 0.8, is_training=False)
    found = await evaluated([dropped, kept])

    assert set(np.unique(found[0])) == {np.float32(0), np.float32(1.25)}
    assert abs(np.mean(found[0] > 0) - 0.8) < 0.05
    np.testing.assert_array_equal(found[1], x)


async def test_tensors_change_their_form():
    x = drawn(2, 3, 4)
    made = [
        layers.flatten(x),
        layers.one_hot_encoding([1, 0], 3, on_value=2.0),
        layers.softmax(x),
        layers.maxout(x, 2),
        layers.unit_norm(ax.constant(x), 1),
        layers.poincare_normalize(x * 3, axis=2),
    ]
    found = await evaluated(made)

    assert made[0].shape.as_list() == [2, 12]
    np.testing.assert_array_equal(found[0], x.reshape(2, 12))
    np.testing.assert_array_equal(found[1], [[0, 2, 0], [2, 0, 0]])
    np.testing.assert_allclose(found[2], np.exp(x) / np.exp(x).sum(-1, keepdims=True), rtol=1e-5)
    np.testing.assert_array_equal(found[3], x.reshape(2, 3, 2, 2).max(-1))
    np.testing.assert_allclose(found[4], x / np.sqrt(1e-7 + (x**2).sum(1, keepdims=True)), rtol=1e-5)
    lengths = np.linalg.norm(x * 3, axis=2, keepdims=True)
    np.testing.assert_allclose(found[5], x * 3 * np.minimum((1 - 1e-5) / lengths, 1), rtol=1e-5)
    with pytest.raises(GraphValueError, match="multiple"):
        layers.maxout(x, 3)
    with pytest.raises(GraphValueError, match="dim must"):
        layers.unit_norm(ax.constant(x), 3)


async def test_images_are_sequences_and_back():
    x = drawn(2, 3, 4, 5)
    sequence = layers.images_to_sequence(x)
    back = layers.sequence_to_images(sequence, 3)
    found = await evaluated([sequence, back])

    np.testing.assert_array_equal(found[0], x.transpose(2, 0, 1, 3).reshape(4, 6, 5))
    np.testing.assert_array_equal(found[1], x)


async def test_elements_other_than_a_token_are_sparse():
    found = await evaluated(layers.dense_to_sparse([[1, 0], [2, 3]]))

    np.testing.assert_array_equal(found.indices, [[0, 0], [1, 0], [1, 1]])
    np.testing.assert_array_equal(found.values, [1, 2, 3])
    np.testing.assert_array_equal(found.dense_shape, [2, 2])


async def test_biases_are_added():
    x, biases = drawn(2, 3), drawn(3, seed=1)
    y = layers.bias_add(x, initializer=filled(biases), activation_fn=ax.nn.relu)

    assert names(ax.global_variables()) == ["BiasAdd/biases"]
    np.testing.assert_allclose(await evaluated(y), np.maximum(x + biases, 0), rtol=1e-6)
    with pytest.raises(GraphValueError, match="4D"):
        layers.bias_add(x, data_format="NCHW")


async def test_spatial_softmax_finds_the_place_of_a_maximum():
    x = np.zeros((1, 3, 5, 2), np.float32)
    x[0, 0, 4, 0] = x[0, 1, 2, 1] = 100
    y = layers.spatial_softmax(ax.constant(x))

    assert names(ax.trainable_variables()) == ["spatial_softmax/temperature"]
    np.testing.assert_allclose(await evaluated(y), [[-1, 1, 0, 0]], atol=1e-5)


@pytest.mark.parametrize(("mode", "count"), [("FAN_IN", 60), ("FAN_OUT", 120), ("FAN_AVG", 90)])
async def test_initializers_scale_by_inputs_and_outputs(mode, count):
    dims = [2, 3, 10, 20]
    uniform = layers.variance_scaling_initializer(2.0, mode, uniform=True, seed=1)(dims)
    normal = layers.variance_scaling_initializer(2.0, mode, seed=1)(dims)
    found = await evaluated([uniform, normal])

    assert np.abs(found[0]).max() <= np.sqrt(6 / count)
    assert np.isclose(np.var(found[0]), 2 / count, rtol=0.1)
    assert np.abs(found[1]).max() <= 2 * np.sqrt(2.6 / count)
    assert np.isclose(np.var(found[1]), 2 / count, rtol=0.1)


async def test_xavier_is_the_initializer_of_weights():
    found = await evaluated(layers.xavier_initializer(seed=1)([100, 50]))

    assert np.abs(found).max() <= np.sqrt(6 / 150)
    with pytest.raises(GraphTypeError, match="mode"):
        layers.variance_scaling_initializer(mode="FAN")
    with pytest.raises(GraphTypeError, match="floating"):
        layers.variance_scaling_initializer(dtype=ax.int32)


async def test_regularizers_return_scaled_penalties():
    weights = drawn(3, 4)
    made = [
        layers.l1_regularizer(0.5)(ax.constant(weights)),
        layers.l2_regularizer(0.5)(ax.constant(weights)),
        layers.l1_l2_regularizer(0.5, 0.25)(ax.constant(weights)),
        layers.sum_regularizer([layers.l1_regularizer(0.5), None])(ax.constant(weights)),
    ]
    found = await evaluated(made)
    l1, l2 = np.abs(weights).sum(), (weights**2).sum() / 2

    np.testing.assert_allclose(found, [l1 / 2, l2 / 2, l1 / 2 + l2 / 4, l1 / 2], rtol=1e-5)


async def test_regularization_is_applied_to_a_collection():
    weights = drawn(3, 4)
    total = layers.apply_regularization(
        layers.l2_regularizer(1.0), [ax.constant(weights), ax.constant(weights)]
    )

    assert ax.losses.get_regularization_losses() == [total]
    np.testing.assert_allclose(await evaluated(total), (weights**2).sum(), rtol=1e-5)
    with pytest.raises(GraphValueError, match="No weights"):
        layers.apply_regularization(layers.l2_regularizer(1.0))


def test_scales_of_regularizers_are_checked():
    assert layers.l1_regularizer(0.0)(None) is None
    assert layers.sum_regularizer([None]) is None
    for make in (layers.l1_regularizer, layers.l2_regularizer, layers.l1_l2_regularizer):
        with pytest.raises(GraphValueError, match="integer"):
            make(1)
        with pytest.raises(GraphValueError, match="less than 0"):
            make(-1.0)


async def test_sequences_are_embedded():
    ids, table = [[0, 2], [2, 1]], drawn(3, 4)
    plain = layers.embed_sequence(ids, 3, 4, initializer=filled(table), scope="e")
    once = layers.embed_sequence(ids, 3, 4, unique=True, scope="e", reuse=True)
    bag = layers.bow_encoder(ids, 3, 4, initializer=filled(table))
    found = await evaluated([plain, once, bag])

    assert names(ax.trainable_variables()) == ["e/embeddings", "bow_encoder/embeddings"]
    np.testing.assert_array_equal(found[0], table[np.array(ids)])
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_allclose(found[2], found[0].mean(1), rtol=1e-5)
    with pytest.raises(GraphValueError, match="Must specify"):
        layers.embed_sequence(ids, 3)


async def test_summaries_are_by_rank_and_name():
    x = layers.relu(drawn(2, 3), 4, scope="fc")
    ax.add_to_collection(GraphKeys.ACTIVATIONS, x)
    made = [*layers.summarize_tensors([ax.constant(1.0, name="one")]), *layers.summarize_activations()]
    layers.summarize_variables("fc/w")
    tags = [
        value.tag
        for text in await evaluated(ax.get_collection(GraphKeys.SUMMARIES))
        for value in ax.Summary.FromString(text).value
    ]

    assert [summary.op.type for summary in made] == ["ScalarSummary", "HistogramSummary"]
    assert tags == ["one_summary", "fc/Relu/zeros", "fc/Relu/activation", "fc/weights_summary"]
