"""Nodes that make queues: FIFO, padding, shuffling and by priority.

The second versions (…V2) pass a queue along resource edges, the first ones along references; both pass a handle, a scalar array
of a `resources.queues.Queue`. The verbs on one are in `queue_verbs`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec.dtypes import DType
from aioexec.errors import InvalidArgumentError
from aioexec.graph.kernel import Compute, KernelContext, Reference, Role
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeRule, register
from aioexec.ops.elementwise import Array, shown
from aioexec.ops.philox import Stream, words
from aioexec.resources.manager import place_of
from aioexec.resources.queues import FIFOQueue, PaddingFIFOQueue, PriorityQueue, Queue, RandomShuffleQueue
from aioexec.shapes import Dims

Make = Callable[..., Queue]
"""(attributes, name, component dtypes, shapes, capacity, device) to a queue."""


def _kernel_of(make: Make) -> Reference:
    """The handle of a node's queue: its own, or the one of its shared name; made where it is first asked for."""

    def kernel(context: KernelContext) -> Compute:
        attrs = context.attrs
        place = place_of(attrs, context.node_name)

        def made() -> Queue:
            return make(
                attrs,
                place.name,
                attrs["component_types"],
                attrs["shapes"],
                attrs["capacity"],
                context.device,
            )

        handle = handle_of(None)  # one array for one queue, so that verbs know it again

        def find() -> Array:
            nonlocal handle
            queue = context.resources.lookup_or_create(Queue, place.container, place.name, made)
            if handle.item() is not queue:
                _check_shared(queue, made())
                handle = handle_of(queue)
            return handle

        return find

    return kernel


def handle_of(resource: Any) -> Array:
    """What a graph passes along its edges for a resource."""
    handle = np.empty((), np.object_)
    handle[()] = resource
    return handle


def _check_shared(queue: Queue, wanted: Queue) -> None:
    if queue.kind != wanted.kind:
        raise InvalidArgumentError(f"Shared queue {queue.name!r}: expected {wanted.kind}, found {queue.kind}")
    for what, asked in wanted.asked_for.items():
        has = queue.asked_for[what]
        if has != asked:
            verb = "were" if what.endswith("s") else "was"
            raise InvalidArgumentError(
                f"Shared queue {queue.name!r} has {what} {_shown(what, has)} "
                f"but requested {what} {verb} {_shown(what, asked)}"
            )


def _shown(what: str, value: Any) -> str:
    if what == "component types":
        return names_of(value)
    return shown_shapes(value) if what == "component shapes" else str(value)


def names_of(dtypes: Sequence[DType]) -> str:
    return ", ".join(dtype.name for dtype in dtypes)


def shown_shapes(dims: Sequence[Dims]) -> str:
    return f"[{','.join(shown([-1 if d is None else d for d in item or ()]) for item in dims)}]"


# Kinds


class _Choices:
    """Positions chosen by the random stream of a seed, one word each, as TensorFlow's queue chooses."""

    def __init__(self, seeds: tuple[int, int]) -> None:
        self._stream = Stream(*seeds)
        self._words: list[int] = []

    def __call__(self, count: int) -> int:
        if not self._words:
            counters = 64
            drawn = words(
                self._stream.key, self._stream.reserve(counters), np.arange(counters, dtype=np.uint64)
            )
            self._words = drawn.reshape(-1)[::-1].tolist()
        return self._words.pop() % count


def _shuffling(attrs: Any, *common: Any) -> Queue:
    seeds = attrs["seed"], attrs["seed2"]
    return RandomShuffleQueue(
        *common, min_after_dequeue=attrs["min_after_dequeue"], seeds=seeds, choose=_Choices(seeds)
    )


def _handle_of_shape(dims: Dims) -> ShapeRule:
    return lambda context: [dims]


_TYPES, _SHAPES = "component_types:list(type)>=1", "shapes:list(shape)>=0=[]"
_SHUFFLING = "min_after_dequeue:int=0; seed:int=0; seed2:int=0; "
_KINDS: tuple[tuple[str, str, str, str, Make], ...] = (
    ("FIFOQueue", _TYPES, _SHAPES, "", lambda attrs, *common: FIFOQueue(*common)),
    ("PaddingFIFOQueue", _TYPES, _SHAPES, "", lambda attrs, *common: PaddingFIFOQueue(*common)),
    ("RandomShuffleQueue", _TYPES, _SHAPES, _SHUFFLING, _shuffling),
    (
        "PriorityQueue",
        "component_types:list(type)>=0=[]",
        "shapes:list(shape)>=0",
        "",
        lambda attrs, *common: PriorityQueue(*common),
    ),
)

for _name, _types, _shapes, _more, _make in _KINDS:
    for _suffix, _handle, _dims in (("", "Ref(string)", (2,)), ("V2", "resource", ())):
        register(
            f"{_name}{_suffix}() -> (handle:{_handle}) [{_types}; {_shapes}; capacity:int=-1; {_more}"
            "container:string=''; shared_name:string=''] {stateful}",
            shape=_handle_of_shape(_dims),
            kernel=_kernel_of(_make),
            gradient=NOT_DIFFERENTIABLE,
            role=Role.VARIABLE,
        )
