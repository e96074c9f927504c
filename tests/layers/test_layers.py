"""The layers of `ax.layers`: values by NumPy, variables, updates and errors."""

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


def drawn(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


async def evaluated(fetches: Any, *updates: Any) -> Any:
    """The values of fetches after the initial values of all variables were set and the updates run."""
    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        for update in updates:
            await session.run(update)
        return await session.run(fetches)


def filled(value: Any) -> Any:
    return ax.constant_initializer(value)


async def test_dense_multiplies_and_adds():
    x, kernel, bias = drawn(2, 4), drawn(4, 3, seed=1), drawn(3, seed=2)
    y = ax.layers.dense(x, 3, ax.nn.relu, kernel_initializer=filled(kernel), bias_initializer=filled(bias))

    assert y.op.name == "dense/Relu"
    assert [variable.name for variable in ax.trainable_variables()] == ["dense/kernel:0", "dense/bias:0"]
    np.testing.assert_allclose(await evaluated(y), np.maximum(x @ kernel + bias, 0), rtol=1e-5, atol=1e-6)


async def test_dense_applies_to_the_last_axis():
    x, kernel = drawn(2, 5, 4), drawn(4, 3, seed=1)
    placeholder = ax.placeholder(ax.float32, [None, 5, 4])
    y = ax.layers.dense(placeholder, 3, use_bias=False, kernel_initializer=filled(kernel))

    assert y.shape.as_list() == [None, 5, 3]
    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        np.testing.assert_allclose(await session.run(y, {placeholder: x}), x @ kernel, rtol=1e-5, atol=1e-6)


async def test_dense_of_16_bits_has_variables_of_16_bits():
    y = ax.layers.dense(np.ones([1, 2], np.float16), 1, kernel_initializer="ones")

    assert ax.trainable_variables()[0].dtype.base_dtype == ax.float16
    assert (await evaluated(y)).tolist() == [[2.0]]


async def test_dropout_is_the_identity_outside_of_training():
    x = drawn(3, 4)

    np.testing.assert_array_equal(await evaluated(ax.layers.dropout(x)), x)


async def test_dropout_in_training_drops_and_scales():
    training = ax.placeholder(ax.bool, [])
    y = ax.layers.dropout(np.ones([100, 10], np.float32), 0.25, [None, 1], training=training)

    async with ax.Session() as session:
        value = await session.run(y, {training: True})
        assert set(value[:, 0].tolist()) == {0.0, float(np.float32(4 / 3))}
        assert (value == value[:, :1]).all()
        assert (await session.run(y, {training: False}) == 1).all()


async def test_flatten_joins_all_axes_but_the_first():
    x = drawn(2, 3, 4)

    last, first = ax.layers.flatten(x), ax.layers.flatten(x, data_format="channels_first")

    np.testing.assert_array_equal(await evaluated(last), x.reshape(2, 12))
    np.testing.assert_array_equal(await evaluated(first), x.transpose(0, 2, 1).reshape(2, 12))


async def test_conv1d_slides_the_kernel():
    x, kernel = drawn(2, 7, 3), drawn(3, 3, 2, seed=1)
    y = ax.layers.conv1d(x, 2, 3, use_bias=False, kernel_initializer=filled(kernel))
    causal = ax.layers.conv1d(x, 2, 3, padding="causal", use_bias=False, kernel_initializer=filled(kernel))

    expected = np.stack([np.einsum("bkc,kco->bo", x[:, place : place + 3], kernel) for place in range(5)], 1)
    np.testing.assert_allclose(await evaluated(y), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose((await evaluated(causal))[:, 2:], expected, rtol=1e-5, atol=1e-6)


async def test_conv2d_of_size_one_is_a_product():
    x, kernel = drawn(2, 3, 3, 4), drawn(1, 1, 4, 5, seed=1)
    y = ax.layers.conv2d(x, 5, 1, 2, kernel_initializer=filled(kernel), bias_initializer="ones")

    expected = x[:, ::2, ::2] @ kernel[0, 0] + 1
    np.testing.assert_allclose(await evaluated(y), expected, rtol=1e-5, atol=1e-6)


KINDS: dict[str, tuple[int, Any]] = {
    **{f"conv{rank}d": (rank, {"filters": 2, "kernel_size": 2}) for rank in (1, 2, 3)},
    **{f"separable_conv{rank}d": (rank, {"filters": 2, "kernel_size": 2}) for rank in (1, 2)},
    **{f"conv{rank}d_transpose": (rank, {"filters": 2, "kernel_size": 3}) for rank in (2, 3)},
    **{f"max_pooling{rank}d": (rank, {"pool_size": 2}) for rank in (1, 2, 3)},
    **{f"average_pooling{rank}d": (rank, {"pool_size": 2}) for rank in (1, 2, 3)},
}


@pytest.mark.parametrize("padding", ["valid", "same"])
@pytest.mark.parametrize("kind", KINDS)
async def test_layouts_agree(kind: str, padding: str):
    rank, arguments = KINDS[kind]
    x = drawn(2, *(6, 5, 7)[:rank], 3)
    made = []
    for data_format in ("channels_last", "channels_first"):
        given = x if data_format == "channels_last" else np.moveaxis(x, -1, 1)
        placeholder = ax.placeholder_with_default(given, [None, *given.shape[1:]])
        if "pooling" not in kind:
            arguments = {**arguments, "bias_initializer": "ones", "name": "one", "reuse": ax.AUTO_REUSE}
        layer = getattr(ax.layers, kind)
        made.append(layer(placeholder, strides=2, padding=padding, data_format=data_format, **arguments))

    last, first = await evaluated(made)

    assert made[1].shape.as_list() == [None, *first.shape[1:]]
    np.testing.assert_allclose(np.moveaxis(first, 1, -1), last, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("padding", ["valid", "same"])
@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
@pytest.mark.parametrize(
    ("name", "rank", "arguments"),
    [
        ("Conv1D", 1, (2, 3, 2)),
        ("Conv2D", 2, (2, 3, 2)),
        ("Conv3D", 3, (2, 2, 1)),
        ("SeparableConv2D", 2, (2, 3, 1)),
        ("Conv2DTranspose", 2, (2, 3, 2)),
        ("Conv3DTranspose", 3, (2, 2, 3)),
        ("MaxPooling1D", 1, (3, 2)),
        ("AveragePooling2D", 2, (2, 3)),
        ("MaxPooling3D", 3, (2, 2)),
    ],
)
def test_shapes_are_computed(name: str, rank: int, arguments: Any, data_format: str, padding: str):
    spatial = [9, 8, 7][:rank]
    shape = [4, *spatial, 3] if data_format == "channels_last" else [4, 3, *spatial]
    layer = getattr(ax.layers, name)(*arguments, padding=padding, data_format=data_format)

    output = layer(ax.placeholder(ax.float32, shape))

    assert layer.compute_output_shape(shape).as_list() == output.shape.as_list()


async def test_max_and_average_pooling():
    x = drawn(1, 4, 6, 2)
    windows = x.reshape(1, 2, 2, 3, 2, 2)

    most, mean = ax.layers.max_pooling2d(x, 2, 2), ax.layers.average_pooling2d(x, (2, 2), (2, 2))

    np.testing.assert_array_equal(await evaluated(most), windows.max((2, 4)))
    np.testing.assert_allclose(await evaluated(mean), windows.mean((2, 4)), rtol=1e-5, atol=1e-6)


def normalized(x: Any, mean: Any, variance: Any) -> Any:
    return (x - mean) / np.sqrt(variance + 1e-3)


@pytest.mark.parametrize("shape", [(8, 3), (4, 5, 3), (2, 4, 5, 3)])
async def test_batch_normalization_in_training_uses_the_batch(shape: tuple[int, ...]):
    x = drawn(*shape)
    axes = tuple(range(len(shape) - 1))

    y = ax.layers.batch_normalization(x, training=True)

    np.testing.assert_allclose(
        await evaluated(y), normalized(x, x.mean(axes), x.var(axes)), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("training", ["bool", "tensor"])
async def test_updates_of_batch_normalization_move_the_averages(resource: bool, training: str):
    x = drawn(16, 3)
    flag = True if training == "bool" else ax.placeholder_with_default(True, [])
    with ax.variable_scope("scope", use_resource=resource):
        ax.layers.batch_normalization(x, momentum=0.9, training=flag)

    updates = ax.get_collection(ax.GraphKeys.UPDATE_OPS)
    mean, variance = await evaluated(ax.global_variables()[2:], updates, updates)

    assert len(updates) == 2
    np.testing.assert_allclose(mean, x.mean(0) * (1 - 0.9**2), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(variance, x.var(0) + (1 - x.var(0)) * 0.9**2, rtol=1e-4)


async def test_batch_normalization_outside_of_training_uses_the_averages():
    x = drawn(4, 3)
    mean, variance = drawn(3, seed=1), 1 + drawn(3, seed=2) ** 2
    y = ax.layers.batch_normalization(
        x, moving_mean_initializer=filled(mean), moving_variance_initializer=filled(variance)
    )

    assert ax.get_collection(ax.GraphKeys.UPDATE_OPS) == []
    np.testing.assert_allclose(await evaluated(y), normalized(x, mean, variance), rtol=1e-4, atol=1e-5)


async def test_an_adjustment_applies_in_training():
    x = drawn(8, 3)

    y = ax.layers.batch_normalization(
        x, training=True, adjustment=lambda shape: (ax.constant(2.0), ax.constant(1.0))
    )

    expected = normalized(x, x.mean(0), x.var(0)) * 2 + 1
    np.testing.assert_allclose(await evaluated(y), expected, rtol=1e-4, atol=1e-5)


def test_averages_are_not_partitioned():
    with ax.variable_scope("scope", partitioner=ax.fixed_size_partitioner(2)):
        ax.layers.batch_normalization(ax.placeholder(ax.float32, [None, 4]))

    names = [variable.op.name for variable in ax.global_variables()]
    assert names[-2:] == [
        "scope/batch_normalization/moving_mean",
        "scope/batch_normalization/moving_variance",
    ]
    assert names[0] == "scope/batch_normalization/gamma/part_0"


def test_half_precision_is_normalised_by_single_precision():
    y = ax.layers.batch_normalization(ax.placeholder(ax.float16, [None, 3, 3, 2]), training=True)

    assert y.dtype == ax.float16
    assert {variable.dtype.base_dtype for variable in ax.global_variables()} == {ax.float32}


def test_virtual_batches_are_refused():
    with pytest.raises(GraphValueError, match="virtual batches are not supported"):
        ax.layers.BatchNormalization(virtual_batch_size=4)


def test_unknown_names_are_refused():
    with pytest.raises(GraphValueError, match="Unknown activation function: 'steep'"):
        ax.layers.Dense(3, "steep")
    with pytest.raises(GraphValueError, match="Unknown initializer: 'tall'"):
        ax.layers.Dense(3, kernel_initializer="tall")
    with pytest.raises(GraphValueError, match="Could not interpret activation"):
        ax.layers.Dense(3, 5)


def test_dense_requires_a_floating_dtype():
    with pytest.raises(GraphTypeError, match="can only be built with a floating-point dtype"):
        ax.layers.dense(ax.placeholder(ax.int32, [None, 2]), 3)
