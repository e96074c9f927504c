"""Queue nodes: making a FIFO queue, and the verbs on one. They wait without a thread, and are cancelled with their step.

The second versions (…V2) pass a queue along resource edges, the first ones along references; both pass a handle, a scalar array
of a `resources.queues.FIFOQueue`. What goes into a queue is a copy, so nobody else holds what comes out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from aioexec.dtypes import DType
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.kernel import NOT_NOW, Compute, KernelContext, PromptKernel, Role, StepContext
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.ops.elementwise import Array, shown
from aioexec.resources.manager import place_of, resource_behind
from aioexec.resources.queues import Attempt, Element, FIFOQueue, waiting
from aioexec.shapes import Dims

_LARGE = 128 * 1024
"""Bytes whose copying would hold the event loop."""
_MANY = 256
"""Elements whose taking apart or putting together would hold the event loop."""

# Making a queue


def _made(context: KernelContext) -> Compute:
    """The handle of a node's queue: its own, or the one of its shared name; made where it is first asked for."""
    attrs = context.attrs
    place = place_of(attrs, context.node_name)

    def make() -> FIFOQueue:
        return FIFOQueue(
            place.name, attrs["component_types"], attrs["shapes"], attrs["capacity"], context.device
        )

    handle = _handle_of(None)  # one array for one queue, so that verbs know it again

    def find() -> Array:
        nonlocal handle
        queue = context.resources.lookup_or_create(FIFOQueue, place.container, place.name, make)
        if handle.item() is not queue:
            _check_shared(queue, make())
            handle = _handle_of(queue)
        return handle

    return find


def _handle_of(queue: FIFOQueue | None) -> Array:
    handle = np.empty((), np.object_)
    handle[()] = queue
    return handle


def _check_shared(queue: FIFOQueue, wanted: FIFOQueue) -> None:
    for what, has, asked in (
        ("capacity", queue.capacity, wanted.capacity),
        ("component types", _names(queue.dtypes), _names(wanted.dtypes)),
        ("component shapes", _shown_shapes(queue.dims), _shown_shapes(wanted.dims)),
    ):
        if has != asked:
            raise InvalidArgumentError(
                f"Shared queue {queue.name!r} has {what} {has} but requested {what} {_verb(what)} {asked}"
            )


def _verb(what: str) -> str:
    return "were" if what.endswith("s") else "was"


def _names(dtypes: Sequence[DType]) -> str:
    return ", ".join(dtype.name for dtype in dtypes)


def _shown_shapes(dims: Sequence[Dims]) -> str:
    return f"[{','.join(shown([-1 if d is None else d for d in item or ()]) for item in dims)}]"


_QUEUE = (
    "component_types:list(type)>=1; shapes:list(shape)>=0=[]; capacity:int=-1; container:string=''; "
    "shared_name:string=''"
)

register(
    f"FIFOQueueV2() -> (handle:resource) [{_QUEUE}] {{stateful}}",
    shape=lambda context: [()],
    kernel=_made,
    gradient=NOT_DIFFERENTIABLE,
    role=Role.VARIABLE,
)
register(
    f"FIFOQueue() -> (handle:Ref(string)) [{_QUEUE}] {{stateful}}",
    shape=lambda context: [(2,)],
    kernel=_made,
    gradient=NOT_DIFFERENTIABLE,
    role=Role.VARIABLE,
)

# What the verbs share


def _queue_behind(
    context: KernelContext, components: Sequence[DType] | None, needs_shapes: bool = False
) -> Callable[[Any], FIFOQueue]:
    """A function from a handle to its queue, checked to hold such components; once for each queue it meets."""
    device = context.device
    known: Any = None
    checked: FIFOQueue | None = None

    def queue_behind(handle: Any) -> FIFOQueue:
        nonlocal known, checked
        if handle is known and checked is not None:
            return checked
        queue = resource_behind(FIFOQueue, handle, device)
        if components is not None and tuple(components) != queue.dtypes:
            raise InvalidArgumentError(
                f"Signature mismatch: {queue.kind} {queue.name!r} has components {_names(queue.dtypes)}, "
                f"the node expects {_names(components)}"
            )
        if needs_shapes and not queue.dims:
            raise InvalidArgumentError(
                f"{queue.kind}'s DequeueMany and DequeueUpTo require the components to have specified shapes"
            )
        known, checked = handle, queue
        return queue

    return queue_behind


def _check_timeout(context: KernelContext) -> None:
    if context.attrs["timeout_ms"] != -1:
        raise InvalidArgumentError(f"Timeout not supported yet: timeout_ms is {context.attrs['timeout_ms']}")


def _copied(component: Any) -> Any:
    return component.copy() if isinstance(component, np.ndarray) else component


def _is_large(components: Sequence[Any]) -> bool:
    """Whether to copy these elsewhere."""
    return sum([getattr(component, "nbytes", 0) for component in components]) > _LARGE


