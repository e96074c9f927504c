"""Optimizers over several steps against TensorFlow's: parameters, slots and their names, for all kinds of variables."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.interop.building import Builder, values
from tests.interop.train.engines import Measured, compare, table

pytestmark = pytest.mark.interop

ROWS, add = table()
STEPS = 4
Make = Callable[[Any], Any]
"""Makes the optimizer; gets the module."""


def optimizer(kind: str, /, *arguments: Any, **options: Any) -> Make:
    return lambda tf: getattr(tf.train, f"{kind}Optimizer")(*arguments, **options)


def da(*arguments: Any, **options: Any) -> Make:
    def make(tf: Any) -> Any:
        return tf.train.AdagradDAOptimizer(0.1, tf.train.get_or_create_global_step(), *arguments, **options)

    return make


OPTIMIZERS: dict[str, Make] = {
    "GradientDescent": optimizer("GradientDescent", 0.1),
    "GradientDescent with locks": optimizer("GradientDescent", 0.1, use_locking=True),
    "Momentum": optimizer("Momentum", 0.1, 0.9),
    "Momentum with locks": optimizer("Momentum", 0.1, 0.9, use_locking=True, name="Pushed"),
    "Nesterov": optimizer("Momentum", 0.1, 0.9, use_nesterov=True),
    "Adam": optimizer("Adam"),
    "Adam otherwise": optimizer("Adam", 0.1, 0.8, 0.9, 1e-4, use_locking=True, name="Mine"),
    "Adagrad": optimizer("Adagrad", 0.1),
    "Adagrad otherwise": optimizer("Adagrad", 0.1, 0.5, use_locking=True),
    "AdagradDA": da(),
    "AdagradDA regularized": da(0.2, 0.01, 0.1),
    "Adadelta": optimizer("Adadelta"),
    "Adadelta otherwise": optimizer("Adadelta", 0.5, 0.8, 1e-4),
    "RMSProp": optimizer("RMSProp", 0.1),
    "RMSProp with momentum": optimizer("RMSProp", 0.1, 0.8, 0.5, 1e-3),
    "RMSProp centered": optimizer("RMSProp", 0.1, momentum=0.3, centered=True),
    "Ftrl": optimizer("Ftrl", 0.1),
    "Ftrl regularized": optimizer("Ftrl", 0.1, -0.5, 0.2, 0.01, 0.1),
    "Ftrl of another power": optimizer("Ftrl", 0.1, -0.3, 0.2),
    "Ftrl with shrinkage": optimizer(
        "Ftrl", 0.1, l2_shrinkage_regularization_strength=0.1, l1_regularization_strength=0.01
    ),
    "Ftrl with beta": optimizer("Ftrl", 0.1, beta=0.3),
    "Ftrl with names": optimizer("Ftrl", 0.1, accum_name="sums", linear_name="lines"),
    "ProximalAdagrad": optimizer("ProximalAdagrad", 0.1),
    "ProximalAdagrad regularized": optimizer("ProximalAdagrad", 0.1, 0.3, 0.01, 0.1),
    "ProximalGradientDescent": optimizer("ProximalGradientDescent", 0.1),
    "ProximalGradientDescent regularized": optimizer("ProximalGradientDescent", 0.1, 0.01, 0.1),
    "MomentumOptimizer of tensors": lambda tf: tf.train.MomentumOptimizer(tf.constant(0.1), tf.constant(0.5)),
    "Adam of functions": lambda tf: tf.train.AdamOptimizer(lambda: 0.1, lambda: 0.8),
    "Adagrad of a decay": lambda tf: tf.train.AdagradOptimizer(
        tf.train.exponential_decay(0.5, tf.train.get_or_create_global_step(), 2, 0.5)
    ),
}


def dense(tf: Any, x: Any, dtype: str) -> Any:
    v = tf.get_variable("v", initializer=values(1, 3, 2, dtype=dtype))
    w = tf.get_variable("w", initializer=values(2, 2, dtype=dtype))
    return tf.reduce_sum(v * x) + tf.reduce_sum(tf.square(w) * x)


def sparse(tf: Any, x: Any, dtype: str) -> Any:
    """A row given twice, one not at all."""
    v = tf.get_variable("v", initializer=values(1, 4, 2, dtype=dtype))
    return tf.reduce_sum(tf.square(tf.gather(v, [2, 0, 2])) * x)


def partitioned(tf: Any, x: Any, dtype: str) -> Any:
    with tf.variable_scope("scope", partitioner=tf.fixed_size_partitioner(2)):
        v = tf.get_variable("v", initializer=tf.constant_initializer(0.5), shape=[3, 2], dtype=dtype)
    return tf.reduce_sum(tf.square(tf.convert_to_tensor(v)) * x)


def of_unknown_shape(tf: Any, x: Any, dtype: str) -> Any:
    start = tf.placeholder_with_default(values(1, 3, 2, dtype=dtype), None)
    v = tf.get_variable("v", initializer=start, validate_shape=False)
    return tf.reduce_sum(tf.square(v) * x)


def constrained(tf: Any, x: Any, dtype: str) -> Any:
    v = tf.get_variable(
        "v", initializer=values(1, 3, 2, dtype=dtype), constraint=lambda v: tf.clip_by_value(v, -0.2, 0.3)
    )
    return tf.reduce_sum(tf.square(v) * x)


def trained(make: Make, model: Any, dtype: str = "float32") -> Builder:
    def build(tf: Any) -> Measured:
        x = tf.placeholder(dtype, [3, 2])
        loss = model(tf, x, dtype)
        optimizer = make(tf)
        step = tf.train.get_or_create_global_step()
        train = optimizer.minimize(loss, global_step=step)
        parameters = tf.trainable_variables()
        for var in optimizer.variables():
            tf.add_to_collection("made", var)
        for name, var in itertools.product(optimizer.get_slot_names(), parameters):
            tf.add_to_collection("slots", optimizer.get_slot(var, name))
        with tf.control_dependencies([train]):
            now = [tf.identity(var.read_value()) for var in parameters]
        feeds = [{x: values(10 + k, 3, 2, dtype=dtype)} for k in range(STEPS)]
        return Measured(now, feeds, tf.global_variables_initializer(), after=tf.global_variables())

    return build


for name, make in OPTIMIZERS.items():
    add(f"{name}, dense", trained(make, dense))
    add(f"{name}, sparse", trained(make, sparse))
for name in ("GradientDescent", "Momentum", "Adam", "Adagrad", "RMSProp", "Ftrl", "Adadelta"):
    # TensorFlow's Ftrl has no slots for variables of unknown shape, ours has.
    for model in (
        (partitioned, constrained) if name == "Ftrl" else (partitioned, constrained, of_unknown_shape)
    ):
        add(f"{name}, {model.__name__}", trained(OPTIMIZERS[name], model))
    add(f"{name}, dense float64", trained(OPTIMIZERS[name], dense, "float64"))
    add(f"{name}, sparse float64", trained(OPTIMIZERS[name], sparse, "float64"))
    add(f"{name}, dense float16", trained(OPTIMIZERS[name], dense, "float16"))


# Gradients by hand, and gates


def by_hand(tf: Any) -> Measured:
    v, w = tf.get_variable("v", initializer=[1.0, 2.0]), tf.get_variable("w", initializer=3.0)
    optimizer = tf.train.MomentumOptimizer(0.1, 0.5)
    pairs = optimizer.compute_gradients(tf.reduce_sum(v * v), [v, w], grad_loss=tf.constant(2.0))
    assert pairs[1][0] is None
    train = optimizer.apply_gradients([(tf.clip_by_norm(pairs[0][0], 1.0), v), pairs[1]], name="mine")
    return Measured([], [{}] * 3, tf.global_variables_initializer(), train, after=tf.global_variables())


add("gradients by hand", by_hand)


def twice(tf: Any) -> Measured:
    """Two optimizers of one kind, and one applied twice."""
    v = tf.get_variable("v", initializer=[1.0, 2.0])
    one, other = tf.train.AdamOptimizer(0.1), tf.train.AdamOptimizer(0.2)
    first, second = one.minimize(tf.reduce_sum(v)), other.minimize(tf.reduce_sum(v * v))
    with tf.control_dependencies([first]):
        third = one.minimize(tf.reduce_sum(v * 3.0))
    init = tf.global_variables_initializer()
    for var in (*one.variables(), *other.variables()):
        tf.add_to_collection("made", var)
    return Measured([], [{}], init, tf.no_op() if second is third else third, after=tf.global_variables())


add("two optimizers", twice)


def gated(gate: str) -> Builder:
    def build(tf: Any) -> Measured:
        v, w = tf.get_variable("v", initializer=[1.0, 2.0]), tf.get_variable("w", initializer=3.0)
        loss = tf.reduce_sum(v) * 0.5 + w if gate == "GATE_NONE" else tf.reduce_sum(v * w)
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        train = optimizer.minimize(
            loss, gate_gradients=getattr(tf.train.Optimizer, gate), aggregation_method=0
        )
        return Measured([], [{}] * 2, tf.global_variables_initializer(), train, after=[v, w])

    return build


for gate in ("GATE_NONE", "GATE_OP", "GATE_GRAPH"):
    add(gate, gated(gate))


# Mistakes


def mistake(use: Callable[[Any, Any, Any], Any]) -> Builder:
    """`use` gets the module, an optimizer and a variable."""

    def build(tf: Any) -> Measured:
        use(tf, tf.train.GradientDescentOptimizer(0.1), tf.get_variable("v", initializer=[1.0, 2.0]))
        return Measured([], [])

    return build


MISTAKES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a loss of something else": lambda tf, o, v: o.minimize(tf.constant(1.0)),
    "no variables": lambda tf, o, v: o.minimize(tf.reduce_sum(v), var_list=[]),
    "no pairs": lambda tf, o, v: o.apply_gradients([]),
    "only None": lambda tf, o, v: o.apply_gradients([(None, v)]),
    "no pair": lambda tf, o, v: o.apply_gradients([v]),
    "a gradient that is none": lambda tf, o, v: o.apply_gradients([(object(), v)]),
    "an integer loss": lambda tf, o, v: o.minimize(tf.constant(1), var_list=[v]),
    "an integer variable": lambda tf, o, v: o.minimize(tf.reduce_sum(v), var_list=[tf.Variable(1)]),
    "a gate that is none": lambda tf, o, v: o.minimize(tf.reduce_sum(v), gate_gradients=7),
    "a loss of two": lambda tf, o, v: o.minimize(v),
    "no name": lambda tf, o, v: tf.train.AdamOptimizer(name=""),
    "a negative start": lambda tf, o, v: tf.train.AdagradOptimizer(0.1, -1.0),
    "a start of 0": lambda tf, o, v: tf.train.AdagradOptimizer(0.1, 0.0),
    "a negative start of Ftrl": lambda tf, o, v: tf.train.FtrlOptimizer(0.1, initial_accumulator_value=-1.0),
    "a positive power": lambda tf, o, v: tf.train.FtrlOptimizer(0.1, 0.5),
    "a negative regularization": lambda tf, o, v: tf.train.FtrlOptimizer(
        0.1, l1_regularization_strength=-1.0
    ),
    "a sparse gradient of another shape": lambda tf, o, v: o.apply_gradients([(tf.constant([[1.0]]), v)]),
}
for name, use in MISTAKES.items():
    add(name, mistake(use))


# Clipping


def clipped(tf: Any) -> Measured:
    x, y = tf.placeholder(tf.float32, [2, 3]), tf.placeholder(tf.float32, [None])
    slices = tf.IndexedSlices(x, tf.constant([0, 1]), tf.constant([2, 3]))
    norm = tf.global_norm([x, None, y, slices])
    both, found = tf.clip_by_global_norm([x, None, slices, y], 0.7)
    known, _ = tf.clip_by_global_norm([x], 0.7, use_norm=tf.constant(2.0))
    assert both[1] is None
    each = [tf.clip_by_norm(x, 0.5), tf.clip_by_norm(x, 0.5, axes=[1]), tf.clip_by_norm(slices, 0.5).values]
    each += [tf.clip_by_average_norm(x, 0.01), tf.clip_by_value(x, -0.1, 0.2), tf.clip_by_norm(y, 5.0)]
    fetches = [norm, both[0], both[2].values, both[3], found, known[0], *each, *tf.gradients(each, [x])]
    zero = {x: np.zeros((2, 3), np.float32), y: np.zeros(0, np.float32)}
    large = {x: values(1, 2, 3) * 100, y: np.array([np.inf], np.float32)}
    return Measured(fetches, [{x: values(1, 2, 3), y: values(2, 4)}, zero, large])


add("clipping", clipped)
add("a global norm of no list", lambda tf: Measured([tf.global_norm(tf.constant([1.0]))]))
add("clipping no list", lambda tf: Measured([tf.clip_by_global_norm("ab", 1.0)[1]]))


@pytest.mark.parametrize("resource", [True, False], ids=["resource", "reference"])
@pytest.mark.parametrize("name", ROWS)
async def test_training_is_tensorflows(tf: Any, name: str, resource: bool):
    assert await compare(tf, ROWS[name], tolerance=3, resource=resource) == []
