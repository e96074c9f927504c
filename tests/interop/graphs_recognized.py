"""Graphs with computations that become one node: attention, layer normalisation, gelu, products of a recurrent network."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.building import Builder, Built, values, whole
from tests.interop.graphs_functions import of_functions

GRAPHS: list[Builder] = []
WIDTH, HEADS, LENGTH = 24, 3, 10


def graph(build: Builder) -> Builder:
    GRAPHS.append(build)
    return build


def weight(tf: Any, seed: int, *shape: int, low: float = -0.5, high: float = 0.5) -> Any:
    """A frozen weight."""
    return tf.identity(tf.constant(values(seed, *shape, low=low, high=high)))


def dense(tf: Any, x: Any, seed: int, units: int) -> Any:
    return tf.nn.bias_add(
        tf.matmul(x, weight(tf, seed, int(x.shape[-1]), units)), weight(tf, seed + 1, units)
    )


def heads(tf: Any, rows: Any, batch: Any) -> Any:
    return tf.transpose(tf.reshape(rows, [batch, LENGTH, HEADS, WIDTH // HEADS]), [0, 2, 1, 3])


def layer_norm(tf: Any, x: Any, seed: int) -> Any:
    scale, shift = weight(tf, seed, WIDTH, low=0.5, high=1.5), weight(tf, seed + 1, WIDTH)
    mean, variance = tf.nn.moments(x, [-1], keep_dims=True)
    return tf.nn.batch_normalization(x, mean, variance, shift, scale, 1e-12)


def layer_norm_of_squares(tf: Any, x: Any, seed: int) -> Any:
    scale, shift = weight(tf, seed, WIDTH, low=0.5, high=1.5), weight(tf, seed + 1, WIDTH)
    centred = x - tf.reduce_mean(x, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
    return centred * tf.rsqrt(variance + 1e-5) * scale + shift


def gelu(tf: Any, x: Any) -> Any:
    return x * 0.5 * (1.0 + tf.tanh(np.float32(np.sqrt(2 / np.pi)) * (x + 0.044715 * tf.pow(x, 3.0))))


def gelu_by_erf(tf: Any, x: Any) -> Any:
    return x * 0.5 * (1.0 + tf.erf(x / np.float32(np.sqrt(2.0))))


@graph
def encoder_layers(tf: Any) -> Built:
    """As BERT has them, of a batch of unknown size."""
    tokens, mask = tf.placeholder(tf.int32, [None, LENGTH]), tf.placeholder(tf.int32, [None, LENGTH])
    batch = tf.shape(tokens)[0]
    x = tf.reshape(tf.gather(weight(tf, 1, 40, WIDTH), tokens), [-1, WIDTH])
    adder = (1.0 - tf.cast(tf.reshape(mask, [-1, 1, 1, LENGTH]), tf.float32)) * -10000.0
    for seed in (100, 200):
        query, key, value = (heads(tf, dense(tf, x, seed + k, WIDTH), batch) for k in (0, 10, 20))
        scores = tf.multiply(tf.matmul(query, key, transpose_b=True), 1 / np.sqrt(WIDTH // HEADS))
        context = tf.transpose(tf.matmul(tf.nn.softmax(scores + adder), value), [0, 2, 1, 3])
        x = layer_norm(tf, dense(tf, tf.reshape(context, [-1, WIDTH]), seed + 30, WIDTH) + x, seed + 40)
        activation = gelu if seed == 100 else gelu_by_erf
        inner = activation(tf, dense(tf, x, seed + 50, 2 * WIDTH))
        x = layer_norm(tf, dense(tf, inner, seed + 60, WIDTH) + x, seed + 70)
    feeds = []
    for n in (1, 3, 2):
        masks = (np.arange(LENGTH) < np.array([[LENGTH - 3]] * n)).astype(np.int32)
        feeds.append({tokens: whole(n, n, LENGTH, low=0, high=40), mask: masks})
    return Built([x], feeds, tolerance=4)


@graph
def decoder_layer(tf: Any) -> Built:
    """Normalisation before each part, keys in the layout [depth, position], and a causal mask that is subtracted."""
    x = tf.placeholder(tf.float32, [2, LENGTH, WIDTH])
    y = layer_norm_of_squares(tf, x, 1)
    query, key, value = tf.split(dense(tf, tf.reshape(y, [-1, WIDTH]), 10, 3 * WIDTH), 3, axis=1)
    query, value = heads(tf, query, 2), heads(tf, value, 2)
    key = tf.transpose(tf.reshape(key, [2, LENGTH, HEADS, WIDTH // HEADS]), [0, 2, 3, 1])
    hidden = 1e10 * (1.0 - tf.constant(np.tri(LENGTH, dtype=np.float32)))
    scores = tf.matmul(query, key) / np.float32(np.sqrt(WIDTH // HEADS)) - hidden
    context = tf.transpose(tf.matmul(tf.nn.softmax(scores), value), [0, 2, 1, 3])
    middle = x + tf.reshape(context, [2, LENGTH, WIDTH])
    last = middle + gelu(tf, layer_norm_of_squares(tf, middle, 20))
    return Built([last], [{x: values(5, 2, LENGTH, WIDTH)}], tolerance=4)


@graph
def attention_with_gradients(tf: Any) -> Built:
    """The gradients use what lies inside, which stays."""
    x = tf.placeholder(tf.float32, [2, LENGTH, WIDTH])
    y = layer_norm(tf, x, 1)
    query, key, value = (heads(tf, dense(tf, tf.reshape(y, [-1, WIDTH]), k, WIDTH), 2) for k in (10, 20, 30))
    weights = tf.nn.softmax(tf.matmul(query, key, transpose_b=True) * 0.25)
    loss = tf.reduce_sum(tf.square(tf.matmul(weights, value)))
    return Built([loss, *tf.gradients(loss, [x])], [{x: values(6, 2, LENGTH, WIDTH)}], tolerance=20)


class Lstm:
    """A cell for `dynamic_rnn`, whose state is (cell, hidden)."""

    def __init__(self, tf: Any, features: int, units: int) -> None:
        self._tf = tf
        self._kernel, self._bias = weight(tf, 1, features + units, 4 * units), weight(tf, 2, 4 * units)
        self.output_size = units
        self.state_size: Any = (units, units)

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        return tuple(self._tf.zeros([batch_size, size], dtype) for size in self.state_size)

    def __call__(self, x: Any, state: Any, scope: Any = None) -> Any:
        tf = self._tf
        cell, hidden = state
        gates = tf.nn.bias_add(tf.matmul(tf.concat([x, hidden], 1), self._kernel), self._bias)
        at, new, forget, out = tf.split(gates, 4, axis=1)
        cell = cell * tf.sigmoid(forget + 1.0) + tf.sigmoid(at) * tf.tanh(new)
        hidden = tf.tanh(cell) * tf.sigmoid(out)
        return hidden, (cell, hidden)


class Gru(Lstm):
    """The same with one state and two products."""

    def __init__(self, tf: Any, features: int, units: int) -> None:
        super().__init__(tf, features, units)
        self._gates, self._new = (
            weight(tf, 3, features + units, 2 * units),
            weight(tf, 4, features + units, units),
        )
        self.state_size = units

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        return self._tf.zeros([batch_size, self.output_size], dtype)

    def __call__(self, x: Any, state: Any, scope: Any = None) -> Any:
        tf = self._tf
        reset, update = tf.split(tf.sigmoid(tf.matmul(tf.concat([x, state], 1), self._gates)), 2, axis=1)
        new = tf.tanh(tf.matmul(tf.concat([x, reset * state], 1), self._new))
        state = update * state + (1 - update) * new
        return state, state


def recurrent(tf: Any, make: Any, lengths: Any = None) -> Built:
    x = tf.placeholder(tf.float32, [None, 7, 5])
    lengths = None if lengths is None else tf.constant(lengths)
    outputs, _ = tf.nn.dynamic_rnn(make(tf, 5, 6), x, sequence_length=lengths, dtype=tf.float32)
    return Built([outputs], [{x: values(3, 3, 7, 5)}, {x: values(4, 3, 7, 5)}], tolerance=2)


@graph
def lstm(tf: Any) -> Built:
    tf.disable_control_flow_v2()
    return recurrent(tf, Lstm)


@graph
@of_functions
def lstm_of_functions(tf: Any) -> Built:
    return recurrent(tf, Lstm)


@graph
def lstm_of_several_lengths(tf: Any) -> Built:
    tf.disable_control_flow_v2()
    return recurrent(tf, Lstm, np.array([7, 3, 5], np.int32))


@graph
def gru(tf: Any) -> Built:
    tf.disable_control_flow_v2()
    return recurrent(tf, Gru)
