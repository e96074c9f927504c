"""The time of a training step of an MLP (784-512-512-10, batch 64, softmax cross-entropy)."""

from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from bench import mlp, sessions
from bench.sessions import Array, Graphed
from bench.workload import Case, Workload

QUESTION = __doc__
CASES = [Case("SGD", size=64, variant="sgd"), Case("Adam", size=64, variant="adam")]
RATE = {"sgd": 0.05, "adam": 0.001}
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
CHECKED_STEPS = 5


def build(lib: Any, case: Case) -> Graphed:
    x = lib.placeholder(lib.float32, [None, mlp.SIZES[0]], name="x")
    y = lib.placeholder(lib.int32, [None], name="y")
    layers = [(lib.Variable(w), lib.Variable(b)) for w, b in mlp.weights()]
    logits = mlp.forward(lib, x, layers)
    loss = lib.reduce_mean(lib.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    if case.variant == "sgd":
        optimizer = lib.train.GradientDescentOptimizer(RATE["sgd"])
    else:
        optimizer = lib.train.AdamOptimizer(RATE["adam"], BETA1, BETA2, EPSILON)
    feeds = {x: mlp.images(case.size), y: mlp.labels(case.size)}
    return Graphed([loss], feeds, optimizer.minimize(loss), initialized=True, checked_steps=CHECKED_STEPS)


async def aioexec(case: Case, stack: AsyncExitStack) -> Workload:
    return await sessions.aioexec(build, case, stack)


def tensorflow(case: Case) -> Workload:
    return sessions.tensorflow(build, case)


def tensorflow_inline(case: Case) -> Workload:
    return sessions.tensorflow(build, case, inter_op=-1)


def jax(case: Case) -> Workload:
    import jax as library
    import jax.numpy as jnp

    x, y = library.device_put(mlp.images(case.size)), library.device_put(mlp.labels(case.size))

    def loss_of(layers: Any) -> Any:
        h = x
        for w, b in layers[:-1]:
            h = library.nn.relu(h @ w + b)
        w, b = layers[-1]
        chosen = jnp.take_along_axis(library.nn.log_softmax(h @ w + b), y[:, None], axis=1)
        return -jnp.mean(chosen)

    def updated(state: Any) -> Any:
        layers, m, v, count = state
        loss, gradients = library.value_and_grad(loss_of)(layers)
        each = library.tree_util.tree_map
        if case.variant == "sgd":
            return loss, (each(lambda w, g: w - RATE["sgd"] * g, layers, gradients), m, v, count)
        count = count + 1
        m = each(lambda m, g: BETA1 * m + (1 - BETA1) * g, m, gradients)
        v = each(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, v, gradients)
        rate = RATE["adam"] * jnp.sqrt(1 - BETA2**count) / (1 - BETA1**count)
        return loss, (each(lambda w, m, v: w - rate * m / (jnp.sqrt(v) + EPSILON), layers, m, v), m, v, count)

    step_of = library.jit(updated, donate_argnums=0)
    zeros = [(np.zeros_like(w), np.zeros_like(b)) for w, b in mlp.weights()]
    state = library.device_put((mlp.weights(), zeros, zeros, np.float32(0)))

    def step() -> Any:
        nonlocal state
        loss, state = library.block_until_ready(step_of(state))
        return loss

    return Workload(step, lambda: [np.stack([step() for _ in range(CHECKED_STEPS)])])


def torch(case: Case) -> Workload:
    import torch as library

    x = library.from_numpy(mlp.images(case.size))
    y = library.from_numpy(mlp.labels(case.size)).long()
    layers = [
        (library.from_numpy(w).requires_grad_(), library.from_numpy(b).requires_grad_())
        for w, b in mlp.weights()
    ]
    parameters = [parameter for layer in layers for parameter in layer]
    if case.variant == "sgd":
        optimizer: Any = library.optim.SGD(parameters, RATE["sgd"])
    else:
        optimizer = library.optim.Adam(parameters, RATE["adam"], (BETA1, BETA2), EPSILON)

    def step() -> Any:
        h: Any = x
        for w, b in layers[:-1]:
            h = library.relu(library.addmm(b, h, w))
        w, b = layers[-1]
        loss = library.nn.functional.cross_entropy(library.addmm(b, h, w), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return Workload(step, lambda: [np.array([step() for _ in range(CHECKED_STEPS)], np.float32)])


def numpy(case: Case) -> Workload:
    trainer = NumpyTrainer(case)
    return Workload(
        trainer.step, lambda: [np.array([trainer.step() for _ in range(CHECKED_STEPS)], np.float32)]
    )


class NumpyTrainer:
    """The training step written out with NumPy: the reference of this benchmark."""

    def __init__(self, case: Case) -> None:
        self._x, self._y = mlp.images(case.size), mlp.labels(case.size)
        self._update = self._sgd if case.variant == "sgd" else self._adam
        self._layers = mlp.weights()
        self._m = [np.zeros_like(array) for layer in self._layers for array in layer]
        self._v = [np.zeros_like(array) for array in self._m]
        self._count = 0

    def step(self) -> float:
        """Train on the batch and return the loss before."""
        hidden = [self._x]
        for w, b in self._layers[:-1]:
            hidden.append(np.maximum(hidden[-1] @ w + b, 0))
        w, b = self._layers[-1]
        logits = hidden[-1] @ w + b
        logits -= logits.max(axis=1, keepdims=True)
        probabilities = np.exp(logits)
        sums = probabilities.sum(axis=1, keepdims=True)
        probabilities /= sums
        rows = np.arange(len(self._y))
        loss = float(np.mean(np.log(sums[:, 0]) - logits[rows, self._y]))
        probabilities[rows, self._y] -= 1
        self._update(self._gradients(hidden, probabilities / np.float32(len(rows))))
        return loss

    def _gradients(self, hidden: list[Array], delta: Array) -> list[Array]:
        gradients: list[Array] = []
        for (w, _), h in zip(reversed(self._layers), reversed(hidden), strict=True):
            gradients = [h.T @ delta, delta.sum(axis=0), *gradients]
            delta = (delta @ w.T) * (h > 0)
        return gradients

    def _sgd(self, gradients: list[Array]) -> None:
        for parameter, gradient in zip(self._parameters(), gradients, strict=True):
            parameter -= np.float32(RATE["sgd"]) * gradient

    def _adam(self, gradients: list[Array]) -> None:
        self._count += 1
        rate = np.float32(RATE["adam"] * np.sqrt(1 - BETA2**self._count) / (1 - BETA1**self._count))
        for parameter, gradient, m, v in zip(self._parameters(), gradients, self._m, self._v, strict=True):
            m += np.float32(1 - BETA1) * (gradient - m)
            v += np.float32(1 - BETA2) * (gradient * gradient - v)
            parameter -= rate * m / (np.sqrt(v) + np.float32(EPSILON))

    def _parameters(self) -> list[Array]:
        return [array for layer in self._layers for array in layer]
