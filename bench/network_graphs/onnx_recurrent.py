"""Recurrent networks in ONNX: its operation for a whole sequence, with the weights of TensorFlow's cell in its order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.network_graphs.onnx_translation import Translation, Value


def lstm(tf: Any, graph: Any, outputs: Sequence[Any]) -> Any:
    """The ONNX model of a layer of `recurrent.LstmCell` cells."""
    t = Translation()
    kernel, bias = _weights(tf, graph, "lstm_cell")
    units = kernel.shape[1] // 4
    at, new, forget, out = np.split(kernel.T, 4)
    forward = np.concatenate([at, out, forget, new])  # the order of ONNX
    at_bias, new_bias, forget_bias, out_bias = np.split(bias, 4)
    biases = np.concatenate([at_bias, out_bias, forget_bias + np.float32(1), new_bias])
    return _layer(t, "LSTM", graph, outputs, forward, biases, units)


def gru(tf: Any, graph: Any, outputs: Sequence[Any]) -> Any:
    """The ONNX model of a layer of `recurrent.GruCell` cells."""
    t = Translation()
    gates, gates_bias = _weights(tf, graph, "gru_cell/gates")
    candidate, candidate_bias = _weights(tf, graph, "gru_cell/candidate")
    units = candidate.shape[1]
    reset, update = np.split(gates.T, 2)
    reset_bias, update_bias = np.split(gates_bias, 2)
    forward = np.concatenate([update, reset, candidate.T])  # the order of ONNX
    biases = np.concatenate([update_bias, reset_bias, candidate_bias])
    return _layer(t, "GRU", graph, outputs, forward, biases, units)


def _layer(
    t: Translation, op: str, graph: Any, outputs: Sequence[Any], kernel: Any, biases: Any, units: int
) -> Any:
    features = kernel.shape[1] - units
    x = graph.get_tensor_by_name("x:0")
    (by_step,) = t.add("Transpose", [x.name], perm=[1, 0, 2])
    weights = [kernel[:, :features], kernel[:, features:], np.concatenate([biases, np.zeros_like(biases)])]
    operands = [by_step, *(t.constant(weight[None]) for weight in weights)]
    (hidden,) = t.add(op, operands, hidden_size=units)
    (hidden,) = t.add("Squeeze", [hidden, t.constant([1], np.int64)])
    t.values[outputs[0].name] = Value(t.add("Transpose", [hidden], perm=[1, 0, 2])[0])
    return t.model([x], outputs)


def _weights(tf: Any, graph: Any, cell: str) -> list[Any]:
    nodes = [graph.get_operation_by_name(f"{cell}/{name}") for name in ("kernel", "bias")]
    return [tf.make_ndarray(node.get_attr("value")) for node in nodes]