async def _wait(queue: FIFOQueue, outcome: Any) -> Any:
    return await waiting(queue, outcome) if isinstance(outcome, Attempt) else outcome


# Enqueue


def _enqueue(context: KernelContext) -> Compute:
    _check_timeout(context)
    queue_behind = _queue_behind(context, context.input_dtypes[1:])

    def enqueue(step: StepContext, handle: Any, *components: Any) -> Awaitable[Any] | None:
        queue = queue_behind(handle)
        if _is_large_element(queue, components):
            return _enqueue_large(step, queue, components)
        attempt = queue.enqueue(tuple([_copied(component) for component in components]))
        return None if attempt is None else waiting(queue, attempt)

    def at_once(handle: Any, *components: Any) -> Any:
        queue = queue_behind(handle)
        if queue.is_closed or not queue.room or _is_large_element(queue, components):
            return NOT_NOW
        queue.enqueue(tuple([_copied(component) for component in components]))
        return None

    return PromptKernel(enqueue, at_once)


async def _enqueue_large(step: StepContext, queue: FIFOQueue, components: Sequence[Any]) -> None:
    element = await step.run_in_worker(lambda: tuple([_copied(component) for component in components]))
    await _wait(queue, queue.enqueue(element))


def _is_large_element(queue: FIFOQueue, components: Sequence[Any]) -> bool:
    """Whether to copy an element elsewhere; it is checked to be of the queue's shapes."""
    if not queue.dims:
        return _is_large(components)
    if tuple([component.shape for component in components]) != queue.dims:
        for k, (component, dims) in enumerate(zip(components, queue.dims, strict=True)):
            if component.shape != dims:
                raise _mismatch(k, dims, component.shape)
    return queue.element_bytes > _LARGE


def _mismatch(position: int, expected: Any, got: Sequence[int]) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"Shape mismatch in tuple component {position}. Expected {shown(expected)}, got {shown(got)}"
    )


def _enqueue_many(context: KernelContext) -> Compute:
    _check_timeout(context)
    queue_behind = _queue_behind(context, context.input_dtypes[1:])

    def enqueue_many(step: StepContext, handle: Any, *components: Any) -> Awaitable[Any] | None:
        queue = queue_behind(handle)
        count = _batch_size(queue, components)
        if count > _MANY or _is_large(components):
            return _enqueue_many_large(step, queue, components)
        attempt = queue.enqueue_many(_elements_of(components))
        return None if attempt is None else waiting(queue, attempt)

    return enqueue_many


async def _enqueue_many_large(step: StepContext, queue: FIFOQueue, components: Sequence[Any]) -> None:
    elements = await step.run_in_worker(partial(_elements_of, components))
    await _wait(queue, queue.enqueue_many(elements))


def _batch_size(queue: FIFOQueue, components: Sequence[Any]) -> int:
    """How many elements the components hold, checked to be alike."""
    for k, component in enumerate(components):
        if component.ndim == 0:
            raise InvalidArgumentError(
                f"Shape mismatch in tuple component {k}. Expected a batch of elements, got []"
            )
    count = len(components[0])
    for k, component in enumerate(components):
        if queue.dims and component.shape != (count, *(queue.dims[k] or ())):
            raise _mismatch(k, (count, *(queue.dims[k] or ())), component.shape)
        if len(component) != count:
            raise InvalidArgumentError(
                f"All input tensors must have the same size in the 0th dimension. Component {k} has "
                f"{len(component)}, and should have {count}"
            )
    return count


def _elements_of(components: Sequence[Array]) -> list[Element]:
    return [tuple([component[k, ...].copy() for component in components]) for k in range(len(components[0]))]


# Dequeue


def _dequeue(context: KernelContext) -> Compute:
    _check_timeout(context)
    queue_behind = _queue_behind(context, context.output_dtypes)
    finish = _result_of(len(context.output_dtypes))

    def dequeue(step: StepContext, handle: Any) -> Any:
        queue = queue_behind(handle)
        outcome = queue.dequeue()
        return waiting(queue, outcome, finish) if isinstance(outcome, Attempt) else finish(outcome)

    def at_once(handle: Any) -> Any:
        queue = queue_behind(handle)
        if not queue.size:
            return NOT_NOW
        element = queue.dequeue()
        assert not isinstance(element, Attempt)  # nobody waits for elements while there are some
        return finish(element)

    return PromptKernel(dequeue, at_once)


def _result_of(count: int) -> Callable[[Element], Any]:
    """Components in the form kernels return outputs in."""
    return (lambda element: element[0]) if count == 1 else lambda element: element


def _dequeue_several(verb: Callable[[FIFOQueue, int], Any], what: str) -> Callable[[KernelContext], Compute]:
    def kernel(context: KernelContext) -> Compute:
        _check_timeout(context)
        queue_behind = _queue_behind(context, context.output_dtypes, needs_shapes=True)
        result_of = _result_of(len(context.output_dtypes))

        def dequeue(step: StepContext, handle: Any, n: Array) -> Any:
            queue = queue_behind(handle)
            count = _count(n, what)

            def finish(elements: Sequence[Element]) -> Any:
                return result_of(_batch(queue, elements))

            if count > _MANY or count * queue.element_bytes > _LARGE:
                return _dequeue_large(step, queue, partial(verb, queue, count), finish)
            outcome = verb(queue, count)
            return waiting(queue, outcome, finish) if isinstance(outcome, Attempt) else finish(outcome)

        return dequeue

    return kernel


