"""Layers of `ax.keras` called on tensors: names, learning phase, wrappers; `test_keras_layers_interop` has the values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError

layers, backend = ax.keras.layers, ax.keras.backend


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as made:
        yield made


def test_layers_are_numbered_in_their_graph_and_named_by_name_scopes():
    x = ax.ones([2, 3])
    with ax.name_scope("outer"):
        layers.Dense(2)(x)
    second = layers.Dense(2)
    second(x)
    second(x)

    assert [variable.op.name for variable in ax.global_variables()] == [
        "outer/dense/kernel",
        "outer/dense/bias",
        "dense_1/kernel",
        "dense_1/bias",
    ]
    assert isinstance(second, layers.Layer)
    assert isinstance(second, ax.layers.Layer)


async def test_a_step_that_feeds_the_learning_phase_trains():
    dropped = layers.Dropout(0.999)(ax.ones([1000]))
    phase = backend.learning_phase()

    async with ax.Session() as session:
        assert (await session.run(dropped)).sum() == 1000
        assert (await session.run(dropped, {phase: True}) == 0).sum() > 900
    assert phase.op.name == "keras_learning_phase"


def test_the_learning_phase_can_be_set():
    backend.set_learning_phase(1)

    assert backend.learning_phase() == 1
    assert backend.in_train_phase(ax.constant(2.0), ax.constant(3.0)).op.type == "Identity"
    with pytest.raises(GraphValueError, match="to be 0 or 1"):
        backend.set_learning_phase(2)
    with pytest.raises(GraphValueError, match="phase of 0 or 1, got 3"):
        backend.in_train_phase(1, 2, training=3)


class Doubled(layers.Wrapper):
    def call(self, inputs: Any) -> Any:
        return self.layer.call(inputs) * 2.0


async def test_a_wrapper_builds_and_holds_its_layer():
    wrapper = Doubled(layers.Dense(1, kernel_initializer="ones"))
    doubled = wrapper(ax.ones([1, 3]))

    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        np.testing.assert_array_equal(await session.run(doubled), [[6.0]])
    assert [weight.op.name for weight in wrapper.trainable_weights] == ["doubled/kernel", "doubled/bias"]
    with pytest.raises(GraphTypeError, match="not a supported layer type"):
        Doubled(3)  # type: ignore[arg-type]


def test_a_weight_of_an_own_layer_has_the_defaults_of_keras():
    layer = layers.Layer(name="own", trainable=False)
    weight = layer.add_weight("w", [2, 2], regularizer=ax.keras.regularizers.l2(1.0))
    counter = layer.add_weight("count", [], ax.int64, trainable=True)

    assert (weight.dtype.base_dtype, counter.dtype.base_dtype) == (ax.float32, ax.int64)
    assert ax.trainable_variables() == []
    assert len(layer.losses) == 1
    assert ax.get_collection(ax.GraphKeys.REGULARIZATION_LOSSES) == []


def test_merging_needs_two_inputs():
    with pytest.raises(GraphValueError, match="at least 2 inputs"):
        layers.Add()([ax.ones([2])])


def test_shapes_and_kinds_of_tensors_are_known():
    sparse = ax.SparseTensor(np.zeros((1, 1), np.int64), [1.0], [3])

    assert backend.int_shape(ax.placeholder(ax.float32, [None, 3])) == (None, 3)
    assert backend.int_shape(ax.placeholder(ax.float32)) is None
    assert backend.ndim(ax.ones([2, 3])) == 2
    assert backend.is_sparse(sparse)
    assert not backend.is_sparse(ax.ones([1]))
    assert (backend.epsilon(), backend.floatx(), backend.image_data_format()) == (
        1e-7,
        "float32",
        "channels_last",
    )


async def test_the_test_phase_is_the_other_one():
    chosen = backend.in_test_phase(ax.constant(1), ax.constant(2), training=True)

    async with ax.Session() as session:
        assert await session.run(chosen) == 2


def test_activations_are_found_by_name():
    assert ax.keras.activations.get("relu") is ax.keras.activations.relu
    assert ax.keras.activations.get(None) is ax.keras.activations.linear
    with pytest.raises(GraphValueError, match="Unknown activation"):
        ax.keras.activations.get("nothing")
