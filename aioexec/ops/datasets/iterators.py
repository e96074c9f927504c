"""Ops of iterators. Datasets are variant tensors, iterators resource handles.

The requests of an iterator are run by the session that needs them, so it may be shared by sessions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from aioexec import dtypes as dt
from aioexec.errors import InvalidArgumentError
from aioexec.graph.kernels.kernel import (
    WOULD_BLOCK,
    Attrs,
    Compute,
    KernelContext,
    NonblockingKernel,
    Role,
    StepContext,
)
from aioexec.graph.registry import register, undefined_gradient
from aioexec.ops.common.elementwise import Array
from aioexec.ops.common.handles import finder, handle_of, maker
from aioexec.ops.containers.optional import declared_shapes
from aioexec.ops.datasets.variants import OUTPUTS, body_of, dataset_in, scalars
from aioexec.ops.strings.elements import array_of, scalar_bytes
from aioexec.resources.datasets.dataset import Dataset, check_components
from aioexec.resources.datasets.iterators import Iterator
from aioexec.resources.datasets.work import Element


def _made(context: KernelContext, name: str) -> Iterator:
    attrs = context.attrs
    return Iterator(name, attrs["container"], context.device, attrs["output_types"], attrs["output_shapes"])


def _check_iterator(attrs: Attrs) -> Callable[[Iterator], None]:
    types, dims = attrs["output_types"], attrs["output_shapes"]
    return lambda iterator: check_components(types, dims, iterator.dtypes, iterator.dims)


def _check_shared(found: Iterator, wanted: Iterator) -> None:
    check_components(wanted.dtypes, wanted.dims, found.dtypes, found.dims)


_make_iterator = maker(Iterator, _made, _check_shared)


def _begin(context: KernelContext) -> Compute:
    iterator_behind = finder(context, Iterator)
    return lambda step, variant, handle: iterator_behind(handle).begin(dataset_in(variant))


def _one_shot(context: KernelContext) -> Compute:
    make, factory = _make_iterator(context), body_of(context, "dataset_factory", [dt.variant])

    async def one_shot(step: StepContext) -> Array:
        handle: Array = make()

        async def dataset() -> Dataset:
            (variant,) = await step.call(factory, ())
            return dataset_in(variant)

        await handle.item().begin_once(dataset)
        return handle

    return one_shot


def _get_next(context: KernelContext) -> Compute:
    iterator_behind = finder(context, Iterator, _check_iterator(context.attrs))
    given, background = given_by(context.attrs), context.background

    async def wait(iterator: Iterator) -> Any:
        return given(await iterator.next(background))

    def get_next(step: StepContext, handle: Any) -> Awaitable[Any]:
        return wait(iterator_behind(handle))

    def at_once(handle: Any) -> Any:
        element = iterator_behind(handle).next_nowait(background)
        return WOULD_BLOCK if element is None else given(element)

    return NonblockingKernel(get_next, at_once)


def given_by(attrs: Attrs) -> Callable[[Element], Any]:
    """Return an element as kernel outputs: arrays with no other reference, checked against the node's signature."""
    types, dims = attrs["output_types"], attrs["output_shapes"]

    def given(element: Element) -> Any:
        check_components(types, dims, types, [part.shape for part in element])
        parts = tuple([part if part.flags.writeable else part.copy() for part in element])
        return parts if len(parts) > 1 else parts[0]

    return given


# Handles as strings


def _to_string(context: KernelContext) -> Compute:
    iterator_behind = finder(context, Iterator)

    def to_string(handle: Any) -> Array:
        iterator = iterator_behind(handle)
        return array_of([f"{iterator.container};{iterator.name}".encode()], ())

    return to_string


def _from_string(context: KernelContext) -> Compute:
    types, dims = context.attrs["output_types"], context.attrs["output_shapes"]

    def from_string(text: Array) -> Array:
        container, mark, name = scalar_bytes(text, "string_handle").decode(errors="replace").partition(";")
        if not mark:
            raise InvalidArgumentError("Could not parse string_handle into a valid ResourceHandle")
        iterator = context.resources.lookup(Iterator, container, name)
        if types:
            check_components(types, dims or [None] * len(types), iterator.dtypes, iterator.dims)
        return handle_of(iterator)

    return from_string


# Rows

for _name in ("Iterator", "IteratorV2"):
    register(
        f"{_name}() -> (handle:resource) [shared_name:string; container:string; {OUTPUTS}] {{stateful}}",
        shape=scalars(),
        kernel=_make_iterator,
        gradient=undefined_gradient,
        role=Role.VARIABLE,
    )

register(
    f"OneShotIterator() -> (handle:resource) [dataset_factory:func; {OUTPUTS}; container:string=''; "
    "shared_name:string=''] {stateful}",
    shape=scalars(),
    kernel=_one_shot,
    gradient=undefined_gradient,
    asynchronous=True,
)
register(
    "MakeIterator(dataset:variant, iterator:resource) -> () {stateful}",
    shape=scalars(outputs=()),
    kernel=_begin,
    gradient=undefined_gradient,
    asynchronous=True,  # it may stop tasks of the event loop
)

for _name in ("IteratorGetNext", "IteratorGetNextSync"):
    register(
        f"{_name}(iterator:resource) -> (components:output_types) [{OUTPUTS}] {{stateful}}",
        shape=declared_shapes,
        kernel=_get_next,
        gradient=undefined_gradient,
        asynchronous=True,
        dynamic_shape=True,
    )

register(
    "IteratorToStringHandle(resource_handle:resource) -> (string_handle:string) {stateful}",
    shape=scalars(0),
    kernel=_to_string,
    gradient=undefined_gradient,
)
for _name in ("IteratorFromStringHandle", "IteratorFromStringHandleV2"):
    register(
        f"{_name}(string_handle:string) -> (resource_handle:resource) "
        "[output_types:list(type)>=0=[]; output_shapes:list(shape)>=0=[]] {stateful}",
        shape=scalars(0),
        kernel=_from_string,
        gradient=undefined_gradient,
    )
