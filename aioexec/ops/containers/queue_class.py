"""The queue classes that users create; their methods add nodes to the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from aioexec import dtypes as dt, shapes
from aioexec.dtypes import DType
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import apply_list_op, apply_no_output_op, apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.defaults import get_default_session
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.static_values import constant_value
from aioexec.ops.containers.session_queue import RunsSteps, SessionQueue
from aioexec.ops.random.random_ops import get_seed
from aioexec.shapes import TensorShape


class QueueBase:
    """A queue in the graph; its elements are tuples of tensors, one for each of `dtypes`.

    With `names`, elements are dicts. Shapes must be fully defined; without shapes, elements may have any, but cannot be
    dequeued in batches.
    """

    def __init__(
        self,
        dtypes: Sequence[Any],
        shapes: Sequence[Any] | None,
        names: Sequence[str] | None,
        queue_ref: Tensor,
    ) -> None:
        self._dtypes = [dt.as_dtype(dtype) for dtype in dtypes]
        self._shapes = [TensorShape(shape) for shape in shapes or [None] * len(self._dtypes)]
        if len(self._shapes) != len(self._dtypes):
            raise GraphValueError(
                f"Queue shapes must have the same length as dtypes, received len(shapes)={len(self._shapes)}, "
                f"len(dtypes)={len(self._dtypes)}"
            )
        self._names = None if names is None else list(names)
        if self._names is not None and len(self._names) != len(self._dtypes):
            raise GraphValueError(
                f"List of names must have the same length as the list of dtypes, received "
                f"len(names)={len(self._names)},len(dtypes)={len(self._dtypes)}"
            )
        self._queue_ref = queue_ref
        self._name = queue_ref.op.name.split("/")[-1]

    @staticmethod
    def from_list(index: Any, queues: Sequence[QueueBase]) -> QueueBase:
        """Return the queue at an index of a list, selected when the step runs.

        Raises:
            GraphTypeError: an item is not a queue, or the components differ.
        """
        if not queues or not all(isinstance(queue, QueueBase) for queue in queues):
            raise GraphTypeError(f"A list of queues expected, got {queues!r}")
        first = queues[0]
        if any(queue.dtypes != first.dtypes for queue in queues):
            raise GraphTypeError("Queues do not have matching component dtypes")
        if any(queue.names != first.names for queue in queues):
            raise GraphTypeError("Queues do not have matching component names")
        common = [
            reduce(shapes.common, [queue.shapes[k].plain for queue in queues])
            for k in range(len(first.dtypes))
        ]
        chosen = apply_op("GatherV2", [queue.queue_ref for queue in queues], index, 0)
        return QueueBase(first.dtypes, common, first.names, chosen)

    @property
    def queue_ref(self) -> Tensor:
        """The handle of the queue."""
        return self._queue_ref

    @property
    def name(self) -> str:
        return self._queue_ref.op.name

    @property
    def dtypes(self) -> list[DType]:
        return self._dtypes

    @property
    def shapes(self) -> list[TensorShape]:
        return self._shapes

    @property
    def names(self) -> list[str] | None:
        return self._names

    # Verbs

    def enqueue(self, vals: Any, name: str | None = None) -> Operation:
        """Return an operation that enqueues one element: a tensor, a list or tuple of tensors, or with names a dict."""
        with get_default_graph().name_scope(name or f"{self._name}_enqueue") as scope:
            tensors = self._components(vals)
            for tensor, shape in zip(tensors, self._shapes, strict=True):
                tensor.shape.assert_is_compatible_with(shape)
            return apply_no_output_op("QueueEnqueueV2", self._queue_ref, tensors, name=scope)

    def enqueue_many(self, vals: Any, name: str | None = None) -> Operation:
        """Return an operation that enqueues the elements of a batch: each component has a leading batch dimension."""
        with get_default_graph().name_scope(name or f"{self._name}_EnqueueMany") as scope:
            tensors = self._components(vals)
            batch: shapes.Dims = (None,)
            for tensor, shape in zip(tensors, self._shapes, strict=True):
                dims = shapes.with_rank_at_least(tensor.dims, 1)
                batch = shapes.merge(batch, None if dims is None else dims[:1])
                TensorShape(None if dims is None else dims[1:]).assert_is_compatible_with(shape)
            return apply_no_output_op("QueueEnqueueManyV2", self._queue_ref, tensors, name=scope)

    def dequeue(self, name: str | None = None) -> Any:
        """Return the next element: a tensor, a list of tensors if there are several components, or with names a dict."""
        return self._taken("QueueDequeueV2", "Dequeue", name)

    def dequeue_many(self, n: Any, name: str | None = None) -> Any:
        """Return the next `n` elements as one batch; OutOfRangeError if the queue is closed and has fewer."""
        return self._taken("QueueDequeueManyV2", "DequeueMany", name, n)

    def dequeue_up_to(self, n: Any, name: str | None = None) -> Any:
        """Return up to `n` elements as one batch; fewer only if the queue is closed."""
        return self._taken("QueueDequeueUpToV2", "DequeueUpTo", name, n)

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """Return an operation that closes the queue: later enqueues fail.

        Args:
            cancel_pending_enqueues: enqueues waiting for space fail; otherwise closing waits for them.
        """
        return apply_no_output_op(
            "QueueCloseV2",
            self._queue_ref,
            name=name or f"{self._name}_Close",
            cancel_pending_enqueues=cancel_pending_enqueues,
        )

    def is_closed(self, name: str | None = None) -> Tensor:
        """Return whether the queue is closed."""
        return self._query("QueueIsClosedV2", name or f"{self._name}_Is_Closed")

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of elements."""
        return self._query("QueueSizeV2", name or f"{self._name}_Size")

    # Outside of steps

    def in_session(self, session: RunsSteps | None = None) -> SessionQueue:
        """Return the queue as an object that application code can await, in a session.

        Args:
            session: the default session by default.

        Raises:
            GraphValueError: there is no default session.
        """
        session = session or get_default_session()
        if session is None:
            raise GraphValueError(
                f"queue {self.name!r}: in_session needs a session, and there is no default one"
            )
        return SessionQueue(self, session)

    def in_order(self, vals: Any) -> Sequence[Any]:
        """Return the components of an element in the order of `dtypes`."""
        given = self._listed(vals)
        if len(given) != len(self._dtypes):
            raise GraphValueError(
                f"queue {self.name!r}: expected {len(self._dtypes)} components, got {len(given)}"
            )
        return given

    # Service

    def _query(self, op_type: str, name: str) -> Tensor:
        return apply_op(op_type, self._queue_ref, name=name)

    def _taken(self, op_type: str, label: str, name: str | None, *count: Any) -> Any:
        tensors = apply_list_op(
            op_type,
            self._queue_ref,
            *count,
            name=name or f"{self._name}_{label}",
            component_types=self._dtypes,
        )
        prefix = TensorShape(())
        if count:
            known = constant_value(tensors[0].op.inputs[1]) if label == "DequeueMany" else None
            prefix = TensorShape((None if known is None else int(known),))
        for tensor, shape in zip(tensors, self._shapes, strict=True):
            tensor.set_shape(prefix.concatenate(shape))
        if self._names is not None:
            return dict(zip(self._names, tensors, strict=True))
        return tensors[0] if len(tensors) == 1 else tensors

    def _components(self, vals: Any) -> list[Tensor]:
        """Convert the components of an element or batch to tensors of their dtypes."""
        return [
            convert_to_tensor(value, dtype, name=f"component_{k}")
            for k, (value, dtype) in enumerate(zip(self.in_order(vals), self._dtypes, strict=True))
        ]

    def _listed(self, vals: Any) -> Sequence[Any]:
        if isinstance(vals, Mapping):
            if self._names is None:
                raise GraphValueError("Queue must have names to enqueue a dictionary")
            if sorted(self._names, key=str) != sorted(vals, key=str):
                raise GraphValueError(
                    f"Keys in dictionary to enqueue do not match names of Queue.  Dictionary: "
                    f"{sorted(vals, key=str)},Queue: {sorted(self._names, key=str)}"
                )
            return [vals[name] for name in self._names]
        if self._names is not None:
            raise GraphValueError("You must enqueue a dictionary in a Queue with names")
        return vals if isinstance(vals, list | tuple) else [vals]


