"""The SavedModels that benchmarks load: dense layers of 1024 units, 4 MiB each.

`python -m bench.saved_models builder|functions FOLDER LAYERS` writes one with TensorFlow, in a process of its own, so that the
process that loads it has not imported TensorFlow before.
"""

import os
import subprocess
import sys
from typing import Any

import numpy as np

from bench.sessions import Array, Graphed

BUILDER, FUNCTIONS = "builder", "functions"
"""The forms: of TensorFlow 1.x's `tf.saved_model.Builder`, and of `tf.saved_model.save`."""

UNITS = 1024
LAYERS_OF_100_MIB = 25
SCALE = (2 / UNITS) ** 0.5
"""The standard deviation of weights."""


def rows() -> Array:
    """Return the input of the first answer, one row."""
    return np.random.default_rng(16).standard_normal((1, UNITS), np.float32)


def build(lib: Any, layers: int) -> Graphed:
    """Build the forward pass in TensorFlow 1.x's names. Its graph is small: initial values are no constants in it."""
    x = h = lib.placeholder(lib.float32, [None, UNITS], name="x")
    for layer in range(layers):
        weight = lib.Variable(lib.random_normal([UNITS, UNITS], stddev=SCALE, seed=layer))
        h = lib.nn.relu(lib.matmul(h, weight))
    return Graphed([h], {x: rows()}, initialized=True)


def write_with_tensorflow(form: str, folder: str, layers: int = LAYERS_OF_100_MIB) -> None:
    """Write a SavedModel in a process of its own, unless the folder is there."""
    if not os.path.exists(folder):
        command = [sys.executable, "-m", "bench.saved_models", form, folder, str(layers)]
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
        result = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
        if result.returncode != 0:
            raise RuntimeError(result.stderr.strip().splitlines()[-1])


async def write_with_aioexec(folder: str, layers: int = LAYERS_OF_100_MIB) -> None:
    """Write a SavedModel of the first form with aioexec."""
    import aioexec as ax

    with ax.Graph().as_default() as graph:
        built = build(ax, layers)
        initializer = ax.global_variables_initializer()
    async with ax.Session(graph=graph) as session:
        await session.run(initializer)
        (x,), (y,) = built.feeds, built.outputs
        await ax.saved_model.simple_save(session, folder, {"x": x}, {"y": y})


def _write_by_builder(folder: str, layers: int) -> None:
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default(), tf.Session() as session:
        built = build(tf, layers)
        session.run(tf.global_variables_initializer())
        (x,), (y,) = built.feeds, built.outputs
        signature = tf.saved_model.predict_signature_def({"x": x}, {"y": y})
        builder = tf.saved_model.Builder(folder)
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
        builder.save()


def _write_functions(folder: str, layers: int) -> None:
    import tensorflow as tf

    module = tf.Module()
    module.layers = [
        tf.Variable(tf.random.stateless_normal([UNITS, UNITS], [layer, 0], stddev=SCALE))
        for layer in range(layers)
    ]

    @tf.function(input_signature=[tf.TensorSpec([None, UNITS], tf.float32, "x")])
    def forward(x: Any) -> dict[str, Any]:
        for weight in module.layers:
            x = tf.nn.relu(tf.matmul(x, weight))
        return {"y": x}

    tf.saved_model.save(module, folder, signatures=forward)


if __name__ == "__main__":
    _form, _folder, _layers = sys.argv[1:]
    (_write_by_builder if _form == BUILDER else _write_functions)(_folder, int(_layers))
