"""Programs transferred from one engine to the other in the middle: as a meta graph and a checkpoint.

The tensors of a program are found by collections, since only these are transferred: "inputs" are the placeholders, "loss" is
compared, "train_op" is the step, "init" the initializer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import aioexec as ax
from aioexec.ops.functions.defun import Defun
from tests.interop.train.engines import first_control_flow, kind_of_variables

SAMPLES = np.random.default_rng(7).normal(size=(24, 4)).astype(np.float32)
STEPS = [SAMPLES[start : start + 4] for start in range(0, 24, 4)]

Program = Callable[[Any], None]
"""Builds in the default graph of `tensorflow.compat.v1` or `aioexec`, whichever it is called with."""

PROGRAMS: dict[str, Program] = {}


def program(build: Program) -> Program:
    PROGRAMS[build.__name__] = build
    return build


def finish(m: Any, loss: Any, optimizer: Any = None, inputs: Sequence[Any] = ()) -> None:
    """Make the step, and put what it takes to run the program into collections."""
    step = m.train.get_or_create_global_step()
    optimizer = optimizer or m.train.AdamOptimizer(0.05)
    optimizer.minimize(loss, global_step=step)
    m.add_to_collection("loss", loss)
    for each in inputs:
        m.add_to_collection("inputs", each)
    initializers = m.global_variables_initializer(), m.local_variables_initializer()
    m.add_to_collection("init", m.group(*initializers))
    m.add_to_collection("savers", m.train.Saver())


def dense(m: Any, x: Any, use_resource: bool | None = None, **options: Any) -> Any:
    with m.variable_scope("dense", use_resource=use_resource):
        weights = m.get_variable("weights", initializer=m.constant(SAMPLES[:4, :3]), **options)
        bias = m.get_variable("bias", shape=[3], initializer=m.zeros_initializer())
        return m.matmul(x, weights) + bias


@program
def references(m: Any) -> None:
    x = m.placeholder(m.float32, [None, 4], name="x")
    finish(m, m.reduce_mean(m.square(dense(m, x, use_resource=False) - 1.0)), inputs=[x])


@program
def resources(m: Any) -> None:
    x = m.placeholder(m.float32, [None, 4], name="x")
    loss = m.reduce_mean(m.square(m.tanh(dense(m, x, use_resource=True)) - 1.0))
    finish(m, loss, m.train.MomentumOptimizer(0.1, 0.9), inputs=[x])


@program
def parts(m: Any) -> None:
    x = m.placeholder(m.float32, [None, 4], name="x")
    loss = m.reduce_mean(m.square(dense(m, x, partitioner=m.fixed_size_partitioner(3)) - 1.0))
    finish(m, loss, inputs=[x])


@program
def conditionals_and_loops(m: Any) -> None:
    """Loops in conditionals, conditionals in loops, a limit on iterations."""
    x = m.placeholder(m.float32, [None, 4], name="x")
    y = dense(m, x)
    halved = m.cond(
        m.reduce_sum(x) > 0,
        lambda: y * 2.0,
        lambda: m.while_loop(lambda i, z: i < 2, lambda i, z: [i + 1, z * 0.5], [0, y])[1],
        name="choice",
    )

    def body(i: Any, total: Any) -> list[Any]:
        return [i + 1, m.cond(i > 1, lambda: total + m.reduce_sum(y), lambda: total * 1.5)]

    first = [m.constant(0), m.constant(0.5)]
    _, total = m.while_loop(lambda i, total: i < 3, body, first, name="sums", maximum_iterations=5)
    finish(m, m.reduce_mean(m.square(halved - 1.0)) + 0.01 * total, inputs=[x])


@program
def gradients_in_loops(m: Any) -> None:
    """Gradients that are taken in a loop, of a loop and a conditional, and used."""
    x = m.placeholder(m.float32, [None, 4], name="x")
    y = m.reduce_mean(m.tanh(dense(m, x)), axis=0)

    def body(i: Any, total: Any) -> list[Any]:
        power = m.while_loop(lambda j, z: j < 2, lambda j, z: [j + 1, z * total], [0, total])[1]
        chosen = m.cond(m.reduce_sum(power) > 0.0, lambda: power * 2.0, lambda: power)
        return [i + 1, total - 0.01 * m.gradients(chosen, total)[0]]

    finish(m, m.reduce_mean(m.square(y - 0.5)), inputs=[x])
    m.add_to_collection("descended", m.while_loop(lambda i, total: i < 2, body, [0, y])[1])


@program
def functions(m: Any) -> None:
    """Functions of the library, one with a gradient of its own."""
    defun = Defun if m is ax else _tensorflow_defun()

    @defun(m.float32, func_name="bent")
    def bent(x: Any) -> Any:
        return m.tanh(x) * 2.0

    @defun(m.float32, m.float32, func_name="slope_of_steep")
    def slope(x: Any, dy: Any) -> Any:
        return dy * 3.0

    @defun(m.float32, func_name="steep", grad_func=slope)
    def steep(x: Any) -> Any:
        return bent(x) * 3.0

    x = m.placeholder(m.float32, [None, 4], name="x")
    loss = m.reduce_mean(m.square(steep(bent(dense(m, x))) - 1.0))
    finish(m, loss, inputs=[x])


def _tensorflow_defun() -> Any:
    from tensorflow.python.framework import function

    return function.Defun


@program
def averages(m: Any) -> None:
    """Moving averages, local variables, update ops, and collections of every kind."""
    x = m.placeholder(m.float32, [None, 4], name="x")
    y = dense(m, x)
    count = m.get_variable(
        "count",
        initializer=0.0,
        trainable=False,
        collections=[m.GraphKeys.LOCAL_VARIABLES],
        use_resource=True,
    )
    average = m.train.ExponentialMovingAverage(0.5)
    with m.control_dependencies([average.apply(m.trainable_variables()), count.assign_add(0.25)]):
        loss = m.reduce_mean(m.square(y - 1.0)) + 0.1 * count.read_value()
    kept: dict[str, list[Any]] = {
        "ints": [1, 2],
        "floats": [1.5, -2.0],
        "texts": ["a", "b/c"],
        "bytes": [b"c"],
    }
    for name, items in kept.items():
        for item in items:
            m.add_to_collection(name, item)
    m.add_to_collection(m.GraphKeys.UPDATE_OPS, loss.op)
    finish(m, loss, inputs=[x])


@program
def queue_input(m: Any) -> None:
    """Shuffled rows through two queues, each with its runner; no inputs."""
    rows = m.train.range_input_producer(24, shuffle=True, seed=5, capacity=24).dequeue()
    x = m.train.batch([m.gather(m.constant(SAMPLES), rows)], batch_size=4, num_threads=1, capacity=8)
    finish(m, m.reduce_mean(m.square(dense(m, x) - 1.0)))


@contextlib.contextmanager
def as_in_first_versions(tf: Any) -> Iterator[None]:
    """TensorFlow makes variables by reference, and control flow of nodes, by default in its first versions."""
    with kind_of_variables(tf, resource=False), first_control_flow(tf):
        yield


class There:
    """A training run in TensorFlow: builds or imports, restores, trains, saves."""

    def __init__(self, tf: Any) -> None:
        self._tf = tf
        self._savers: dict[Any, Any] = {}  # of graphs that were imported

    def built(self, build: Program) -> Any:
        with self._tf.Graph().as_default() as graph, as_in_first_versions(self._tf):
            build(self._tf)
        return graph

    def imported(self, path: str, scope: str | None) -> Any:
        with self._tf.Graph().as_default() as graph:
            saver = self._tf.train.import_meta_graph(path, import_scope=scope)
        self._savers[graph] = saver
        return graph

    def exported(self, graph: Any) -> bytes:
        with graph.as_default():
            return bytes(self._tf.train.export_meta_graph().SerializeToString())

    async def trained(
        self, graph: Any, steps: Sequence[Any], restored: str | None = None, saved: str | None = None
    ) -> list[float]:
        saver = self._savers.get(graph) or graph.get_collection("savers")[0]
        with graph.as_default(), self._tf.Session(graph=graph) as session:
            session.run(graph.get_collection("init"))
            if restored is not None:
                saver.restore(session, restored)
            coordinator = self._tf.train.Coordinator()
            threads = self._tf.train.start_queue_runners(session, coordinator)
            fetches = graph.get_collection("loss") + graph.get_collection("train_op")
            losses = [session.run(fetches, _feeds(graph, each))[0] for each in steps]
            if saved is not None:
                saver.save(session, saved)
            coordinator.request_stop()
            coordinator.join(threads)
        return losses


class Here:
    """The same in aioexec."""

    def __init__(self) -> None:
        self._savers: dict[Any, Any] = {}  # of graphs that were imported

    def built(self, build: Program) -> Any:
        with ax.Graph().as_default() as graph:
            build(ax)
        return graph

    def imported(self, path: str, scope: str | None) -> Any:
        with ax.Graph().as_default() as graph:
            saver = ax.train.import_meta_graph(path, import_scope=scope)
        self._savers[graph] = saver
        return graph

    def exported(self, graph: Any) -> bytes:
        return bytes(ax.train.export_meta_graph(graph=graph).SerializeToString())

    async def trained(
        self, graph: Any, steps: Sequence[Any], restored: str | None = None, saved: str | None = None
    ) -> list[float]:
        saver = self._savers.get(graph) or graph.get_collection("savers")[0]
        with graph.as_default():
            async with ax.Session(graph=graph) as session:
                await session.run(graph.get_collection("init"))
                if restored is not None:
                    await saver.restore(session, restored)
                coordinator = ax.train.Coordinator()
                tasks = ax.train.start_queue_runners(session, coordinator)
                fetches = graph.get_collection("loss") + graph.get_collection("train_op")
                losses = [(await session.run(fetches, _feeds(graph, each)))[0] for each in steps]
                if saved is not None:
                    await saver.save(session, saved)
                coordinator.request_stop()
                await coordinator.join(tasks)
        return losses


def _feeds(graph: Any, value: Any) -> dict[Any, Any]:
    return dict.fromkeys(graph.get_collection("inputs"), value)


def names_in_collections(graph: Any) -> dict[str, list[Any]]:
    """The names of the items in a graph's collections."""
    return {
        key: [_name(item) for item in graph.get_collection(key)] for key in graph.get_all_collection_keys()
    }


def _name(item: Any) -> Any:
    if hasattr(item, "saver_def"):
        return [getattr(item.saver_def, field.name) for field in item.saver_def.DESCRIPTOR.fields]
    if hasattr(item, "enqueue_ops"):
        kinds = [kind.__name__ for kind in item.queue_closed_exception_types]
        return [
            item.name,
            [op.name for op in item.enqueue_ops],
            item.close_op.name,
            item.cancel_op.name,
            kinds,
        ]
    return getattr(item, "name", item)