class FIFOQueue(QueueBase):
    """A first-in, first-out queue.

    Args:
        capacity: maximum number of elements; unbounded if negative.
        dtypes: dtypes of the components, or one dtype.
        shapes: shapes of the components, or one shape; required for batches.
        names: names of the components; elements are then dicts.
        shared_name: queues of one name are shared by the sessions of a container.
    """

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "fifo_queue",
    ) -> None:
        types, dims, labels = _as_lists(dtypes, shapes, names)
        queue_ref = _queue_node("FIFOQueueV2", capacity, types, dims, shared_name, name)
        super().__init__(types, dims, labels, queue_ref)


class RandomShuffleQueue(QueueBase):
    """A queue that dequeues elements in random order.

    Args:
        min_after_dequeue: minimum number of elements that stay after a dequeue while the queue is open, which ensures a
            minimum level of mixing.
        seed: op seed; combined with the seed of the graph.
        capacity, dtypes, shapes, names, shared_name: as of `FIFOQueue`.
    """

    def __init__(
        self,
        capacity: int,
        min_after_dequeue: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        seed: int | None = None,
        shared_name: str | None = None,
        name: str = "random_shuffle_queue",
    ) -> None:
        types, dims, labels = _as_lists(dtypes, shapes, names)
        seed1, seed2 = get_seed(seed)
        queue_ref = _queue_node(
            "RandomShuffleQueueV2",
            capacity,
            types,
            dims,
            shared_name,
            name,
            min_after_dequeue=min_after_dequeue,
            seed=seed1 or 0,
            seed2=seed2 or 0,
        )
        super().__init__(types, dims, labels, queue_ref)


