"""Recurrent networks, unrolled by `dynamic_rnn` with TensorFlow 1.x's loop operations."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.network_graphs.parameters import Network, Parameters

STEPS = 100
FEATURES = 128


class LstmCell:
    """A cell for `dynamic_rnn`: input, forget and output gate, without peepholes; state is (cell, hidden)."""

    def __init__(self, parameters: Parameters, features: int, units: int) -> None:
        self._tf = parameters.tf
        deviation = 1 / np.sqrt(features + units)
        self._kernel = parameters.normal("kernel", [features + units, 4 * units], deviation)
        self._bias = parameters.normal("bias", [4 * units], 0.1)
        self.output_size = units
        self.state_size = (units, units)

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


class GruCell:
    """A cell for `dynamic_rnn`: reset and update gate; the reset gate scales the state before its product."""

    def __init__(self, parameters: Parameters, features: int, units: int) -> None:
        self._tf = parameters.tf
        deviation = 1 / np.sqrt(features + units)
        with parameters.tf.name_scope("gates"):
            self._gates = parameters.normal("kernel", [features + units, 2 * units], deviation)
            self._gates_bias = parameters.uniform("bias", [2 * units], 0.8, 1.2)
        with parameters.tf.name_scope("candidate"):
            self._candidate = parameters.normal("kernel", [features + units, units], deviation)
            self._candidate_bias = parameters.normal("bias", [units], 0.1)
        self.output_size = self.state_size = units

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        return self._tf.zeros([batch_size, self.state_size], dtype)

    def __call__(self, x: Any, state: Any, scope: Any = None) -> Any:
        tf = self._tf
        gates = tf.nn.bias_add(tf.matmul(tf.concat([x, state], 1), self._gates), self._gates_bias)
        reset, update = tf.split(tf.sigmoid(gates), 2, axis=1)
        joined = tf.concat([x, reset * state], 1)
        new = tf.tanh(tf.nn.bias_add(tf.matmul(joined, self._candidate), self._candidate_bias))
        state = update * state + (1 - update) * new
        return state, state


def lstm(parameters: Parameters, batch: int, units: int = 256) -> Network:
    """An LSTM over 100 steps of 128 features; the outputs of all steps."""
    with parameters.tf.name_scope("lstm_cell"):
        cell = LstmCell(parameters, FEATURES, units)
    return _unrolled(parameters, batch, cell)


def gru(parameters: Parameters, batch: int, units: int = 256) -> Network:
    """The same of a GRU."""
    with parameters.tf.name_scope("gru_cell"):
        cell = GruCell(parameters, FEATURES, units)
    return _unrolled(parameters, batch, cell)


def _unrolled(parameters: Parameters, batch: int, cell: Any) -> Network:
    tf = parameters.tf
    x = tf.placeholder(tf.float32, [None, STEPS, FEATURES], name="x")
    outputs, _ = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
    fed = np.random.default_rng(5).standard_normal((batch, STEPS, FEATURES), np.float32)
    return Network([outputs], {x: fed})
