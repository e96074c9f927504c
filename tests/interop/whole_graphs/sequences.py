"""Programs over sequences: recurrent networks, attention, a search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.interop.whole_graphs.building import (
    Program,
    Run,
    also_with_functions,
    cross_entropy,
    dense,
    program,
    training,
    values,
    weights,
    whole,
    zeros,
)

STEPS_OF_A_SEQUENCE = 7
UNITS = 6


class Cell:
    """A minimal cell for `dynamic_rnn`; TensorFlow's own is in Keras 2."""

    def __init__(self, tf: Any, name: str, units: int, seed: int) -> None:
        self.tf, self.name, self.units, self.seed = tf, name, units, seed

    @property
    def output_size(self) -> int:
        return self.units

    @property
    def state_size(self) -> Any:
        return self.units

    def zero_state(self, batch: Any, dtype: Any) -> Any:
        return self.tf.zeros([batch, self.units], dtype)

    def gates(self, name: str, joined: Any, size: int, bias: float) -> Any:
        tf = self.tf
        with tf.variable_scope(self.name, reuse=tf.AUTO_REUSE):
            kernel = weights(tf, f"{name}_kernel", [int(joined.shape[-1]), size], self.seed)
            return tf.nn.bias_add(tf.matmul(joined, kernel), zeros(tf, f"{name}_bias", [size], bias))


class LongShortTermMemory(Cell):
    @property
    def state_size(self) -> Any:
        return (self.units, self.units)

    def zero_state(self, batch: Any, dtype: Any) -> Any:
        return tuple(self.tf.zeros([batch, self.units], dtype) for _ in range(2))

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        tf, (memory, hidden) = self.tf, state
        joined = tf.concat([inputs, hidden], 1)
        i, j, f, o = tf.split(self.gates("lstm", joined, 4 * self.units, 0.1), 4, axis=1)
        memory = memory * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
        hidden = tf.tanh(memory) * tf.sigmoid(o)
        return hidden, (memory, hidden)


class GatedRecurrentUnit(Cell):
    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        tf = self.tf
        gates = tf.sigmoid(self.gates("gates", tf.concat([inputs, state], 1), 2 * self.units, 1.0))
        r, u = tf.split(gates, 2, axis=1)
        candidate = tf.tanh(self.gates("candidate", tf.concat([inputs, r * state], 1), self.units, 0.0))
        new = u * state + (1 - u) * candidate
        return new, new


def recurrent(tf: Any, run: Callable[[Any, Any], Any]) -> Program:
    """Classify sequences of different lengths from what a recurrent network makes of them."""
    x = tf.placeholder(tf.float32, [None, STEPS_OF_A_SEQUENCE, 5], name="x")
    lengths, y = tf.placeholder(tf.int32, [None], name="lengths"), tf.placeholder(tf.int32, [None], name="y")
    outputs, state = run(x, lengths)
    logits = dense(tf, "head", state, 3, 9)
    loss = cross_entropy(tf, y, logits) + 0.01 * tf.reduce_mean(tf.square(outputs))

    def feeds(k: int) -> dict[Any, Any]:
        seed = k % 5
        sizes = whole(seed, 4, low=1, high=STEPS_OF_A_SEQUENCE + 1)
        return {x: values(seed, 4, STEPS_OF_A_SEQUENCE, 5), lengths: sizes, y: whole(seed, 4, high=3)}

    return training(tf, loss, tf.train.AdamOptimizer(0.02), feeds, [outputs, state])


@program
@also_with_functions
def lstm(tf: Any) -> Program:
    def run(x: Any, lengths: Any) -> Any:
        cell = LongShortTermMemory(tf, "lstm", UNITS, 1)
        outputs, (_, hidden) = tf.nn.dynamic_rnn(cell, x, sequence_length=lengths, dtype=tf.float32)
        return outputs, hidden

    return recurrent(tf, run)


@program
@also_with_functions
def gru(tf: Any) -> Program:
    def run(x: Any, lengths: Any) -> Any:
        cell = GatedRecurrentUnit(tf, "gru", UNITS, 1)
        return tf.nn.dynamic_rnn(cell, x, dtype=tf.float32, swap_memory=True, parallel_iterations=4)

    return recurrent(tf, run)


@program
@also_with_functions
def bidirectional_rnn(tf: Any) -> Program:
    def run(x: Any, lengths: Any) -> Any:
        cells = LongShortTermMemory(tf, "forward", UNITS, 1), LongShortTermMemory(tf, "backward", UNITS, 2)
        outputs, states = tf.nn.bidirectional_dynamic_rnn(
            *cells, x, sequence_length=lengths, dtype=tf.float32
        )
        return tf.concat(outputs, 2), tf.concat([hidden for _, hidden in states], 1)

    return recurrent(tf, run)