class PaddingFIFOQueue(QueueBase):
    """A FIFO queue whose elements may differ in dimensions given as None; a batch is padded to the largest of its elements.

    Args:
        shapes: list of the shapes of the components; ranks must be known.
        capacity, dtypes, names, shared_name: as of `FIFOQueue`.
    """

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "padding_fifo_queue",
    ) -> None:
        types, _, labels = _as_lists(dtypes, None, names)
        dims = _partial_shape_list(shapes, len(types))
        queue_ref = _queue_node("PaddingFIFOQueueV2", capacity, types, dims, shared_name, name)
        super().__init__(types, dims, labels, queue_ref)


class PriorityQueue(QueueBase):
    """A queue that dequeues the element of lowest priority first; the priority is the first component, an int64.

    Args:
        types: dtypes of the other components, or one dtype.
        shapes: shapes of the other components, or one shape.
        capacity, names, shared_name: as of `FIFOQueue`.
    """

    def __init__(
        self,
        capacity: int,
        types: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "priority_queue",
    ) -> None:
        others, dims, labels = _as_lists(types, shapes, names)
        if dims is None:
            raise GraphTypeError("Expected list for 'shapes' argument to 'priority_queue_v2' Op, not None.")
        queue_ref = _queue_node("PriorityQueueV2", capacity, others, dims, shared_name, name)
        super().__init__([dt.int64, *others], [TensorShape(()), *dims], labels, queue_ref)


def _queue_node(
    op_type: str,
    capacity: int,
    types: Sequence[DType],
    dims: Sequence[TensorShape] | None,
    shared_name: str | None,
    name: str,
    **more: Any,
) -> Tensor:
    return apply_op(
        op_type,
        name=name,
        component_types=types,
        shapes=dims or (),
        capacity=capacity,
        container=get_default_graph().default_container,
        shared_name=shared_name or "",
        **more,
    )


def _as_lists(
    dtypes: Any, shapes: Any, names: Any
) -> tuple[list[DType], list[TensorShape] | None, list[str] | None]:
    types = [dt.as_dtype(dtype) for dtype in (dtypes if isinstance(dtypes, list | tuple) else [dtypes])]
    dims = None if shapes is None else _shape_list(shapes)
    labels = [names] if isinstance(names, str) else None if names is None else list(names)
    return types, dims, labels


def _shape_list(given: Any) -> list[TensorShape]:
    """Return one shape per component; a list of dimensions is the shape of a single component.

    Raises:
        GraphValueError: a shape is not fully defined.
    """
    if isinstance(given, TensorShape) or all(item is None or isinstance(item, int) for item in given):
        given = [given]
    made = [TensorShape(shape) for shape in given]
    if not all(shape.is_fully_defined() for shape in made):
        raise GraphValueError(f"All shapes must be fully defined: {made}")
    return made


def _partial_shape_list(given: Any, count: int) -> list[TensorShape]:
    """Return one shape of known rank per component.

    Raises:
        GraphValueError: the number of shapes differs, or a rank is unknown.
    """
    if not isinstance(given, list | tuple) or any(item is None or isinstance(item, int) for item in given):
        raise GraphValueError("When providing partial shapes, a list of shapes must be provided.")
    if len(given) != count:
        raise GraphValueError(
            f"Shapes must be provided for all components, but received {count} dtypes and {len(given)} shapes."
        )
    made = [TensorShape(shape) for shape in given]
    if any(shape.rank is None for shape in made):
        raise GraphValueError(f"All shapes must have a defined rank: {made}")
    return made
