"""Ops on queues. They wait without occupying a thread, and are cancelled with their step.

The kernels run on the event loop, which owns the queues. Elements are copied when enqueued and thus have no other reference.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.dtypes import DType
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.kernels.kernel import WOULD_BLOCK, Compute, KernelContext, NonblockingKernel, StepContext
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.ops.common.copies import LARGE, are_large, copied, free_in_slices, stacked, stacked_shape
from aioexec.ops.common.elementwise import Array, shown
from aioexec.ops.common.handles import finder
from aioexec.ops.containers.queues import names_of
from aioexec.resources.queues import Element, Queue
from aioexec.resources.waiting import Attempt, waiting
from aioexec.shapes import Dims

_MANY = 256
"""Elements whose splitting or stacking would block the event loop for too long."""

# Shared by the kernels


def _queue_finder(
    context: KernelContext, components: Sequence[DType] | None, needs_shapes: bool = False
) -> Callable[[Any], Queue]:
    """Return a function from a handle to its queue, which checks the component dtypes."""

    def check(queue: Queue) -> None:
        if components is not None and tuple(components) != queue.dtypes:
            raise InvalidArgumentError(
                f"Signature mismatch: {queue.kind} {queue.name!r} has components {names_of(queue.dtypes)}, "
                f"the node expects {names_of(components)}"
            )
        if needs_shapes and not queue.dims:
            raise InvalidArgumentError(
                f"{queue.kind}'s DequeueMany and DequeueUpTo require the components to have specified shapes"
            )

    return finder(context, Queue, check)


def _check_timeout(context: KernelContext) -> None:
    if context.attrs["timeout_ms"] != -1:
        raise InvalidArgumentError(f"Timeout not supported yet: timeout_ms is {context.attrs['timeout_ms']}")


async def _wait(queue: Queue, outcome: Any) -> Any:
    return await waiting(queue, outcome) if isinstance(outcome, Attempt) else outcome


# Enqueue


def _enqueue(context: KernelContext) -> Compute:
    _check_timeout(context)
    find_queue = _queue_finder(context, context.input_dtypes[1:])

    def enqueue(step: StepContext, handle: Any, *components: Any) -> Awaitable[Any] | None:
        queue = find_queue(handle)
        if _is_large_element(queue, components):
            return _enqueue_large(step, queue, components)
        attempt = queue.enqueue(copied(components))
        return None if attempt is None else waiting(queue, attempt)

    def at_once(handle: Any, *components: Any) -> Any:
        queue = find_queue(handle)
        if queue.is_closed or not queue.room or _is_large_element(queue, components):
            return WOULD_BLOCK
        queue.enqueue(copied(components))
        return None

    return NonblockingKernel(enqueue, at_once)


async def _enqueue_large(step: StepContext, queue: Queue, components: Sequence[Any]) -> None:
    element = await step.run_in_worker(lambda: copied(components))
    await _wait(queue, queue.enqueue(element))


def _is_large_element(queue: Queue, components: Sequence[Any]) -> bool:
    """Return whether copying an element belongs on a worker, after checking its shapes."""
    if not queue.dims:
        return are_large(components)
    if tuple([component.shape for component in components]) == queue.dims:
        return queue.element_bytes > LARGE
    for k, (component, dims) in enumerate(zip(components, queue.dims, strict=True)):
        if not shapes.compatible(dims, component.shape):
            raise _mismatch(k, dims, component.shape)
    return are_large(components)


def _mismatch(position: int, expected: Any, got: Sequence[int]) -> InvalidArgumentError:
    wanted = ",".join("?" if dim is None else str(dim) for dim in expected)
    return InvalidArgumentError(
        f"Shape mismatch in tuple component {position}. Expected [{wanted}], got {shown(got)}"
    )


def _enqueue_many(context: KernelContext) -> Compute:
    _check_timeout(context)
    find_queue = _queue_finder(context, context.input_dtypes[1:])

    def enqueue_many(step: StepContext, handle: Any, *components: Any) -> Awaitable[Any] | None:
        queue = find_queue(handle)
        count = _batch_size(queue, components)
        if count > _MANY or are_large(components):
            return _enqueue_many_large(step, queue, components)
        attempt = queue.enqueue_many(_elements_of(queue, components))
        return None if attempt is None else waiting(queue, attempt)

    return enqueue_many


async def _enqueue_many_large(step: StepContext, queue: Queue, components: Sequence[Any]) -> None:
    elements = await step.run_in_worker(partial(_elements_of, queue, components))
    await _wait(queue, queue.enqueue_many(elements))


def _batch_size(queue: Queue, components: Sequence[Any]) -> int:
    """Return the batch size, after checking that all components have the same."""
    for k, component in enumerate(components):
        if component.ndim == 0:
            raise InvalidArgumentError(
                f"Shape mismatch in tuple component {k}. Expected a batch of elements, got []"
            )
    count = len(components[0])
    for k, component in enumerate(components):
        expected = (count, *(queue.dims[k] or ())) if queue.dims else None
        if not shapes.compatible(expected, component.shape):
            raise _mismatch(k, expected, component.shape)
        if len(component) != count:
            raise InvalidArgumentError(
                f"All input tensors must have the same size in the 0th dimension. Component {k} has "
                f"{len(component)}, and should have {count}"
            )
    return count


def _elements_of(queue: Queue, components: Sequence[Array]) -> Sequence[Element]:
    count = len(components[0])
    elements = [tuple([component[k, ...].copy() for component in components]) for k in range(count)]
    return queue.prepared(elements, components[0])


# Dequeue


def _dequeue(context: KernelContext) -> Compute:
    _check_timeout(context)
    find_queue = _queue_finder(context, context.output_dtypes)
    finish = _result_of(len(context.output_dtypes))

    def dequeue(step: StepContext, handle: Any) -> Any:
        queue = find_queue(handle)
        outcome = queue.dequeue()
        return waiting(queue, outcome, finish) if isinstance(outcome, Attempt) else finish(outcome)

    def at_once(handle: Any) -> Any:
        queue = find_queue(handle)
        if not queue.can_dequeue_now:
            return WOULD_BLOCK
        element = queue.dequeue()
        assert not isinstance(element, Attempt)
        return finish(element)

    return NonblockingKernel(dequeue, at_once)


def _result_of(count: int) -> Callable[[Element], Any]:
    """Return components in the form of kernel outputs."""
    return (lambda element: element[0]) if count == 1 else lambda element: element


def _dequeue_several(verb: Callable[[Queue, int], Any], what: str) -> Callable[[KernelContext], Compute]:
    def kernel(context: KernelContext) -> Compute:
        _check_timeout(context)
        find_queue = _queue_finder(context, context.output_dtypes, needs_shapes=True)
        result_of = _result_of(len(context.output_dtypes))

        def dequeue(step: StepContext, handle: Any, n: Array) -> Any:
            queue = find_queue(handle)
            count = _count(n, what)

            def finish(elements: Sequence[Element]) -> Any:
                return result_of(_batch(queue, elements))

            is_padded = any(None in (dims or ()) for dims in queue.dims)
            if count > _MANY or count * queue.element_bytes > LARGE or is_padded:
                return _dequeue_on_worker(step, queue, partial(verb, queue, count), finish)
            outcome = verb(queue, count)
            return waiting(queue, outcome, finish) if isinstance(outcome, Attempt) else finish(outcome)

        return dequeue

    return kernel


async def _dequeue_on_worker(
    step: StepContext, queue: Queue, take: Callable[[], Any], finish: Callable[[Sequence[Element]], Any]
) -> Any:
    """Stack a batch on a worker unless it is small; on failure return its elements to the queue."""
    elements = await _wait(queue, take())
    try:
        if len(elements) <= _MANY and _batch_bytes(queue, elements) <= LARGE:
            return finish(elements)
        batch = await step.run_in_worker(partial(finish, elements))
    except BaseException:
        queue.give_back(elements)
        raise
    free_in_slices(elements)
    return batch


def _count(n: Array, what: str) -> int:
    if np.shape(n) != ():
        raise InvalidArgumentError(f"{what}Op: n must be a scalar, it has shape {shown(np.shape(n))}")
    if n < 0:
        raise InvalidArgumentError(f"{what}Op requested {n} < 0 elements")
    return int(n)


def _batch(queue: Queue, elements: Sequence[Element]) -> Element:
    """Stack elements: for each component an array with a leading batch dimension."""
    return tuple(
        [
            stacked([element[k] for element in elements], dims or (), dtype)
            for k, (dtype, dims) in enumerate(zip(queue.dtypes, queue.dims, strict=True))
        ]
    )


def _batch_bytes(queue: Queue, elements: Sequence[Element]) -> int:
    return sum(
        prod(stacked_shape([element[k] for element in elements], dims or ())) * dtype.numpy.itemsize
        for k, (dtype, dims) in enumerate(zip(queue.dtypes, queue.dims, strict=True))
    )


# Close, size


def _close(context: KernelContext) -> Compute:
    find_queue = _queue_finder(context, None)
    cancels: bool = context.attrs["cancel_pending_enqueues"]

    def close(step: StepContext, handle: Any) -> Awaitable[Any] | None:
        queue = find_queue(handle)
        attempt = queue.close(cancels)
        return None if attempt is None else waiting(queue, attempt)

    return close


def _query_kernel(answer: Callable[[Queue], Any]) -> Callable[[KernelContext], Compute]:
    """Return the kernel of an op that reads a property."""

    def kernel(context: KernelContext) -> Compute:
        find_queue = _queue_finder(context, None)

        def at_once(handle: Any) -> Any:
            return answer(find_queue(handle))

        return NonblockingKernel(lambda step, handle: at_once(handle), at_once)

    return kernel


# Rows


def _no_outputs(context: ShapeContext) -> Sequence[Dims]:
    return []


def _batches_of_components(context: ShapeContext) -> Sequence[Dims]:
    """Shape rule: unknown, since only the queue has them; `Queue.dequeue` and the like set them from the Python object."""
    n = context.value(1)
    if n is not None and n.ndim == 0 and n < 0:
        raise GraphValueError(f"Input 'n' must be >= 0, but is {n}")
    return _components(context)


def _components(context: ShapeContext) -> Sequence[Dims]:
    return [None] * len(context.attrs["component_types"])


def _scalar(context: ShapeContext) -> Sequence[Dims]:
    return [()]


def _register_verbs(suffix: str, handle: str, flags: str) -> None:
    """Register the ops on queues passed as `handle`; all are asynchronous, so that no pass merges, folds or prunes them."""
    into = f"(handle:{handle}, components:Tcomponents) -> () [Tcomponents:list(type)>=1; timeout_ms:int=-1]"
    out = "(components:component_types) [component_types:list(type)>=1; timeout_ms:int=-1]"
    batches = _batches_of_components if suffix else _components  # V1 checks n at run time
    many = _dequeue_several(Queue.dequeue_many, "DequeueMany")
    up_to = _dequeue_several(Queue.dequeue_up_to, "DequeueUpTo")
    size = _query_kernel(lambda queue: np.int32(queue.size))
    is_closed = _query_kernel(lambda queue: np.bool_(queue.is_closed))
    for signature, shape, kernel in (
        (f"QueueEnqueue{suffix}{into}", _no_outputs, _enqueue),
        (f"QueueEnqueueMany{suffix}{into}", _no_outputs, _enqueue_many),
        (f"QueueDequeue{suffix}(handle:{handle}) -> {out}", _components, _dequeue),
        (f"QueueDequeueMany{suffix}(handle:{handle}, n:int32) -> {out}", batches, many),
        (f"QueueDequeueUpTo{suffix}(handle:{handle}, n:int32) -> {out}", batches, up_to),
        (
            f"QueueClose{suffix}(handle:{handle}) -> () [cancel_pending_enqueues:bool=false]",
            _no_outputs,
            _close,
        ),
        (f"QueueSize{suffix}(handle:{handle}) -> (size:int32)", _scalar, size),
        (f"QueueIsClosed{suffix}(handle:{handle}) -> (is_closed:bool)", _scalar, is_closed),
    ):
        register(
            f"{signature}{flags}", shape=shape, kernel=kernel, gradient=NOT_DIFFERENTIABLE, asynchronous=True
        )


_register_verbs("", "Ref(string)", "")
_register_verbs("V2", "resource", " {stateful}")