def layer_norm(tf: Any, name: str, x: Any) -> Any:
    size = int(x.shape[-1])
    mean, variance = tf.nn.moments(x, [-1], keep_dims=True)
    scale, offset = zeros(tf, f"{name}_scale", [size], 1.0), zeros(tf, f"{name}_offset", [size])
    return (x - mean) * tf.rsqrt(variance + 1e-6) * scale + offset


def projected(tf: Any, name: str, x: Any, size: int, seed: int) -> Any:
    """A dense layer over the last of three dimensions."""
    kernel = weights(tf, name, [int(x.shape[-1]), size], seed)
    return tf.tensordot(x, kernel, [[2], [0]]) + zeros(tf, f"{name}_bias", [size])


def attention(tf: Any, x: Any, mask: Any, heads: int, size: int) -> Any:
    """Self-attention with several heads that does not look ahead."""

    def split(name: str, seed: int) -> Any:
        parts = tf.reshape(projected(tf, name, x, size, seed), [-1, int(x.shape[1]), heads, size // heads])
        return tf.transpose(parts, [0, 2, 1, 3])

    query, key, value = (split(name, seed) for seed, name in enumerate(("query", "key", "value"), 1))
    scores = tf.matmul(query, key, transpose_b=True) / np.sqrt(size / heads).astype(np.float32)
    scores += (1.0 - mask) * -1e9
    mixed = tf.transpose(tf.matmul(tf.nn.softmax(scores), value), [0, 2, 1, 3])
    return projected(tf, "mix", tf.reshape(mixed, [-1, int(x.shape[1]), size]), size, 4)


@program
def transformer_block(tf: Any) -> Program:
    length, size, words = 6, 8, 11
    tokens, wanted = (tf.placeholder(tf.int32, [None, length], name=name) for name in ("tokens", "wanted"))
    table = weights(tf, "embedding", [words, size], 10)
    x = tf.nn.embedding_lookup(table, tokens) * float(np.sqrt(size)) + weights(
        tf, "position", [length, size], 11
    )
    mask = tf.matrix_band_part(tf.ones([length, length]), -1, 0)
    for block in range(2):
        with tf.variable_scope(f"block{block}"):
            x += attention(tf, layer_norm(tf, "norm_a", x), mask, 2, size)
            h = projected(tf, "wide", layer_norm(tf, "norm_b", x), 16, 20)
            h = 0.5 * h * (1.0 + tf.erf(h / np.sqrt(2.0).astype(np.float32)))
            x += projected(tf, "narrow", h, size, 21)
    logits = tf.reshape(
        tf.matmul(tf.reshape(layer_norm(tf, "norm", x), [-1, size]), table, transpose_b=True),
        [-1, length, words],
    )
    labels = tf.one_hot(wanted, words, on_value=0.9, off_value=0.1 / (words - 1))
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits))

    def feeds(k: int) -> dict[Any, Any]:
        text = whole(k % 5, 3, length + 1, high=words)
        return {tokens: text[:, :-1], wanted: text[:, 1:]}

    return training(
        tf, loss, tf.train.AdamOptimizer(0.005), feeds, [tf.nn.softmax(logits), tf.argmax(logits, -1)]
    )


@program
@also_with_functions
def beam_search(tf: Any) -> Program:
    """The most likely sequences under a table of transitions, grown in a loop until all have ended."""
    words, beams, longest, end = 7, 3, 8, 0
    start = tf.placeholder(tf.int32, [], name="start")
    bias = tf.placeholder(tf.float32, [], name="bias")
    table = tf.constant(values(3, words, words) * 2.0)
    table = tf.nn.log_softmax(table + bias * tf.one_hot(end, words))

    def open_beams(step: Any, sequences: Any, scores: Any, done: Any) -> Any:
        return tf.logical_and(step < longest, tf.logical_not(tf.reduce_all(done)))

    def grow(step: Any, sequences: Any, scores: Any, done: Any) -> Any:
        following = tf.gather(table, sequences[:, -1])
        stay = tf.one_hot([end] * beams, words, on_value=0.0, off_value=-1e9)
        following = tf.where(done, stay, following)
        total = tf.reshape(tf.expand_dims(scores, 1) + following, [-1])
        scores, chosen = tf.nn.top_k(total, beams)
        parents, word = chosen // words, chosen % words
        sequences = tf.concat([tf.gather(sequences, parents), tf.expand_dims(word, 1)], 1)
        done = tf.logical_or(tf.gather(done, parents), tf.equal(word, end))
        return step + 1, sequences, scores, done

    first = [
        tf.constant(0),
        tf.fill([beams, 1], start),
        tf.constant([0.0, -1e9, -1e9]),
        tf.fill([beams], False),
    ]
    shapes = [first[0].shape, tf.TensorShape([beams, None]), tf.TensorShape([beams]), tf.TensorShape([beams])]
    _, sequences, scores, done = tf.while_loop(
        open_beams, grow, first, shape_invariants=shapes, back_prop=False
    )
    fetches = [sequences, scores, done, tf.shape(sequences)]
    return Program([Run(fetches, {start: k % words, bias: 0.4 * k - 2}) for k in range(12)])
