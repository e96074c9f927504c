"""Layers of `ax.keras`, called on tensors, against Keras in a graph: names, outputs, losses and updates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aioexec as ax

pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning"),
]
IMAGES = np.random.default_rng(1).normal(size=(2, 6, 6, 3)).astype(np.float32)
STEPS = IMAGES[:, 0]


def scoped(lib: Any, x: Any) -> Any:
    layers = lib.keras.layers
    with lib.variable_scope("a"):
        shared = layers.Dense(3, activation="relu", kernel_initializer="ones")
        outputs = [shared(x), shared(x), layers.Dense(2, kernel_initializer="ones")(x)]
    with lib.name_scope("b"):
        outputs.append(layers.Dense(2, bias_initializer="ones", name="mine")(x))
    return outputs, [shared.name, shared.kernel, *shared.weights]


def regularized(lib: Any, x: Any) -> Any:
    layer = lib.keras.layers.Dense(
        2, kernel_initializer="ones", kernel_regularizer=lib.keras.regularizers.l2(0.1)
    )
    output = layer(x)
    return [output, *layer.losses], [lib.get_collection("regularization_losses")]


def normalized(lib: Any, x: Any) -> Any:
    layer = lib.keras.layers.BatchNormalization(momentum=0.5)
    plain, trained = layer(x), layer(x, training=True)
    return [plain, trained], [
        len(layer.updates),
        lib.get_collection("update_ops"),
        *layer.non_trainable_weights,
    ]


def dropped(lib: Any, x: Any) -> Any:
    layer = lib.keras.layers.Dropout(0.5)
    never = layer(x, training=False)
    return [layer(x), never], [layer.name, lib.keras.backend.learning_phase()]


def of(name: str, *args: Any, **kwargs: Any) -> Callable[[Any, Any], Any]:
    def build(lib: Any, x: Any) -> Any:
        layer = getattr(lib.keras.layers, name)(*args, **kwargs)
        return [layer(x)], [layer.name, *layer.weights]

    build.__name__ = name
    return build


def functions(lib: Any, x: Any) -> Any:
    layers, activations = lib.keras.layers, lib.keras.activations
    outputs = [
        layers.Lambda(lambda value, factor: value * factor, arguments={"factor": 3.0})(x),
        layers.Add()([x, x, x]),
        layers.Multiply()([x, x]),
        layers.Concatenate(axis=1)([x, x]),
        lib.identity(layers.Embedding(4, 2, embeddings_initializer="ones")(lib.abs(x))),
        lib.keras.backend.in_train_phase(x, lambda: -x),
        *(activations.get(name)(x) for name in ACTIVATIONS),
        activations.relu(x, 0.5, 0.4, 0.1),
        activations.relu(x, alpha=0.1),
        activations.elu(x, 0.5),
        activations.softmax(x, axis=0),
    ]
    return outputs, [
        lib.keras.backend.int_shape(x),
        lib.keras.backend.ndim(x),
        lib.keras.backend.is_sparse(x),
    ]


ACTIVATIONS = [
    "relu",
    "elu",
    "selu",
    "softplus",
    "softsign",
    "softmax",
    "sigmoid",
    "tanh",
    "exponential",
    "hard_sigmoid",
    "linear",
]
CASES: list[tuple[Callable[[Any, Any], Any], np.ndarray[Any, Any]]] = [
    (scoped, STEPS[:, 0]),
    (regularized, STEPS[:, 0]),
    (normalized, IMAGES),
    (dropped, STEPS),
    (functions, STEPS),
    (of("Flatten"), IMAGES),
    (of("Conv1D", 2, 3, kernel_initializer="ones"), STEPS),
    (of("Conv2D", 2, (3, 2), padding="same", activation="tanh", kernel_initializer="ones"), IMAGES),
    (of("SeparableConv2D", 2, 3, depthwise_initializer="ones", pointwise_initializer="ones"), IMAGES),
    (of("Conv2DTranspose", 2, 3, strides=2, kernel_initializer="ones"), IMAGES),
    (of("MaxPooling1D"), STEPS),
    (of("MaxPool2D", padding="same"), IMAGES),
    (of("AveragePooling1D", 3, 1), STEPS),
    (of("AvgPool2D", (2, 3)), IMAGES),
    (of("GlobalAveragePooling1D"), STEPS),
    (of("GlobalAveragePooling2D"), IMAGES),
    (of("GlobalMaxPooling1D"), STEPS),
    (of("GlobalMaxPooling2D", data_format="channels_first"), IMAGES),
    (of("Activation", "sigmoid"), STEPS),
    (of("LeakyReLU"), STEPS),
    (of("ReLU"), STEPS),
    (of("Reshape", (3, -1)), STEPS),
    (of("Permute", (2, 1)), STEPS),
    (of("ZeroPadding2D", ((1, 0), (2, 1))), IMAGES),
]


def described(facts: list[Any]) -> list[Any]:
    """Names of nodes, and other facts as they are."""
    return [getattr(fact, "name", fact) for fact in facts]


@pytest.mark.parametrize(("build", "pixels"), CASES, ids=lambda each: getattr(each, "__name__", ""))
async def test_a_layer_is_that_of_keras(tf, build, pixels):
    with tf.Graph().as_default(), tf.Session() as session:
        outputs, facts = build(tf, tf.constant(pixels))
        session.run(tf.global_variables_initializer())
        theirs = session.run([each for each in outputs if "mine" not in each.name])
        names = [each.name.rpartition("/")[0] for each in outputs], [v.name for v in tf.global_variables()]
        their_facts = described(facts)
    with ax.Graph().as_default():
        own, facts = build(ax, ax.constant(pixels))
        async with ax.Session() as own_session:
            await own_session.run(ax.global_variables_initializer())
            ours = await own_session.run([each for each in own if "mine" not in each.name])
        own_names = [each.name.rpartition("/")[0] for each in own], [v.name for v in ax.global_variables()]

    assert described(facts) == their_facts
    assert own_names == names
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
