"""Small graphs of each kind, serialized: what mutants of GraphDefs and MetaGraphDefs are made from."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import aioexec as ax
from aioexec.formats.protos import GraphDef
from aioexec.ops.defun import Defun
from aioexec.ops.functional_ops import If, While


@cache
def graphs() -> list[bytes]:
    builders = (_arithmetic, _loop, _branches, _functions, _variables, _queues, _constants, _sparse, _lists)
    return [_built(builder).SerializeToString() for builder in builders]


def _built(builder: Callable[[], object]) -> GraphDef:
    with ax.Graph().as_default() as graph:
        builder()
    return graph.as_graph_def(add_shapes=len(graph.get_operations()) % 2 == 0)


@cache
def meta_graphs() -> list[bytes]:
    found = []
    for builder in (_variables, _loop, _queues):
        with ax.Graph().as_default():
            builder()
            ax.get_variable("saved", [3])
            found.append(
                ax.train.export_meta_graph(saver_def=ax.train.Saver().as_saver_def()).SerializeToString()
            )
    return found


def _arithmetic() -> None:
    x = ax.placeholder(ax.float32, [None, 3], "x")
    with ax.device("/cpu:0"), ax.name_scope("layer"):
        y = ax.matmul(x, ax.ones([3, 4])) + ax.constant([1.0, 2.0, 3.0, 4.0])
    with ax.control_dependencies([y]), ax.colocate_with(y):
        ax.reduce_sum(ax.concat([y, ax.reshape(y, [-1, 4])], 0), [1], name="sum")


def _loop() -> None:
    def body(i: Any, total: Any) -> Any:
        return i + 1, ax.cond(i < 2, lambda: total + 1.0, lambda: total * 2.0)

    ax.while_loop(lambda i, total: i < 5, body, [ax.constant(0), ax.constant(1.0)])


def _branches() -> None:
    p = ax.placeholder_with_default(True, [])
    ax.case(
        [(p, lambda: ax.constant(1)), (ax.logical_not(p), lambda: ax.constant(2))],
        default=lambda: ax.constant(3),
    )


def _functions() -> None:
    @Defun(ax.float32, func_name="twice")
    def twice(x: Any) -> Any:
        return x + x

    @Defun(ax.float32, func_name="four_times")
    def four_times(x: Any) -> Any:
        return twice(twice(x))

    @Defun(ax.float32, func_name="small")
    def small(x: Any) -> Any:
        return ax.less(x, 100.0)

    While([four_times(ax.constant(1.0))], small, twice)
    If(ax.constant(True), [1.0], twice, four_times)


def _variables() -> None:
    old = ax.Variable([1.0, 2.0], use_resource=False, name="old")
    new = ax.Variable([[1, 2]], use_resource=True, name="new")
    ax.group(old.assign_add([1.0, 1.0]), new.assign([[3, 4]]), name="update")
    ax.gather(old, [0, 1])


def _queues() -> None:
    queue = ax.FIFOQueue(10, [ax.int32, ax.string], [[2], []], ["a", "b"])
    queue.enqueue({"a": [1, 2], "b": "text"})
    queue.dequeue_many(2)
    ax.train.batch([ax.constant(1)], 2)


def _constants() -> None:
    ax.constant(np.arange(40.0).reshape(4, 10))
    ax.constant(1, ax.int64, [2, 3])
    ax.constant([b"a", "\u00e9", b"\xff"])
    ax.constant([1 + 2j])
    ax.constant([1.5], ax.bfloat16)
    ax.constant([True, False])
    ax.constant(7, ax.uint16, [100])


def _sparse() -> None:
    sparse = ax.SparseTensor([[0, 0], [1, 2]], [1.0, 2.0], [2, 3])
    ax.sparse_tensor_dense_matmul(sparse, ax.ones([3, 2]))
    ax.strided_slice(ax.ones([4, 5]), [0, 1], [3, 4])
    ax.nn.conv2d(ax.ones([1, 5, 5, 1]), ax.ones([2, 2, 1, 1]), [1, 1, 1, 1], "SAME")


def _lists() -> None:
    array = ax.TensorArray(ax.float32, 3)
    array.write(0, 1.0).stack()
    ax.split(ax.range(6), 3)
    ax.meshgrid([1, 2], [3, 4])
    ax.py_func(lambda x: x, [1.0], ax.float32)
