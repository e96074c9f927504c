"""Ops that create queues: FIFO, padding FIFO, random shuffle and priority.

The V2 ops output a handle on a resource edge, the others on a reference edge: a scalar object array that holds a
`resources.queues.Queue`. The ops that use queues are in `queue_verbs`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec.dtypes import DType
from aioexec.errors import InvalidArgumentError
from aioexec.graph.kernels.kernel import KernelContext, Reference, Role
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeRule, register
from aioexec.ops.common.elementwise import Array, shown
from aioexec.ops.common.handles import maker
from aioexec.ops.random.philox import Stream, words
from aioexec.resources.priority_queue import PriorityQueue
from aioexec.resources.queues import FIFOQueue, PaddingFIFOQueue, Queue, RandomShuffleQueue
from aioexec.shapes import Dims

Make = Callable[..., Queue]
"""Creates a queue from (attributes, name, component dtypes, shapes, capacity, device)."""


def _kernel_of(make: Make) -> Reference:
    def made(context: KernelContext, name: str) -> Queue:
        attrs = context.attrs
        return make(attrs, name, attrs["component_types"], attrs["shapes"], attrs["capacity"], context.device)

    return maker(Queue, made, _check_shared)


def _check_shared(queue: Queue, wanted: Queue) -> None:
    if queue.kind != wanted.kind:
        raise InvalidArgumentError(f"Shared queue {queue.name!r}: expected {wanted.kind}, found {queue.kind}")
    for what, asked in wanted.shared_properties.items():
        has = queue.shared_properties[what]
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


_FEW = 64
"""Number of positions up to which they are drawn one by one, from buffered words."""


class _Choices:
    """Chooses random positions as TensorFlow's RandomShuffleQueue: one word of a Philox stream each, modulo the size.

    `_words` are words drawn in advance, the next one last.
    """

    def __init__(self, seeds: tuple[int, int]) -> None:
        self._stream = Stream(*seeds)
        self._words: list[int] = []

    def __call__(self, size: int, count: int) -> Sequence[int]:
        """Return `count` positions, the k-th among `size` - k."""
        held = self._words
        if count <= _FEW:
            chosen = []
            for left in range(size, size - count, -1):
                if not held:
                    held[:] = self._drawn(64)[::-1].tolist()
                chosen.append(held.pop() % left)
            return chosen
        missing = max(count - len(held), 0)
        drawn = np.concatenate([np.array(held[::-1], np.uint32), self._drawn(-(-missing // 4))])
        self._words = drawn[count:][::-1].tolist()
        positions: list[int] = (drawn[:count] % np.arange(size, size - count, -1)).tolist()
        return positions

    def _drawn(self, counters: int) -> Array:
        """Draw the next words of the stream, four per counter."""
        start = self._stream.reserve(counters)
        return words(self._stream.key, start, np.arange(counters, dtype=np.uint64)).reshape(-1)


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
