"""The time of a forward pass and a training step of a small CNN (28×28, batch 32).

5×5×32, pool, 5×5×64, pool, 1024, 10; NHWC, ReLU, "SAME" padding, 2×2 max pooling.
"""

from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from bench import mlp, sessions
from bench.sessions import Array, Graphed
from bench.workload import Case, Workload

QUESTION = __doc__.splitlines()[0]
CASES = [Case("inference", size=32, variant="inference"), Case("training, SGD", size=32, variant="training")]
SHAPES = [(5, 5, 1, 32), (5, 5, 32, 64), (7 * 7 * 64, 1024), (1024, 10)]
RATE = 0.01


def weights() -> list[tuple[Array, Array]]:
    """Return filters or a matrix, and a bias, for each layer."""
    generator = np.random.default_rng(21)
    return [
        (
            (generator.standard_normal(shape) * np.sqrt(2 / np.prod(shape[:-1]))).astype(np.float32),
            np.full(shape[-1], 0.1, np.float32),
        )
        for shape in SHAPES
    ]


def images(case: Case) -> Array:
    return mlp.images(case.size).reshape(-1, 28, 28, 1)


def build(lib: Any, case: Case) -> Graphed:
    x = lib.placeholder(lib.float32, [None, 28, 28, 1], name="x")
    layers = [(lib.Variable(w), lib.Variable(b)) for w, b in weights()]
    h = x
    for w, b in layers[:2]:
        h = lib.nn.relu(lib.nn.conv2d(h, w, strides=[1, 1, 1, 1], padding="SAME") + b)
        h = lib.nn.max_pool(h, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
    logits = mlp.forward(lib, lib.reshape(h, [-1, SHAPES[2][0]]), layers[2:])
    if case.variant == "inference":
        return Graphed([logits], {x: images(case)}, initialized=True)
    y = lib.placeholder(lib.int32, [None], name="y")
    loss = lib.reduce_mean(lib.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    train = lib.train.GradientDescentOptimizer(RATE).minimize(loss)
    return Graphed([loss], {x: images(case), y: mlp.labels(case.size)}, train, initialized=True)


async def aioexec(case: Case, stack: AsyncExitStack) -> Workload:
    return await sessions.aioexec(build, case, stack)


def tensorflow(case: Case) -> Workload:
    return sessions.tensorflow(build, case)


def onnxruntime(case: Case) -> Workload | None:
    from onnx import helper

    if case.variant != "inference":
        return None  # the package on PyPI does not train
    nodes = [helper.make_node("Transpose", ["x"], ["nchw"], perm=[0, 3, 1, 2])]
    constants = {}
    name = "nchw"
    for i, (w, b) in enumerate(weights()):
        constants[f"b{i}"] = b
        if w.ndim == 4:
            constants[f"w{i}"] = np.ascontiguousarray(w.transpose(3, 2, 0, 1))
            nodes += [
                helper.make_node("Conv", [name, f"w{i}", f"b{i}"], [f"conv{i}"], pads=[2, 2, 2, 2]),
                helper.make_node("Relu", [f"conv{i}"], [f"relu{i}"]),
                helper.make_node("MaxPool", [f"relu{i}"], [f"pool{i}"], kernel_shape=[2, 2], strides=[2, 2]),
            ]
            name = f"pool{i}"
            continue
        constants[f"w{i}"] = w
        if i == 2:
            nodes.append(helper.make_node("Transpose", [name], ["nhwc"], perm=[0, 2, 3, 1]))
            nodes.append(helper.make_node("Flatten", ["nhwc"], ["flat"]))
            name = "flat"
        nodes.append(helper.make_node("Gemm", [name, f"w{i}", f"b{i}"], [f"dense{i}"]))
        name = f"dense{i}"
        if i == 2:
            nodes.append(helper.make_node("Relu", [name], ["hidden"]))
            name = "hidden"
    session = sessions.onnxruntime_session(nodes, {"x": [None, 28, 28, 1]}, [name], constants)
    return sessions.onnxruntime(session, {"x": images(case)})


def jax(case: Case) -> Workload:
    import jax as library
    import jax.numpy as jnp

    def logits_of(x: Any, layers: Any) -> Any:
        for w, b in layers[:2]:
            x = library.lax.conv_general_dilated(
                x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            x = library.nn.relu(x + b)
            x = library.lax.reduce_window(x, -jnp.inf, library.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")
        (w, b), (last_w, last_b) = layers[2:]
        x = library.nn.relu(x.reshape(-1, SHAPES[2][0]) @ w + b)
        return x @ last_w + last_b

    if case.variant == "inference":
        return sessions.jax(logits_of, images(case), weights())
    x, y = library.device_put(images(case)), library.device_put(mlp.labels(case.size))

    def loss_of(layers: Any) -> Any:
        chosen = jnp.take_along_axis(library.nn.log_softmax(logits_of(x, layers)), y[:, None], axis=1)
        return -jnp.mean(chosen)

    def updated(layers: Any) -> Any:
        loss, gradients = library.value_and_grad(loss_of)(layers)
        return loss, library.tree_util.tree_map(lambda w, g: w - RATE * g, layers, gradients)

    step_of = library.jit(updated, donate_argnums=0)
    layers = library.device_put(weights())

    def step() -> Any:
        nonlocal layers
        loss, layers = library.block_until_ready(step_of(layers))
        return loss

    return Workload(step, lambda: [np.stack([step() for _ in range(5)])])
