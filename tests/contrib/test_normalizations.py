"""Normalization of `ax.contrib.layers`: values, and updates of moving averages, by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphValueError
from aioexec.graph.keys import GraphKeys
from tests.contrib.values import drawn, evaluated, filled, names

layers = ax.contrib.layers
EPSILON = 0.001
LAYER: dict[str, Any] = {}
FUSED: dict[str, Any] = {"updates_collections": "mine"}
PLAIN: dict[str, Any] = {"fused": False}
WAYS = {
    "layer": LAYER,
    "layer without the fused op": PLAIN,
    "fused with a collection": FUSED,
    "plain with a collection": {**FUSED, **PLAIN},
}


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


def normal(x: Any, axes: tuple[int, ...], epsilon: float) -> Any:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def variance_by_batch(x: Any, is_fused: bool) -> Any:
    """The variance that the moving average gets: the fused op's divides by the count minus one."""
    count = x.size // x.shape[-1]
    return x.var((0, 1, 2)) * (count / (count - 1) if is_fused else 1)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
async def test_a_batch_is_normalized_and_counted(way, data_format):
    x, gamma, beta = drawn(4, 3, 3, 2), drawn(2, seed=1), drawn(2, seed=2)
    given = x if data_format == "NHWC" else x.transpose(0, 3, 1, 2)
    y = layers.batch_norm(
        ax.constant(given),
        decay=0.9,
        scale=True,
        param_initializers={"gamma": filled(gamma), "beta": filled(beta)},
        data_format=data_format,
        **WAYS[way],
    )
    updates = ax.get_collection(WAYS[way].get("updates_collections", GraphKeys.UPDATE_OPS))
    found, mean, variance = await evaluated([y, *ax.global_variables()[-2:]], updates)

    assert sorted(names(ax.trainable_variables())) == ["BatchNorm/beta", "BatchNorm/gamma"]
    assert names(ax.global_variables()[-2:]) == ["BatchNorm/moving_mean", "BatchNorm/moving_variance"]
    assert len(updates) == 2
    expected = normal(x, (0, 1, 2), EPSILON) * gamma + beta
    expected = expected if data_format == "NHWC" else expected.transpose(0, 3, 1, 2)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(mean, 0.1 * x.mean((0, 1, 2)), rtol=1e-4, atol=1e-6)
    is_fused = WAYS[way].get("fused") is None
    np.testing.assert_allclose(variance, 0.9 + 0.1 * variance_by_batch(x, is_fused), rtol=1e-4)


@pytest.mark.parametrize("way", [*WAYS.values(), {"updates_collections": None}])
async def test_outside_of_training_the_averages_count(way):
    x, mean, variance = drawn(4, 3, 3, 2), drawn(2, seed=1), drawn(2, seed=2) + 2
    first = {"moving_mean": filled(mean), "moving_variance": filled(variance)}
    y = layers.batch_norm(ax.constant(x), is_training=False, param_initializers=first, **way)

    expected = (x - mean) / np.sqrt(variance + EPSILON)
    np.testing.assert_allclose(await evaluated(y), expected, rtol=1e-4, atol=1e-5)
    assert ax.get_collection(GraphKeys.UPDATE_OPS) == ax.get_collection("mine") == []