async def _dequeue_large(
    step: StepContext, queue: FIFOQueue, take: Callable[[], Any], finish: Callable[[Sequence[Element]], Any]
) -> Any:
    elements = await _wait(queue, take())
    try:
        return await step.run_in_worker(partial(finish, elements))
    except BaseException:
        queue.give_back(elements)
        raise


def _count(n: Array, what: str) -> int:
    if np.shape(n) != ():
        raise InvalidArgumentError(f"{what}Op: n must be a scalar, it has shape {shown(np.shape(n))}")
    if n < 0:
        raise InvalidArgumentError(f"{what}Op requested {n} < 0 elements")
    return int(n)


def _batch(queue: FIFOQueue, elements: Sequence[Element]) -> Element:
    """Elements side by side: for each component an array with one dimension more."""
    batch = []
    for k, (dtype, dims) in enumerate(zip(queue.dtypes, queue.dims, strict=True)):
        array = np.empty((len(elements), *[d or 0 for d in dims or ()]), dtype.numpy)
        for row, element in enumerate(elements):
            array[row] = element[k]
        batch.append(array)
    return tuple(batch)


# Close, size


def _close(context: KernelContext) -> Compute:
    queue_behind = _queue_behind(context, None)
    cancels: bool = context.attrs["cancel_pending_enqueues"]

    def close(step: StepContext, handle: Any) -> Awaitable[Any] | None:
        queue = queue_behind(handle)
        attempt = queue.close(cancels)
        return None if attempt is None else waiting(queue, attempt)

    return close


def _size(context: KernelContext) -> Compute:
    queue_behind = _queue_behind(context, None)
    return lambda handle: np.int32(queue_behind(handle).size)


def _is_closed(context: KernelContext) -> Compute:
    queue_behind = _queue_behind(context, None)
    return lambda handle: np.bool_(queue_behind(handle).is_closed)


# Rows


def _no_outputs(context: ShapeContext) -> Sequence[Dims]:
    return []


def _batches_of_components(context: ShapeContext) -> Sequence[Dims]:
    """Shapes are known to the queue alone; `FIFOQueue.dequeue` and its like set them where the queue is at hand."""
    n = context.value(1)
    if n is not None and n.ndim == 0 and n < 0:
        raise GraphValueError(f"Input 'n' must be >= 0, but is {n}")
    return _components(context)


def _components(context: ShapeContext) -> Sequence[Dims]:
    return [None] * len(context.attrs["component_types"])


def _scalar(context: ShapeContext) -> Sequence[Dims]:
    return [()]


def _register_verbs(suffix: str, handle: str) -> None:
    """The verbs on queues passed as `handle`; all are stateful, so that none is ever merged, folded or left out."""
    timeout = "timeout_ms:int=-1] {stateful}"
    into = f"(handle:{handle}, components:Tcomponents) -> () [Tcomponents:list(type)>=1; {timeout}"
    out = f"(components:component_types) [component_types:list(type)>=1; {timeout}"
    closing = "[cancel_pending_enqueues:bool=false] {stateful}"
    many = _dequeue_several(FIFOQueue.dequeue_many, "DequeueMany")
    up_to = _dequeue_several(FIFOQueue.dequeue_up_to, "DequeueUpTo")
    for signature, shape, kernel in (
        (f"QueueEnqueue{suffix}{into}", _no_outputs, _enqueue),
        (f"QueueEnqueueMany{suffix}{into}", _no_outputs, _enqueue_many),
        (f"QueueDequeue{suffix}(handle:{handle}) -> {out}", _components, _dequeue),
        (f"QueueDequeueMany{suffix}(handle:{handle}, n:int32) -> {out}", _batches_of_components, many),
        (f"QueueDequeueUpTo{suffix}(handle:{handle}, n:int32) -> {out}", _batches_of_components, up_to),
        (f"QueueClose{suffix}(handle:{handle}) -> () {closing}", _no_outputs, _close),
    ):
        register(signature, shape=shape, kernel=kernel, gradient=NOT_DIFFERENTIABLE, asynchronous=True)
    for signature, kernel in (
        (f"QueueSize{suffix}(handle:{handle}) -> (size:int32) {{stateful}}", _size),
        (f"QueueIsClosed{suffix}(handle:{handle}) -> (is_closed:bool) {{stateful}}", _is_closed),
    ):
        register(signature, shape=_scalar, kernel=kernel, gradient=NOT_DIFFERENTIABLE)


_register_verbs("", "Ref(string)")
_register_verbs("V2", "resource")
