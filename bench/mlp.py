"""The multilayer perceptron 784-512-512-10 shared by several benchmarks: weights, inputs and the forward pass."""

from itertools import pairwise
from typing import Any

import numpy as np

from bench import sessions
from bench.sessions import Array, Graphed
from bench.workload import Case

SIZES = (784, 512, 512, 10)


def weights() -> list[tuple[Array, Array]]:
    """Return a weight matrix and a bias for each layer."""
    generator = np.random.default_rng(11)
    return [
        (
            (generator.standard_normal((rows, columns)) * np.sqrt(2 / rows)).astype(np.float32),
            (generator.standard_normal(columns) * 0.1).astype(np.float32),
        )
        for rows, columns in pairwise(SIZES)
    ]


def images(batch: int) -> Array:
    """Return inputs between 0 and 1, dark for the most part."""
    generator = np.random.default_rng(12)
    return np.maximum(generator.random((batch, SIZES[0])) * 2 - 1, 0).astype(np.float32)


def labels(batch: int) -> Array:
    """Return a class for each input."""
    return np.random.default_rng(13).integers(0, SIZES[-1], batch).astype(np.int32)


def forward(lib: Any, x: Any, layers: list[tuple[Any, Any]]) -> Any:
    """Compute the logits in TensorFlow 1.x's names."""
    for w, b in layers[:-1]:
        x = lib.nn.relu(lib.matmul(x, w) + b)
    w, b = layers[-1]
    return lib.matmul(x, w) + b


def build_inference(lib: Any, case: Case) -> Graphed:
    """Build the forward pass with its weights in variables."""
    x = lib.placeholder(lib.float32, [None, SIZES[0]], name="x")
    layers = [(lib.Variable(w), lib.Variable(b)) for w, b in weights()]
    return Graphed([lib.nn.softmax(forward(lib, x, layers))], {x: images(case.size)}, initialized=True)


def numpy_forward(x: Array, layers: list[tuple[Array, Array]]) -> Array:
    """Compute the softmax of the logits with NumPy."""
    for w, b in layers[:-1]:
        x = np.maximum(x @ w + b, 0)
    w, b = layers[-1]
    logits = x @ w + b
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def onnxruntime_session() -> Any:
    """Make an onnxruntime session of the forward pass."""
    from onnx import helper

    nodes = []
    constants: dict[str, Array] = {}
    name = "x"
    for i, (w, b) in enumerate(weights()):
        constants |= {f"w{i}": w, f"b{i}": b}
        nodes.append(helper.make_node("Gemm", [name, f"w{i}", f"b{i}"], [f"layer{i}"]))
        name = f"layer{i}"
        if i < len(SIZES) - 2:
            nodes.append(helper.make_node("Relu", [name], [f"relu{i}"]))
            name = f"relu{i}"
    nodes.append(helper.make_node("Softmax", [name], ["y"], axis=1))
    return sessions.onnxruntime_session(nodes, {"x": [None, SIZES[0]]}, ["y"], constants)
