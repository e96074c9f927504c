"""Small graphs of many kinds, as GraphDefs and MetaGraphDefs: the originals of the mutants in the campaign `graphs`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import aioexec as ax
from aioexec.formats.protos import GraphDef, MetaGraphDef
from aioexec.ops.functions.call_functions import If, While
from aioexec.ops.functions.defun import Defun


@cache
def graph_defs() -> tuple[GraphDef, ...]:
    """One GraphDef of each kind of graph."""
    return tuple(_built(build).as_graph_def() for build in _BUILDERS)


@cache
def meta_graph_defs() -> tuple[MetaGraphDef, ...]:
    """MetaGraphDefs with collections of variables, conditionals, loops, queue runners and savers."""
    return tuple(
        ax.train.export_meta_graph(graph=graph, saver_def=saver)
        for graph, saver in (
            (_built(_loop), None),
            (_built(_cond), None),
            _with_saver(),
            (_built(_queue), None),
        )
    )


def _built(build: Callable[[], object]) -> ax.Graph:
    with ax.Graph().as_default() as graph:
        build()
    return graph


def _with_saver() -> tuple[ax.Graph, Any]:
    with ax.Graph().as_default() as graph:
        _variables()
        saver = ax.train.Saver()
    return graph, saver.as_saver_def()


def _loop() -> None:
    limit = ax.placeholder(ax.int32, [], name="limit")
    ax.while_loop(
        lambda i, x: i < limit,
        lambda i, x: (i + 1, ax.cond(x > 3, lambda: x + i, lambda: x + limit)),
        [0, 0],
        maximum_iterations=5,
    )


def _nested_loops() -> None:
    def body(i: Any, x: Any) -> Any:
        return i + 1, ax.while_loop(lambda k, y: k < i, lambda k, y: (k + 1, y * 2.0), [0, x])[1]

    ax.while_loop(lambda i, x: i < 3, body, [0, 1.0])


def _cond() -> None:
    x = ax.placeholder(ax.float32, [None, 2], name="x")
    ax.cond(ax.reduce_sum(x) > 0, lambda: ax.matmul(x, x, transpose_b=True), lambda: ax.zeros([1, 1]))


def _gradients() -> None:
    x = ax.placeholder(ax.float32, [3], name="x")
    y = ax.while_loop(lambda y: ax.reduce_sum(y) < 100, lambda y: y * x, [x])
    ax.gradients(y, x)


def _functions() -> None:
    @Defun(ax.float32)
    def double(x: Any) -> Any:
        return x + x

    @Defun(ax.float32, ax.float32)
    def outer(x: Any, y: Any) -> Any:
        return double(x) * y

    x = ax.placeholder(ax.float32, [2], name="x")
    ax.identity(outer(x, double(x)))


def _functional_control_flow() -> None:
    @Defun(ax.int32)
    def less(i: Any) -> Any:
        return i < 5

    @Defun(ax.int32)
    def more(i: Any) -> Any:
        return i + 1

    @Defun(ax.int32)
    def back(i: Any) -> Any:
        return i - 1

    start = ax.placeholder(ax.int32, [], name="start")
    (total,) = While([start], less, more)
    If(total > 3, [total], more, back)


def _variables() -> None:
    v = ax.Variable(np.ones([2, 3], np.float32), name="v")
    w = ax.Variable(ax.zeros([3, 2]), name="w", use_resource=True)
    ax.train.GradientDescentOptimizer(0.1).minimize(ax.reduce_sum(ax.matmul(v, w)))
    ax.global_variables_initializer()


def _partitioned() -> None:
    ax.get_variable("p", [6, 2], partitioner=ax.fixed_size_partitioner(2), initializer=ax.zeros_initializer())
    with ax.device("/job:worker/task:1/cpu:0"):
        u = ax.get_variable("u", [2], initializer=ax.ones_initializer())
    with ax.colocate_with(u.op):
        ax.identity(u)


def _queue() -> None:
    queue = ax.FIFOQueue(3, [ax.float32, ax.string], [[2], []])
    enqueue = queue.enqueue([[1.0, 2.0], "a"])
    ax.train.add_queue_runner(ax.train.QueueRunner(queue, [enqueue]))
    queue.dequeue_many(2)
    queue.close()


def _constants() -> None:
    ax.constant(["a", b"\xff\x00"], name="strings")
    ax.constant(np.arange(12, dtype=np.float32).reshape(3, 4), name="packed")
    ax.constant(1.5, shape=[5, 5], name="filled")
    ax.constant(np.array([1 + 2j, 3], np.complex64), name="complex")
    ax.constant([True, False], name="bools")
    ax.constant(np.array([1, 2], np.float16), name="halves")
    ax.reshape(ax.constant([1, 2, 3, 4]), ax.constant([2, 2]), name="reshaped")


def _sparse() -> None:
    sparse = ax.sparse_placeholder(ax.float32, [4, 5], name="s")
    dense = ax.placeholder(ax.float32, [5, 2], name="d")
    ax.sparse_tensor_dense_matmul(sparse, dense)
    ax.sparse_tensor_to_dense(sparse)


def _shapes() -> None:
    x = ax.placeholder(ax.float32, [None, 4, 4, 3], name="x")
    y = ax.nn.conv2d(x, ax.ones([2, 2, 3, 5]), [1, 1, 1, 1], "SAME")
    y = ax.nn.max_pool(y, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    z = ax.reshape(y, ax.stack([ax.shape(y)[0], -1]))
    ax.concat(ax.split(z, 2, axis=1), axis=0)
    ax.strided_slice(z, [0, 1], [2, 3])
    ax.tile(ax.expand_dims(z, 0), [2, 1, 1])
    ax.transpose(z, [1, 0])
    ax.one_hot([1, 2], 4)


def _lists() -> None:
    array = ax.TensorArray(ax.float32, size=3, element_shape=[2])
    array = array.unstack(ax.ones([3, 2]))
    array.stack()
    table = ax.lookup.KeyValueTensorInitializer(ax.constant(["a"]), ax.constant([1], ax.int64))
    ax.lookup.StaticHashTable(table, -1).lookup(ax.constant(["a", "b"]))
    ax.random_normal([2, 2], seed=3)
    ax.string_join(["a", ax.as_string(ax.constant(3))])


def _layers() -> None:
    x = ax.placeholder(ax.float32, [None, 3], "x")
    with ax.device("/cpu:0"), ax.name_scope("layer"):
        y = ax.matmul(x, ax.ones([3, 4])) + ax.constant([1.0, 2.0, 3.0, 4.0])
    with ax.control_dependencies([y]), ax.colocate_with(y):
        ax.reduce_sum(ax.concat([y, ax.reshape(y, [-1, 4])], 0), [1], name="sum")
    ax.train.batch([ax.py_func(lambda x: x, [1.0], ax.float32)], 2, shapes=[[]])


def _branches() -> None:
    p = ax.placeholder_with_default(True, [])
    ax.case(
        [(p, lambda: ax.constant(1)), (ax.logical_not(p), lambda: ax.constant(2))],
        default=lambda: ax.constant(3),
    )


_BUILDERS = (
    _layers,
    _branches,
    _loop,
    _nested_loops,
    _cond,
    _gradients,
    _functions,
    _functional_control_flow,
    _variables,
    _partitioned,
    _queue,
    _constants,
    _sparse,
    _shapes,
    _lists,
)
