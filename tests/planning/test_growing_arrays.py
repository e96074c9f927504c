"""An array of dynamic size is an object of a compiled item, while other lists stay in memory."""

from __future__ import annotations

import numpy as np

import aioexec as ax

X = np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3)
W = np.arange(9, dtype=np.float32).reshape(3, 3) / 9


def loop(steps):
    """A loop that reads rows of `X` from an array of fixed size, and writes its states to one that grows."""
    x = ax.placeholder(ax.float32, [5, 3])
    rows = ax.TensorArray(ax.float32, size=5, element_shape=[3]).unstack(x)
    growing = ax.TensorArray(ax.float32, size=0, dynamic_size=True, element_shape=[1, 3])

    def body(i, states, h):
        h = ax.tanh(ax.matmul(ax.reshape(rows.read(i), [1, 3]) + h, ax.constant(W)))
        return i + 1, states.write(i, h), h

    _, states, last = ax.while_loop(lambda i, *_: i < steps, body, (0, growing, ax.zeros([1, 3])))
    return x, states.stack(), last


async def compiled(fetches, feeds):
    """Run fetches until they are compiled; return the values and the report on the last run."""
    config = ax.ConfigProto()
    config.aioexec.jit = "eager"
    async with ax.Session(config=config) as session:
        for _ in range(3):
            values = await session.run(fetches, feeds)
        return values, await session.describe(fetches, feeds)


def expected(steps):
    h, states = np.zeros((1, 3), np.float32), []
    for row in X[:steps]:
        h = np.tanh((row[None] + h) @ W)
        states.append(h)
    return np.stack(states)


async def test_reads_and_products_beside_a_growing_array_are_compiled():
    with ax.Graph().as_default():
        x, states, last = loop(4)
        (found, end), report = await compiled((states, last), {x: X})

    assert np.allclose(found, expected(4), rtol=1e-5, atol=1e-6)
    assert np.allclose(end, expected(4)[-1], rtol=1e-5, atol=1e-6)
    assert [len(partition.items) for partition in report.partitions] == [1]
    verbs = ("", "Gather", "Size", "Write")
    assert set(report.breaks_by_op) == {"Range", *(f"TensorArray{verb}V3" for verb in verbs)}


async def test_gradients_pass_through_a_growing_array():
    with ax.Graph().as_default():
        x, states, _ = loop(4)
        (slope,) = ax.gradients(ax.reduce_sum(ax.square(states)), x)
        found, report = await compiled(slope, {x: X})

    h, held = np.zeros((1, 3), np.float32), []
    for row in X[:4]:
        h = np.tanh((row[None] + h) @ W)
        held.append(h)
    slopes, back = np.zeros_like(X), np.zeros((1, 3), np.float32)
    for time in reversed(range(4)):
        back = ((2 * held[time] + back) * (1 - held[time] ** 2)) @ W.T
        slopes[time] = back[0]
    assert np.allclose(found, slopes, rtol=1e-5, atol=1e-6)
    assert not {"EmptyTensorList", "TensorListPushBack", "TensorListPopBack"} & set(report.breaks_by_op)