@pytest.mark.parametrize("dims", [(4, 3, 3, 2), (6, 2), (4, 3, 2)])
@pytest.mark.parametrize("options", [LAYER, PLAIN])
async def test_updates_in_place_come_with_the_outputs(dims, options):
    x = drawn(*dims)
    axes = tuple(range(len(dims) - 1))
    y = layers.batch_norm(ax.constant(x), decay=0.9, updates_collections=None, scope="bn", **options)
    (mean,) = [variable for variable in ax.global_variables() if variable.op.name == "bn/moving_mean"]

    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        found = await session.run(y)
        np.testing.assert_allclose(await session.run(mean), 0.1 * x.mean(axes), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found, normal(x, axes, EPSILON), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dims", [(4, 3, 3, 2), (6, 2), (4, 3, 2)])
@pytest.mark.parametrize("collections", [None, "mine", GraphKeys.UPDATE_OPS])
async def test_training_is_decided_in_a_run(dims, collections):
    x = drawn(*dims)
    axes = tuple(range(len(dims) - 1))
    training = ax.placeholder(ax.bool, [])
    y = layers.batch_norm(ax.constant(x), decay=0.5, is_training=training, updates_collections=collections)
    updates = ax.get_collection(collections) if collections else []
    mean = [variable for variable in ax.global_variables() if variable.op.name == "BatchNorm/moving_mean"]

    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        test, *_ = await session.run([y, updates], {training: False})
        (before,) = await session.run(mean)
        train, *_ = await session.run([y, updates], {training: True})
        (after,) = await session.run(mean)
    np.testing.assert_allclose(test, x / np.sqrt(1 + EPSILON), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(train, normal(x, axes, EPSILON), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(before, 0)
    np.testing.assert_allclose(after, 0.5 * x.mean(axes), rtol=1e-4, atol=1e-6)


async def test_examples_have_weights():
    x, weights = drawn(3, 4, 2), np.array([1, 0, 2], np.float32)
    y = layers.batch_norm(ax.constant(x), batch_weights=weights)
    repeated = x[[0, 2, 2]]

    expected = (x - repeated.mean((0, 1))) / np.sqrt(repeated.var((0, 1)) + EPSILON)
    np.testing.assert_allclose(await evaluated(y), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(GraphValueError, match="renorm is not supported"):
        layers.batch_norm(ax.constant(x), batch_weights=weights, renorm=True)


async def test_the_mean_is_corrected_for_its_start():
    x = drawn(6, 2)
    layers.batch_norm(ax.constant(x), decay=0.9, zero_debias_moving_mean=True)
    (mean,) = [each for each in ax.global_variables() if each.op.name == "BatchNorm/moving_mean"]
    found = await evaluated(mean, ax.get_collection(GraphKeys.UPDATE_OPS))

    prefix = "BatchNorm/BatchNorm/moving_mean/"
    assert {f"{prefix}biased", f"{prefix}local_step"} < set(names(ax.global_variables()))
    np.testing.assert_allclose(found, x.mean(0), rtol=1e-4, atol=1e-6)


def test_variables_of_normalization_are_in_their_collections():
    collections = {"beta": ["b"], "moving_mean": ["m"]}
    for way in WAYS.values():
        layers.batch_norm(ax.placeholder(ax.float32, [2, 3, 3, 4]), variables_collections=collections, **way)

    assert len(ax.get_collection("b")) == len(ax.get_collection("m")) == len(WAYS)
    assert len(ax.get_collection(GraphKeys.MODEL_VARIABLES)) == 3 * len(WAYS)


def test_normalization_needs_known_channels():
    with pytest.raises(GraphValueError, match="NCHW or NHWC"):
        layers.batch_norm(ax.placeholder(ax.float32, [2, 3]), data_format="CHWN")
    with pytest.raises(GraphValueError, match="undefined"):
        layers.batch_norm(ax.placeholder(ax.float32, [2, None]))
    with pytest.raises(GraphValueError, match="undefined rank"):
        layers.batch_norm(ax.placeholder(ax.float32), updates_collections=None)
    for function in (layers.layer_norm, layers.instance_norm, layers.group_norm):
        with pytest.raises(GraphValueError, match="undefined rank"):
            function(ax.placeholder(ax.float32))


async def test_layer_norm_is_over_the_axes_of_an_example():
    x, gamma, beta = drawn(2, 3, 4), drawn(4, seed=1), drawn(4, seed=2)
    y = layers.layer_norm(ax.constant(x), activation_fn=ax.nn.relu)
    last = layers.layer_norm(ax.constant(x), begin_norm_axis=-1, begin_params_axis=1, scope="last")
    beta_of, gamma_of = ax.global_variables()[:2]
    found = await evaluated([y, last], [beta_of.assign(beta), gamma_of.assign(gamma)])

    assert names(ax.global_variables()) == ["LayerNorm/beta", "LayerNorm/gamma", "last/beta", "last/gamma"]
    assert ax.global_variables()[-1].shape.as_list() == [3, 4]
    np.testing.assert_allclose(
        found[0], np.maximum(normal(x, (1, 2), 1e-12) * gamma + beta, 0), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(found[1], normal(x, (2,), 1e-12), rtol=1e-4, atol=1e-5)
    with pytest.raises(GraphValueError, match="rank"):
        layers.layer_norm(ax.constant(x), begin_norm_axis=3)
    with pytest.raises(GraphValueError, match="fully defined"):
        layers.layer_norm(ax.placeholder(ax.float32, [2, None]))


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
async def test_instance_norm_is_over_places(data_format):
    x, gamma = drawn(2, 3, 4, 5), drawn(5 if data_format == "NHWC" else 3, seed=1)
    y = layers.instance_norm(
        ax.constant(x), param_initializers={"gamma": filled(gamma)}, data_format=data_format
    )
    wide = gamma if data_format == "NHWC" else gamma.reshape(3, 1, 1)

    assert names(ax.global_variables()) == ["InstanceNorm/beta", "InstanceNorm/gamma"]
    axes = (1, 2) if data_format == "NHWC" else (2, 3)
    np.testing.assert_allclose(await evaluated(y), normal(x, axes, 1e-6) * wide, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("close", [False, True])
async def test_group_norm_is_over_groups_of_channels(close):
    x, gamma, beta = drawn(2, 3, 4, 6), drawn(6, seed=1), drawn(6, seed=2)
    first = {"gamma": filled(gamma), "beta": filled(beta)}
    image = ax.placeholder_with_default(x, [None, None, 4, 6])
    y = layers.group_norm(image, 2, param_initializers=first, mean_close_to_zero=close)
    parts = normal(x.reshape(2, 3, 4, 2, 3), (1, 2, 4), 1e-6).reshape(x.shape)

    assert names(ax.global_variables()) == ["GroupNorm/beta", "GroupNorm/gamma"]
    assert y.shape.as_list() == [None, None, 4, 6]
    np.testing.assert_allclose(await evaluated(y), parts * gamma + beta, rtol=1e-3, atol=1e-4)


async def test_group_norm_takes_other_axes():
    x = drawn(2, 6, 3, 4)
    y = layers.group_norm(
        ax.constant(x), 3, channels_axis=1, reduction_axes=(2, 3), center=False, scale=False
    )

    expected = normal(x.reshape(2, 3, 2, 3, 4), (2, 3, 4), 1e-6).reshape(x.shape)
    np.testing.assert_allclose(await evaluated(y), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": 7}, "Invalid groups"),
        ({"groups": 4}, "commensurate"),
        ({"channels_axis": 4}, "out of bounds"),
        ({"groups": 2, "reduction_axes": (-9,)}, "out of bounds"),
        ({"groups": 2, "reduction_axes": (-1,)}, "exclusive"),
    ],
)
def test_group_norm_checks_its_axes(options: Any, message: str):
    with pytest.raises(GraphValueError, match=message):
        layers.group_norm(ax.placeholder(ax.float32, [2, 3, 4, 6]), **options)
