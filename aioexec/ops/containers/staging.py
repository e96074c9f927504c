"""Ops of staging areas: Stage, MapStage and OrderedMapStage with their counterparts.

There are no handles: nodes with the same container and shared name (by default, node name) use one area, which the first of
them creates. The kernels run on the event loop, which owns the areas; they wait without occupying a thread and are cancelled
with their step. Staged values are copies.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from aioexec.dtypes import DType
from aioexec.errors import InternalError, InvalidArgumentError
from aioexec.graph.kernels.kernel import Attrs, Compute, KernelContext, Reference, StepContext
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.ops.common.copies import are_large, copied
from aioexec.ops.common.elementwise import Array, shown
from aioexec.resources.manager import place_of
from aioexec.resources.staging import StagingArea, StagingMap
from aioexec.resources.waiting import Attempt, BlockingResource, waiting
from aioexec.shapes import Dims

Make = Callable[[Attrs], BlockingResource]
Verb = Callable[..., Any]
"""(area, *inputs) to the result, or to an Attempt at it."""
Finish = Callable[[KernelContext], Callable[[Any], Any]]
"""For a node, the function from a result to its outputs."""


class OrderedStagingMap(StagingMap):
    """A separate resource class: an ordered and an unordered map of one name are different resources."""


def _map(attrs: Attrs, kind: type[StagingMap]) -> StagingMap:
    return kind(kind is OrderedStagingMap, attrs["capacity"], attrs["memory_limit"])


_MAKERS: dict[type[BlockingResource], Make] = {
    StagingArea: lambda attrs: StagingArea(attrs["capacity"], attrs["memory_limit"]),
    StagingMap: partial(_map, kind=StagingMap),
    OrderedStagingMap: partial(_map, kind=OrderedStagingMap),
}


def _area(context: KernelContext, kind: type[BlockingResource]) -> Callable[[], BlockingResource]:
    place = place_of(context.attrs, context.node_name, shared_by_node_name=True)
    make = partial(_MAKERS[kind], context.attrs)
    return lambda: context.resources.lookup_or_create(kind, place.container, place.name, make)


# Kernels


def _take_kernel(kind: type[BlockingResource], verb: Verb, finish: Finish) -> Reference:
    """Return the kernel of an op that takes or reads values."""

    def kernel(context: KernelContext) -> Compute:
        area, made = _area(context, kind), finish(context)

        def compute(step: StepContext, *inputs: Any) -> Any:
            room = area()
            outcome = verb(room, *inputs)
            return waiting(room, outcome, made) if isinstance(outcome, Attempt) else made(outcome)

        return compute

    return kernel


def _put_kernel(kind: type[BlockingResource], verb_for: Callable[[Attrs], Verb], operands: int) -> Reference:
    """Return the kernel of an op that stages its inputs after the first `operands`; `verb_for` receives the attributes."""

    def kernel(context: KernelContext) -> Compute:
        area = _area(context, kind)
        verb = verb_for(context.attrs)

        async def put_large(step: StepContext, inputs: Sequence[Any]) -> None:
            copies = await step.run_in_worker(partial(copied, inputs[operands:]))
            room = area()
            attempt = verb(room, *inputs[:operands], copies)
            if attempt is not None:
                await waiting(room, attempt)

        def compute(step: StepContext, *inputs: Any) -> Awaitable[Any] | None:
            if are_large(inputs[operands:]):
                return put_large(step, inputs)
            room = area()
            attempt = verb(room, *inputs[:operands], copied(inputs[operands:]))
            return None if attempt is None else waiting(room, attempt)

        return compute

    return kernel


def _unchanged(context: KernelContext) -> Callable[[Any], Any]:
    return lambda value: value


def _values(context: KernelContext) -> Callable[[Sequence[Any]], Any]:
    dtypes = context.output_dtypes
    return lambda values: _checked(values, dtypes) if len(dtypes) > 1 else _checked(values, dtypes)[0]


def _values_only(context: KernelContext) -> Callable[[Any], Any]:
    finish = _values(context)
    return lambda part: finish(part[1])


def _key_and_values(context: KernelContext) -> Callable[[Any], Any]:
    dtypes = context.output_dtypes[1:]
    return lambda part: (np.int64(part[0]), *_checked(part[1], dtypes))


def _checked(values: Sequence[Any], dtypes: Sequence[DType]) -> Sequence[Any]:
    """Check the number and dtypes of values before they become outputs."""
    if len(values) != len(dtypes):
        raise InvalidArgumentError(f"Mismatch stage/unstage: {len(values)} vs. {len(dtypes)}")
    for k, (value, dtype) in enumerate(zip(values, dtypes, strict=True)):
        if value.dtype != dtype.numpy:
            raise InternalError(
                f"Output {k} of type {value.dtype} does not match declared output type {dtype.name}"
            )
    return values


def _scalar(value: Array, what: str) -> int:
    if np.size(value) != 1:
        raise InvalidArgumentError(f"{what} must be a scalar, it has shape {shown(np.shape(value))}")
    return int(np.reshape(value, ())[()])


def _key(value: Array) -> int:
    return _scalar(value, "key")


def _indices(value: Array) -> list[int]:
    return [int(index) for index in np.reshape(value, -1)]


# Rows

_LIMITS = "capacity:int>=0=0; memory_limit:int>=0=0"
_NAMES = "container:string=''; shared_name:string=''"


def _unknown(context: ShapeContext) -> Sequence[Dims]:
    return [None] * len(context.attrs["dtypes"])


def _key_and_unknown(context: ShapeContext) -> Sequence[Dims]:
    return [None, *_unknown(context)]


def _register(name: str, signature: str, dtypes: str, kernel: Reference, shape: Any) -> None:
    register(
        f"{name}{signature} [{_LIMITS}; {dtypes}; {_NAMES}] {{stateful}}",
        shape=shape,
        kernel=kernel,
        gradient=NOT_DIFFERENTIABLE,
        asynchronous=True,
    )


def _register_queries(kind: type[BlockingResource], *rows: tuple[str, str, Verb]) -> None:
    for name, output, verb in rows:
        shape = (lambda context: [()]) if output else (lambda context: [])
        _register(name, f"() -> ({output})", "dtypes:list(type)", _take_kernel(kind, verb, _unchanged), shape)


def _size(area: Any) -> np.int32:
    return np.int32(area.size)


_SOME, _SIZE = "dtypes:list(type)>=1", "size:int32"

_register(
    "Stage",
    "(values:dtypes) -> ()",
    _SOME,
    _put_kernel(StagingArea, lambda attrs: StagingArea.put, 0),
    lambda context: [],
)
for _name, _inputs, _verb in (
    ("Unstage", "()", StagingArea.get),
    ("StagePeek", "(index:int32)", lambda area, index: area.peek(_scalar(index, "index"))),
):
    _register(
        _name, f"{_inputs} -> (values:dtypes)", _SOME, _take_kernel(StagingArea, _verb, _values), _unknown
    )
_register_queries(StagingArea, ("StageSize", _SIZE, _size), ("StageClear", "", StagingArea.clear))


def _register_map(prefix: str, kind: type[StagingMap]) -> None:
    def put(area: StagingMap, key: Array, indices: Array, values: Any, width: int) -> Attempt | None:
        return area.put(_key(key), _indices(indices), values, width)

    _register(
        f"{prefix}Stage",
        "(key:int64, indices:int32, values:fake_dtypes) -> ()",
        "dtypes:list(type); fake_dtypes:list(type)>=1",
        _put_kernel(kind, lambda attrs: partial(put, width=len(attrs["dtypes"])), 2),
        lambda context: [],
    )
    verbs: tuple[tuple[str, Verb, Finish], ...] = (
        ("Unstage", lambda area, key, indices: area.get(_key(key), _indices(indices)), _values_only),
        ("Peek", lambda area, key, indices: area.peek(_key(key), _indices(indices)), _values),
    )
    for name, verb, finish in verbs:
        signature = "(key:int64, indices:int32) -> (values:dtypes)"
        _register(f"{prefix}{name}", signature, _SOME, _take_kernel(kind, verb, finish), _unknown)
    _register(
        f"{prefix}UnstageNoKey",
        "(indices:int32) -> (key:int64, values:dtypes)",
        _SOME,
        _take_kernel(kind, lambda area, indices: area.get_first(_indices(indices)), _key_and_values),
        _key_and_unknown,
    )
    _register_queries(
        kind,
        (f"{prefix}Size", _SIZE, _size),
        (f"{prefix}IncompleteSize", _SIZE, lambda area: np.int32(area.incomplete_size)),
        (f"{prefix}Clear", "", StagingMap.clear),
    )


_register_map("Map", StagingMap)
_register_map("OrderedMap", OrderedStagingMap)
