"""A training run that changes engines in the middle, with Adam's slots, decayed rates, averages and a shuffled queue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.train.off_loop import off_loop
from tests.interop.train.handed_over import as_in_first_versions

pytestmark = pytest.mark.interop

STEPS = 20
BATCH = 8
ROWS = np.random.default_rng(11).normal(size=(2 * STEPS * BATCH, 6)).astype(np.float32)
LABELS = (ROWS[:, 0] * ROWS[:, 1] > 0).astype(np.int32)
KINDS = ("FIFOQueue", "RandomShuffleQueue")


def build(m: Any, kind: str) -> None:
    """A network of two layers that learns from what a queue gives it, by Adam."""
    types, shapes = [m.float32, m.int32], [[6], []]
    capacity = len(ROWS)
    if kind == "FIFOQueue":
        queue = m.FIFOQueue(capacity, types, shapes)
    else:
        queue = m.RandomShuffleQueue(capacity, 0, types, shapes, seed=3)
    rows, labels = m.placeholder(m.float32, [None, 6]), m.placeholder(m.int32, [None])
    m.add_to_collection("fill", queue.enqueue_many([rows, labels]))
    x, wanted = queue.dequeue_many(BATCH)
    with m.variable_scope("hidden", use_resource=True):
        weights = m.get_variable("weights", initializer=m.constant(ROWS[:6, :6] * 0.5))
        x = m.nn.relu(m.matmul(x, weights) + m.get_variable("bias", initializer=m.zeros([6])))
    with m.variable_scope("output"):
        weights = m.get_variable("weights", initializer=m.constant(ROWS[6:12, :2] * 0.5))
        logits = m.matmul(x, weights)
    losses = m.nn.sparse_softmax_cross_entropy_with_logits(labels=wanted, logits=logits)
    loss = m.reduce_mean(losses)
    step = m.train.get_or_create_global_step()
    rate = m.train.exponential_decay(0.05, step, 10, 0.9)
    train = m.train.AdamOptimizer(rate).minimize(loss, global_step=step)
    average = m.train.ExponentialMovingAverage(0.9, step)
    with m.control_dependencies([train]):
        m.add_to_collection("go", average.apply(m.trainable_variables()))
    for name, item in {
        "init": m.global_variables_initializer(),
        "loss": loss,
        "rows": rows,
        "labels": labels,
    }.items():
        m.add_to_collection(name, item)
    m.add_to_collection("savers", m.train.Saver())


def fetches(graph: Any) -> list[Any]:
    return [graph.get_collection("loss")[0], graph.get_collection("go")[0]]


def feeds(graph: Any, part: slice) -> dict[Any, Any]:
    keys = [graph.get_collection(name)[0] for name in ("rows", "labels")]
    return dict(zip(keys, (ROWS[part], LABELS[part]), strict=True))


def halves(sizes: Sequence[int]) -> Iterator[slice]:
    """The rows for a number of steps, then those for the next."""
    start = 0
    for size in sizes:
        yield slice(start, start + size * BATCH)
        start += size * BATCH


FIRST, SECOND = halves([STEPS, STEPS])


class Tensorflow:
    def __init__(self, tf: Any) -> None:
        self.tf = tf

    def graph(self, kind: str, meta_graph: str | None) -> Any:
        with self.tf.Graph().as_default() as graph, as_in_first_versions(self.tf):
            if meta_graph is None:
                build(self.tf, kind)
            else:
                self.tf.train.import_meta_graph(meta_graph)
        return graph

    async def run(self, graph: Any, restored: str | None, saved: str | None, *parts: slice) -> list[Any]:
        saver = graph.get_collection("savers")[0]
        losses = []
        with self.tf.Session(graph=graph) as session:
            session.run(graph.get_collection("init")) if restored is None else saver.restore(
                session, restored
            )
            for part in parts:
                session.run(graph.get_collection("fill"), feeds(graph, part))
                losses += [session.run(fetches(graph))[0] for _ in range(STEPS)]
            if saved is not None:
                with graph.as_default():
                    saver.save(session, saved, global_step=STEPS)
        return losses


class Aioexec:
    def graph(self, kind: str, meta_graph: str | None) -> Any:
        with ax.Graph().as_default() as graph:
            if meta_graph is None:
                build(ax, kind)
            else:
                ax.train.import_meta_graph(meta_graph)
        return graph

    async def run(self, graph: Any, restored: str | None, saved: str | None, *parts: slice) -> list[Any]:
        saver = graph.get_collection("savers")[0]
        losses = []
        async with ax.Session(graph=graph) as session:
            if restored is None:
                await session.run(graph.get_collection("init"))
            else:
                await saver.restore(session, restored)
            for part in parts:
                await session.run(graph.get_collection("fill"), feeds(graph, part))
                losses += [(await session.run(fetches(graph)))[0] for _ in range(STEPS)]
            if saved is not None:
                await saver.save(session, saved, global_step=STEPS)
        return losses


async def change_engines(giver: Any, taker: Any, kind: str, folder: Path) -> None:
    path = f"{folder}/model"
    graph = giver.graph(kind, None)
    before = await giver.run(graph, None, path, FIRST)
    if kind == "FIFOQueue":  # the other one continues its shuffling, whose state no checkpoint has
        uninterrupted = await giver.run(graph, None, None, FIRST, SECOND)
        expected = uninterrupted[STEPS:]
    else:
        expected = await giver.run(graph, f"{path}-{STEPS}", None, SECOND)

    there = await off_loop(taker.graph, kind, f"{path}-{STEPS}.meta")
    losses = await taker.run(there, f"{path}-{STEPS}", None, SECOND)

    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    assert np.mean(losses) < np.mean(before)  # it has learned, and learns on


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_a_run_begun_in_tensorflow_goes_on_here(tf: Any, kind: str, tmp_path: Path) -> None:
    await change_engines(Tensorflow(tf), Aioexec(), kind, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_a_run_begun_here_goes_on_in_tensorflow(tf: Any, kind: str, tmp_path: Path) -> None:
    await change_engines(Aioexec(), Tensorflow(tf), kind, tmp_path)
