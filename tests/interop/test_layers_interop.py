"""Layers against TensorFlow's: variables, collections, outputs, gradients, losses and updates of moving averages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from tests.interop.building import Builder, Built, values
from tests.interop.train.engines import Measured, compare, table

pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning"),
]

ROWS, add = table()
ERRORS, add_error = table()
Make = Callable[[Any, Any], Any]

Dims = tuple[int, ...]
LINE: Dims = (10, 4)
LINE_FIRST: Dims = (4, 10)
IMAGE: Dims = (9, 8, 4)
IMAGE_FIRST: Dims = (4, 9, 8)
VOLUME: Dims = (5, 6, 5, 4)
VOLUME_FIRST: Dims = (4, 5, 6, 5)
FIRST = {"data_format": "channels_first"}


def initial(tf: Any) -> Any:
    """Assigns known values to all variables, positive ones to variances."""
    assigned = []
    for place, variable in enumerate(tf.global_variables()):
        is_spread = "variance" in variable.op.name or "stddev" in variable.op.name
        low = 0.5 if is_spread else -1.0
        assigned.append(tf.assign(variable, values(place, *variable.shape.as_list(), low=low, high=1.5)))
    return tf.group(*assigned)


def layer(make: Make, *dims: int | None, batch: int = 3, known: Any = None) -> Builder:
    """The outputs of what `make(tf, x)` builds, their gradients, losses, and the variables after two updates."""

    def build(tf: Any) -> Built:
        x = tf.placeholder(tf.float32, [None, *dims] if known is None else known)
        made = make(tf, x)
        outputs = made if isinstance(made, list) else [made]
        variables = tf.global_variables()
        init = initial(tf)
        losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
        total = tf.add_n([tf.reduce_sum(tf.sin(output)) for output in outputs])
        gradients = tf.gradients(total, [x, *tf.trainable_variables()])
        updates = tf.group(*tf.get_collection(tf.GraphKeys.UPDATE_OPS))
        feeds = [{x: values(seed, batch, *(dim or 7 for dim in dims))} for seed in (1, 2)]
        return Measured(
            [*outputs, *(each for each in gradients if each is not None), *losses],
            feeds,
            init,
            updates,
            after=variables,
        )

    return build


def of(function: str, /, *arguments: Any, **options: Any) -> Make:
    return lambda tf, x: getattr(tf.layers, function)(x, *arguments, **options)


def squares(tf: Any) -> Callable[[Any], Any]:
    return lambda variable: tf.reduce_sum(tf.square(variable))


# Dense layers

add("dense", layer(of("dense", 3), 4))
add("dense without bias", layer(of("dense", 3, use_bias=False), 4))
add("dense of higher rank", layer(of("dense", 3), 5, 4))
add("dense of rank 4", layer(of("dense", 2, name="own"), 2, None, 4))
add("dense activation", layer(lambda tf, x: tf.layers.dense(x, 3, tf.nn.relu), 4))
add("dense activation by name", layer(of("dense", 3, "tanh"), 4))
add("dense that is not trainable", layer(of("dense", 3, trainable=False), 4))
add(
    "dense regularizers",
    layer(
        lambda tf, x: tf.layers.dense(
            x,
            3,
            kernel_regularizer=squares(tf),
            bias_regularizer=squares(tf),
            activity_regularizer=squares(tf),
        ),
        4,
    ),
)


add(
    "dense of keras regularizers and initializers",
    layer(
        lambda tf, x: tf.layers.dense(
            x,
            3,
            kernel_initializer=tf.keras.initializers.he_normal(seed=2),
            bias_initializer=tf.keras.initializers.RandomNormal(seed=3),
            kernel_regularizer=tf.keras.regularizers.l1_l2(0.1, 0.2),
            bias_regularizer=tf.keras.regularizers.l2(0.3),
            activity_regularizer=tf.keras.regularizers.l1(0.4),
        ),
        4,
    ),
)
add("dense of an initializer by name", layer(of("dense", 3, kernel_initializer="he_uniform"), 4))


def stacked(tf: Any, x: Any) -> Any:
    hidden = tf.layers.dense(x, 5, tf.nn.relu)
    hidden = tf.layers.dense(hidden, 4, tf.nn.relu, name="named")
    with tf.variable_scope("scope"):
        hidden = tf.layers.dense(hidden, 4)
        hidden = tf.layers.dense(hidden, 4)
    return tf.layers.dense(hidden, 2)


def reused(tf: Any, x: Any) -> Any:
    first = tf.layers.dense(x, 4, name="a", kernel_regularizer=squares(tf))
    second = tf.layers.dense(first, 4, name="a", reuse=True, kernel_regularizer=squares(tf))
    with tf.variable_scope("scope"):
        third = tf.layers.dense(second, 4, name="b")
    with tf.variable_scope("scope", reuse=True):
        fourth = tf.layers.dense(third, 4, name="b")
    with tf.variable_scope("c", reuse=tf.AUTO_REUSE):
        fifth = tf.layers.dense(fourth, 4, name="d")
        sixth = tf.layers.dense(fifth, 4, name="d")
    return [second, fourth, sixth]


def shared(tf: Any, x: Any) -> Any:
    made = tf.layers.Dense(4, kernel_regularizer=squares(tf))
    return made(made(x))


def in_two_scopes(tf: Any, x: Any) -> Any:
    made = tf.layers.Dense(4)
    with tf.variable_scope("one"):
        first = made(x)
    with tf.variable_scope("two"):
        second = made(first)
    return [first, second, tf.layers.Dense(4, name="three").apply(second)]


def of_scope(tf: Any, x: Any) -> Any:
    options = {"initializer": tf.ones_initializer(), "regularizer": squares(tf)}
    with tf.variable_scope("scope", **options):
        return tf.layers.dense(x, 3)


def partitioned(tf: Any, x: Any) -> Any:
    with tf.variable_scope("scope", partitioner=tf.fixed_size_partitioner(2)):
        return tf.layers.dense(x, 4, use_bias=False, kernel_regularizer=squares(tf))


def custom(tf: Any, x: Any) -> Any:
    class Scaled(tf.layers.Layer):
        def build(self, input_shape: Any) -> None:
            self.scale = self.add_variable("scale", [input_shape[-1]], regularizer=squares(tf))
            self.count = self.add_variable("count", [], trainable=False)
            super().build(input_shape)

        def call(self, inputs: Any) -> Any:
            return inputs * self.scale

    made = Scaled()
    return made(made(x))


PROGRAMS: dict[str, Make] = {
    "stacked layers": stacked,
    "layers of one name": reused,
    "a layer called twice": shared,
    "a layer called in two scopes": in_two_scopes,
    "defaults of the scope": of_scope,
    "partitioned": partitioned,
    "custom layer": custom,
}
for name, make in PROGRAMS.items():
    add(name, layer(make, 4))

# Dropout and flattening

add("dropout", layer(of("dropout"), 4))
add("dropout in training", layer(of("dropout", 0.3, seed=5, training=True), 40))
add("dropout of rows", layer(of("dropout", 0.5, [None, 1, None], seed=5, training=True), 10, 4))
add("flatten", layer(of("flatten"), 5, 4))
add("flatten, channels first", layer(of("flatten", **FIRST), 5, 4, 3))
add("flatten of unknown sizes", layer(of("flatten"), None, 4))
add("flatten of a known batch", layer(of("flatten"), 5, 4, known=[3, None, 4]))
add("flatten of vectors", layer(of("flatten")))

# Convolutions

for dims, first, rank in ((LINE, LINE_FIRST, 1), (IMAGE, IMAGE_FIRST, 2), (VOLUME, VOLUME_FIRST, 3)):
    conv = f"conv{rank}d"
    add(conv, layer(of(conv, 2, 3), *dims))
    add(f"{conv} same", layer(of(conv, 2, 2, padding="same", use_bias=False), *dims))
    add(f"{conv} strides", layer(of(conv, 2, 3, 2, padding="SAME"), *dims))
    add(f"{conv} dilation", layer(of(conv, 2, 2, dilation_rate=2, padding="same"), *dims))
    add(f"{conv} activation", layer(of(conv, 2, 3, activation="relu", name="own"), *dims))
    for kind in ("max", "average"):
        pool = f"{kind}_pooling{rank}d"
        add(pool, layer(of(pool, 2, 2), *dims))
        add(f"{pool} same", layer(of(pool, 3, 2, padding="same"), *dims))
        if rank == 1 or (rank == 3 and kind == "max"):
            add(f"{pool} channels first", layer(of(pool, 2, 1, **FIRST), *first))

add("conv2d of two sizes", layer(of("conv2d", 2, (2, 3), (1, 2)), *IMAGE))
add("conv2d of unknown sizes", layer(of("conv2d", 2, 3), None, None, 4))
add("conv1d causal", layer(of("conv1d", 2, 3, padding="causal", dilation_rate=2), *LINE))
add(
    "conv2d regularizer",
    layer(lambda tf, x: tf.layers.conv2d(x, 2, 3, kernel_regularizer=squares(tf)), *IMAGE),
)
for rank, dims in ((1, LINE), (2, IMAGE)):
    conv = f"separable_conv{rank}d"
    add(conv, layer(of(conv, 2, 3), *dims))
    add(f"{conv} strides", layer(of(conv, 2, 3, 2, padding="same", depth_multiplier=2), *dims))
    add(f"{conv} without bias", layer(of(conv, 2, 3, use_bias=False, activation="tanh"), *dims))
add("separable_conv2d dilation", layer(of("separable_conv2d", 2, 3, dilation_rate=2), *IMAGE))
for rank, dims, first in ((2, IMAGE, IMAGE_FIRST), (3, VOLUME, VOLUME_FIRST)):
    conv = f"conv{rank}d_transpose"
    add(conv, layer(of(conv, 2, 3, 2), *dims))
    add(f"{conv} same", layer(of(conv, 2, 3, 2, padding="same", use_bias=False), *dims))
    add(f"{conv} smaller than its strides", layer(of(conv, 2, 2, 3), *dims))
    if rank == 2:
        add(f"{conv} channels first", layer(of(conv, 2, 3, **FIRST), *first))
add("conv2d_transpose of unknown sizes", layer(of("conv2d_transpose", 2, 3, 2), None, None, 4))

# Batch normalization

for training in (False, True):
    for dims in ((4,), IMAGE, VOLUME):  # type: Dims
        label = f"batch_normalization of rank {len(dims) + 1}, training={training}"
        add(label, layer(of("batch_normalization", training=training), *dims))
    add(
        f"batch_normalization of axis 1, training={training}",
        layer(of("batch_normalization", axis=1, training=training), 4, 3),
    )
    add(
        f"batch_normalization, channels first, training={training}",
        layer(of("batch_normalization", axis=1, training=training), *IMAGE_FIRST),
    )
    add(
        f"batch_normalization not fused, training={training}",
        layer(of("batch_normalization", fused=False, training=training, momentum=0.8, epsilon=0.01), *IMAGE),
    )
    add(
        f"batch_normalization without scale, training={training}",
        layer(of("batch_normalization", scale=False, center=False, training=training), *IMAGE),
    )
    add(
        f"batch_normalization of two axes, training={training}",
        layer(of("batch_normalization", axis=[1, 2], training=training), 4, 3),
    )
    add(
        f"batch_normalization renorm, training={training}",
        layer(of("batch_normalization", renorm=True, training=training), 4),
    )
add(
    "batch_normalization renorm, clipped",
    layer(
        of(
            "batch_normalization",
            renorm=True,
            renorm_clipping={"rmin": 0.9, "rmax": 1.1, "dmax": 0.1},
            renorm_momentum=0.7,
            training=True,
        ),
        *IMAGE,
    ),
)


def fed(flag: bool) -> Make:
    """Batch normalization that gets to know when it runs whether it trains."""
    return lambda tf, x: tf.layers.batch_normalization(x, training=tf.placeholder_with_default(flag, []))


for flag in (False, True):
    for dims in ((4,), IMAGE):
        add(f"batch_normalization of rank {len(dims) + 1}, training fed {flag}", layer(fed(flag), *dims))
add(
    "batch_normalization that is not trainable",
    layer(of("batch_normalization", trainable=False, training=True), *IMAGE),
)
add(
    "batch_normalization regularizers",
    layer(
        lambda tf, x: tf.layers.batch_normalization(
            x, gamma_regularizer=squares(tf), beta_regularizer=squares(tf), training=True
        ),
        4,
    ),
)


def network(tf: Any, x: Any) -> Any:
    """A small convolutional network, as programs write it."""
    hidden = tf.layers.conv2d(x, 6, 3, padding="same", use_bias=False)
    hidden = tf.nn.relu(tf.layers.batch_normalization(hidden, training=True))
    hidden = tf.layers.max_pooling2d(hidden, 2, 2)
    hidden = tf.layers.flatten(hidden)
    hidden = tf.layers.dropout(hidden, 0.5, training=False)
    return tf.layers.dense(hidden, 3, name="logits")


add("network", layer(network, *IMAGE))


@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
@pytest.mark.parametrize("name", ROWS)
async def test_a_layer_agrees_with_tensorflow(tf: Any, name: str, resource: bool):
    assert await compare(tf, ROWS[name], 20.0, resource) == []


async def test_a_checkpoint_of_tensorflows_layers_loads_by_name(tf: Any, tmp_path: Path):
    images, path = values(1, 3, *IMAGE), str(tmp_path / "model")
    with tf.Graph().as_default():
        output = network(tf, tf.constant(images))
        init = initial(tf)
        saver = tf.train.Saver()
        with tf.Session() as session:
            session.run(init)
            expected = session.run(output)
            saver.save(session, path)

    with ax.Graph().as_default() as graph:
        output = network(ax, ax.constant(images))
        saver = ax.train.Saver()
        async with ax.Session(graph=graph) as session:
            await saver.restore(session, path)
            np.testing.assert_allclose(await session.run(output), expected, rtol=1e-4, atol=1e-5)


# Errors

FAULTY: list[tuple[str, Make, tuple[Any, ...]]] = [
    ("last dimension unknown", of("dense", 3), (None,)),
    ("rank too small", of("conv2d", 3, 3), (10, 10)),
    ("channels unknown", of("conv2d", 3, 3), (10, 10, None)),
    ("kernel size of three", of("conv2d", 3, (3, 3, 3)), IMAGE),
    ("unknown padding", of("conv2d", 3, 3, padding="FULL"), IMAGE),
    ("causal images", of("conv2d", 3, 3, padding="causal"), IMAGE),
    ("unknown data format", of("conv2d", 3, 3, data_format="NHWC"), IMAGE),
    ("strides and dilation", of("conv2d", 3, 3, 2, dilation_rate=2), IMAGE),
    ("no filters", of("conv2d", 0, 3), IMAGE),
    ("pooling of rank 3", of("max_pooling2d", 2, 2), (10, 10)),
    ("axis too large", of("batch_normalization", axis=3), (4,)),
    ("axis twice", of("batch_normalization", axis=[1, 1]), (4,)),
    ("axis of unknown size", of("batch_normalization"), (None,)),
    ("unknown clipping", of("batch_normalization", renorm=True, renorm_clipping={"min": 1}), (4,)),
    ("rate above 1", of("dropout", 2.0), (4,)),
    ("negative units", of("dense", -3), (4,)),
    ("unknown activation", of("dense", 3, "steep"), (4,)),
    ("reuse of what is not there", of("dense", 3, name="a", reuse=True), (4,)),
    ("one name twice", lambda tf, x: [tf.layers.dense(x, 3, name="a") for _ in range(2)], (4,)),
    (
        "another size",
        lambda tf, x: [tf.layers.dense(x, n, name="a", reuse=tf.AUTO_REUSE) for n in (3, 4)],
        (4,),
    ),
    ("integers", lambda tf, x: tf.layers.dense(tf.cast(x, tf.int32), 3), (4,)),
    ("unused scope name", lambda tf, x: tf.layers.Dense(3).scope_name, (4,)),
    ("unused count_params", lambda tf, x: tf.layers.Dense(3).count_params(), (4,)),
    ("unknown argument", lambda tf, x: tf.layers.Dense(3, size=3), (4,)),
]
for name, make, shape in FAULTY:
    add_error(name, layer(make, *shape))


@pytest.mark.parametrize("name", ERRORS)
async def test_an_error_agrees_with_tensorflow(tf: Any, name: str):
    assert await compare(tf, ERRORS[name]) == []


# Initializers

INITIALIZERS: dict[str, dict[str, Any]] = {
    "zeros": {},
    "ones": {},
    "constant": {"value": 2.5},
    "identity": {"gain": 2.0},
    "random_normal": {"seed": 3},
    "random_uniform": {"seed": 3, "minval": -1, "maxval": 2},
    "truncated_normal": {"seed": 3},
    "uniform_unit_scaling": {"seed": 3},
    "variance_scaling": {"seed": 3, "mode": "fan_out"},
    "glorot_normal": {"seed": 3},
    "glorot_uniform": {"seed": 3},
    "he_normal": {"seed": 3},
    "he_uniform": {"seed": 3},
    "lecun_normal": {"seed": 3},
    "lecun_uniform": {"seed": 3},
    "orthogonal": {"seed": 3, "gain": 1.5},
}


@pytest.mark.parametrize("shape", [(4, 3), (3, 4)])
@pytest.mark.parametrize("name", INITIALIZERS)
async def test_an_initializer_agrees_with_tensorflow(tf: Any, name: str, shape: Dims):
    def build(tf: Any) -> Built:
        initializer = getattr(tf.initializers, name)(**INITIALIZERS[name])
        variable = tf.get_variable("variable", shape, initializer=initializer)
        return Built([variable], init=tf.global_variables_initializer())

    assert await compare(tf, build, 20.0) == []
