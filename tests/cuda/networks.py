"""Graphs that are run on GPUs and on the processor, for tests that compare both."""

from __future__ import annotations

from typing import Any

import numpy as np

import aioexec as ax

WITHOUT_GPUS = {"GPU": 0}


async def embedding_losses(config: Any) -> list[float]:
    """The losses of a network with an embedding, dropout and attention scores by Einsum, trained with Adagrad."""
    with ax.Graph().as_default() as graph:
        ax.set_random_seed(3)
        random = np.random.default_rng(3)

        def weights(name: str, *shape: int) -> Any:
            return ax.get_variable(
                name, initializer=ax.constant(random.normal(size=shape).astype(np.float32) / 4)
            )

        ids = ax.constant(random.integers(0, 9, (4, 5)).astype(np.int32))
        target = ax.constant(random.normal(size=(4, 6)).astype(np.float32))
        words = ax.nn.embedding_lookup(weights("table", 9, 8), ids)
        words = ax.nn.dropout(words, rate=0.25) + 0.1 * ax.random_normal([4, 5, 8])
        scores = ax.nn.softmax(ax.einsum("bqd,bkd->bqk", words, words))
        mixed = ax.reduce_sum(ax.einsum("bqk,bkd->bqd", scores, words), 1)
        loss = ax.reduce_mean(ax.square(ax.matmul(mixed, weights("w", 8, 6)) - target))
        train = ax.train.AdagradOptimizer(0.1).minimize(loss)
        init = ax.global_variables_initializer()
    async with ax.Session(graph=graph, config=config) as session:
        await session.run(init)
        return [float((await session.run([loss, train]))[0]) for _ in range(4)]


async def products(config: Any) -> list[Any]:
    """Products of matrices of several dtypes, transposed and not, single and in batches that are broadcast."""
    random = np.random.default_rng(4)
    feeds: dict[Any, Any] = {}
    with ax.Graph().as_default() as graph:

        def matrices(dtype: Any, *shape: int) -> Any:
            node = ax.placeholder(dtype, shape)
            value = random.normal(size=shape)
            if dtype.is_complex:
                value = value + 1j * random.normal(size=shape)
            feeds[node] = value.astype(dtype.as_numpy_dtype)
            return node

        made = []
        for dtype in (ax.float32, ax.float64, ax.float16, ax.bfloat16, ax.complex64):
            for flips in ((False, False), (True, False), (False, True), (True, True)):
                x = matrices(dtype, *((33, 20) if flips[0] else (20, 33)))
                y = matrices(dtype, *((17, 33) if flips[1] else (33, 17)))
                made.append(ax.matmul(x, y, transpose_a=flips[0], transpose_b=flips[1]))
            made.append(ax.matmul(matrices(dtype, 3, 1, 6, 7), matrices(dtype, 2, 7, 5)))
            made.append(ax.matmul(matrices(dtype, 3, 8, 16), matrices(dtype, 3, 9, 16), adjoint_b=True))
        made.append(
            ax.nn.conv2d(matrices(ax.float32, 2, 5, 6, 8), matrices(ax.float32, 1, 1, 8, 12), 1, "SAME")
        )
    async with ax.Session(graph=graph, config=config) as session:
        return list(await session.run(made, feeds))


def assert_products_are_close(found: list[Any], expected: list[Any]) -> None:
    tolerances = {2: 2e-2, 4: 1e-5, 8: 1e-12}
    for actual, wanted in zip(found, expected, strict=True):
        part = actual.dtype.itemsize // (2 if actual.dtype.kind == "c" else 1)
        scale = float(np.abs(wanted).max())
        np.testing.assert_allclose(
            actual.astype(np.complex128),
            wanted.astype(np.complex128),
            rtol=0,
            atol=tolerances[part] * scale,
        )
