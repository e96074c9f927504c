"""The time to build a training graph of layers, cells and an optimizer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from bench.workload import Case, Workload

QUESTION = __doc__
MEASURES = "time to build a graph with its gradients; the notes have its number of nodes"
CASES = [Case(name) for name in ("mlp", "convolutions", "unrolled cells", "loop of cells")]


def mlp(lib: Any) -> Any:
    """A chain of dense layers."""
    h = lib.placeholder(lib.float32, [None, 64])
    for _ in range(20):
        h = lib.layers.dense(h, 64, activation=lib.nn.relu)
    return lib.reduce_mean(lib.square(h))


def convolutions(lib: Any) -> Any:
    """Residual blocks with batch normalisation."""
    h = lib.placeholder(lib.float32, [None, 16, 16, 16])
    for _ in range(10):
        h += lib.nn.relu(
            lib.layers.batch_normalization(lib.layers.conv2d(h, 16, 3, padding="same"), training=True)
        )
    return lib.reduce_mean(lib.square(h))


def unrolled_cells(lib: Any) -> Any:
    """Thirty steps of an LSTM."""
    h = lib.placeholder(lib.float32, [8, 30, 16])
    outputs, _ = lib.nn.static_rnn(lib.nn.rnn_cell.LSTMCell(16), lib.unstack(h, axis=1), dtype=lib.float32)
    return lib.reduce_mean(lib.square(lib.stack(outputs)))


def loop_of_cells(lib: Any) -> Any:
    """Two layers of GRU in a while loop."""
    h = lib.placeholder(lib.float32, [None, None, 16])
    cells = lib.nn.rnn_cell.MultiRNNCell([lib.nn.rnn_cell.GRUCell(16) for _ in range(2)])
    outputs, _ = lib.nn.dynamic_rnn(cells, h, dtype=lib.float32)
    return lib.reduce_mean(lib.square(outputs))


MODELS: dict[str, Callable[[Any], Any]] = {
    "mlp": mlp,
    "convolutions": convolutions,
    "unrolled cells": unrolled_cells,
    "loop of cells": loop_of_cells,
}


def _workload(lib: Any, case: Case) -> Workload:
    def build() -> Any:
        with lib.Graph().as_default() as graph:
            lib.train.AdamOptimizer().minimize(MODELS[case.name](lib))
        return graph

    graph = build()
    nodes = len(graph.get_operations())
    with graph.as_default():
        shapes = [np.array(variable.shape.as_list()) for variable in lib.global_variables()]
    return Workload(build, lambda: shapes, notes=lambda: {"nodes": nodes})


async def aioexec(case: Case, stack: AsyncExitStack) -> Workload:
    import aioexec as ax

    return _workload(ax, case)


def tensorflow(case: Case) -> Workload:
    import tensorflow.compat.v1 as tf

    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.disable_control_flow_v2()  # loops as graphs of TensorFlow 1.x have them
    return _workload(tf, case)
