"""`FIFOQueue` while a graph is built: the nodes of its methods, and errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.ops.containers.queue_class import FIFOQueue, QueueBase


@pytest.fixture(autouse=True)
def graph() -> Iterator[ax.Graph]:
    with ax.Graph().as_default() as made:
        yield made


def numbers(**options: Any) -> FIFOQueue:
    return FIFOQueue(10, ax.int32, shapes=[[]], **options)


def test_nodes_have_tensorflows_names_types_and_shapes():
    queue = FIFOQueue(3, [ax.int32, ax.float32], shapes=[[], [2]], name="q")

    assert (queue.name, queue.queue_ref.op.type, queue.names) == ("q", "FIFOQueueV2", None)
    assert queue.dtypes == [ax.int32, ax.float32]
    assert [shape.as_list() for shape in queue.shapes] == [[], [2]]
    enqueue = queue.enqueue((1, [1.0, 2.0]))
    assert (enqueue.name, enqueue.type) == ("q_enqueue", "QueueEnqueueV2")
    assert [tensor.name for tensor in enqueue.inputs] == [
        "q:0",
        "q_enqueue/component_0:0",
        "q_enqueue/component_1:0",
    ]
    assert queue.enqueue_many(([1], [[1.0, 2.0]])).name == "q_EnqueueMany"
    assert [tensor.name for tensor in queue.dequeue()] == ["q_Dequeue:0", "q_Dequeue:1"]
    assert [tensor.dims for tensor in queue.dequeue_many(4)] == [(4,), (4, 2)]
    assert [tensor.dims for tensor in queue.dequeue_up_to(4)] == [(None,), (None, 2)]
    assert [queue.close().name, queue.size().name, queue.is_closed().name] == [
        "q_Close",
        "q_Size:0",
        "q_Is_Closed:0",
    ]
    assert queue.dequeue(name="z")[0].name == "z:0"


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [([2], [[2]]), ((2, 3), [[2, 3]]), ([], [[]]), ([[4]], [[4]]), (ax.TensorShape([5]), [[5]])],
)
def test_the_shape_of_a_single_component_may_stand_alone(shapes: Any, expected: Any):
    assert [shape.as_list() for shape in FIFOQueue(1, ax.int32, shapes=shapes).shapes] == expected


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FIFOQueue(1, [ax.int32], names=["a", "b"]), "List of names must have the same length"),
        (lambda: FIFOQueue(1, [ax.int32] * 2, shapes=[[], [], []]), "Queue shapes must have the same length"),
        (lambda: FIFOQueue(1, ax.int32, shapes=[[None]]), "All shapes must be fully defined"),
        (lambda: FIFOQueue(1, []), "at least 1"),
        (lambda: numbers().enqueue({"a": 1}), "Queue must have names to enqueue a dictionary"),
        (lambda: FIFOQueue(1, ax.int32, names="x").enqueue(1), "You must enqueue a dictionary"),
        (
            lambda: FIFOQueue(1, ax.int32, names="x").enqueue({"y": 1}),
            "Keys in dictionary to enqueue do not match",
        ),
        (lambda: numbers().enqueue((1, 2)), "expected 1 components, got 2"),
        (lambda: numbers().enqueue([[1, 2]]), "Shapes"),
        (lambda: numbers().enqueue_many([1]), "must have rank at least 1"),
        (lambda: FIFOQueue(1, [ax.int32] * 2).enqueue_many(([1, 2], [3])), "not compatible"),
    ],
)
def test_what_does_not_fit_a_queue_is_refused_while_building(make: Any, message: str):
    with pytest.raises(GraphValueError, match=message):
        make()


def test_values_of_another_dtype_are_refused_while_building():
    with pytest.raises(GraphTypeError, match="Expected int32"):
        numbers().enqueue(1.5)


@pytest.mark.parametrize(
    ("queues", "message"),
    [
        (list, "A list of queues expected"),
        (lambda: [1], "A list of queues expected"),
        (lambda: [numbers(), FIFOQueue(1, ax.float32)], "do not have matching component dtypes"),
        (lambda: [numbers(), numbers(names="x")], "do not have matching component names"),
    ],
)
def test_only_queues_of_equal_components_are_chosen_from(queues: Any, message: str):
    with pytest.raises(GraphTypeError, match=message):
        QueueBase.from_list(0, queues())
