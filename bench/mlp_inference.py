"""The time of a forward pass of an MLP (784-512-512-10, weights in variables)."""

from contextlib import AsyncExitStack
from typing import Any

from bench import mlp, sessions
from bench.workload import Case, Workload

QUESTION = __doc__
CASES = [Case("batch 1", size=1), Case("batch 32", size=32), Case("batch 256", size=256)]


async def aioexec(case: Case, stack: AsyncExitStack) -> Workload:
    return await sessions.aioexec(mlp.build_inference, case, stack)


def tensorflow(case: Case) -> Workload:
    return sessions.tensorflow(mlp.build_inference, case)


def tensorflow_inline(case: Case) -> Workload:
    return sessions.tensorflow(mlp.build_inference, case, inter_op=-1)


def onnxruntime(case: Case) -> Workload:
    return sessions.onnxruntime(mlp.onnxruntime_session(), {"x": mlp.images(case.size)})


def jax(case: Case) -> Workload:
    from jax.nn import relu, softmax

    def forward(x: Any, layers: Any) -> Any:
        for w, b in layers[:-1]:
            x = relu(x @ w + b)
        w, b = layers[-1]
        return softmax(x @ w + b)

    return sessions.jax(forward, mlp.images(case.size), mlp.weights())


def torch(case: Case) -> Workload:
    import torch as library

    x = library.from_numpy(mlp.images(case.size))
    layers = [(library.from_numpy(w), library.from_numpy(b)) for w, b in mlp.weights()]

    def step() -> Any:
        with library.inference_mode():
            y = x
            for w, b in layers[:-1]:
                y = library.relu(library.addmm(b, y, w))
            w, b = layers[-1]
            return library.softmax(library.addmm(b, y, w), 1).numpy()

    return Workload(step)


def numpy(case: Case) -> Workload:
    x, layers = mlp.images(case.size), mlp.weights()
    return Workload(lambda: mlp.numpy_forward(x, layers))
