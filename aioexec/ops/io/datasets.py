"""Datasets and iterators: the ops behind TensorFlow's `tf.data`.

Datasets are variant tensors, iterators resource handles. Functions of elements are awaited within the step that requests an
element, so an iterator may be shared by sessions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np

from aioexec import dtypes as dt, shapes
from aioexec.errors import InvalidArgumentError
from aioexec.graph.kernels.kernel import (
    WOULD_BLOCK,
    Attrs,
    Compute,
    FunctionBody,
    KernelContext,
    NonblockingKernel,
    Role,
    StepContext,
    plain,
)
from aioexec.graph.registry import ShapeContext, ShapeRule, register, undefined_gradient
from aioexec.ops.common.elementwise import Array
from aioexec.ops.common.handles import finder, handle_of, maker
from aioexec.ops.containers.optional import declared_shapes
from aioexec.ops.strings.elements import array_of, scalar_bytes
from aioexec.resources.datasets import (
    BatchDataset,
    Dataset,
    Element,
    Iterator,
    MapDataset,
    RepeatDataset,
    SliceDataset,
    check_components,
)
from aioexec.resources.memory import owns_memory
from aioexec.resources.tensor_list import boxed
from aioexec.shapes import Dims

_DATASETS = (SliceDataset, BatchDataset, RepeatDataset, MapDataset)

# Datasets


def _dataset_in(variant: Any) -> Dataset:
    """Return the dataset in a variant tensor.

    Raises:
        InvalidArgumentError: the tensor holds something else.
    """
    content = variant.item() if isinstance(variant, np.ndarray) and variant.ndim == 0 else variant
    if not isinstance(content, _DATASETS):
        raise InvalidArgumentError("Tensor must be a Variant scalar holding a dataset.")
    return content


def _scalar_in(value: Array, what: str) -> Any:
    if value.ndim:
        raise InvalidArgumentError(f"{what} must be a scalar, got shape {value.shape}")
    return value.item()


def _held(value: Array) -> Array:
    """Return a copy that a dataset may keep."""
    held = value if owns_memory(value) and not value.flags.writeable else value.copy()
    held.setflags(write=False)
    return held


def _slices(context: KernelContext) -> Compute:
    types: Sequence[Any] = context.attrs["Toutput_types"]
    dims: Sequence[Dims] = context.attrs["output_shapes"]
    count = len(dims)
    if count != len(types):
        raise InvalidArgumentError(
            f"Number of components does not match: expected {len(types)} shapes but got {count}"
        )

    def slices(*components: Any) -> Array:
        held = tuple(map(_held, components))
        check_components(types, dims, types, [each.shape[1:] for each in held])
        return boxed(SliceDataset(tuple(types), held))

    return slices


def _batch(variant: Any, size: Array, drops_remainder: Array | None = None) -> Array:
    drops = drops_remainder is not None and bool(_scalar_in(drops_remainder, "drop_remainder"))
    return boxed(BatchDataset(_dataset_in(variant), _scalar_in(size, "batch_size"), drops))


def _repeat(variant: Any, count: Array) -> Array:
    return boxed(RepeatDataset(_dataset_in(variant), _scalar_in(count, "count")))


def _body_of(context: KernelContext, attr: str, types: Sequence[Any]) -> FunctionBody:
    """Return the body of a function named by an attribute, after checking the dtypes that it returns.

    Raises:
        InvalidArgumentError: the dtypes differ, or the function is recursive (an iterator would wait for its own elements).
        NotFoundError: the graph has no such function.
    """
    called = context.attrs[attr]
    if context.functions.is_recursive(called.name):
        raise InvalidArgumentError(
            f"{context.node_name!r}: function {called.name!r} calls itself; recursion is not supported"
        )
    body = context.functions.body(called)
    _check_types(context, body, "returns", [tensor.dtype.base_dtype for tensor in body.outputs], types)
    return body


def _check_types(
    context: KernelContext, body: FunctionBody, verb: str, got: Sequence[Any], expected: Sequence[Any]
) -> None:
    if list(got) != list(expected):
        raise InvalidArgumentError(
            f"{context.node_name!r}: function {body.name!r} {verb} {[dtype.name for dtype in got]}, "
            f"expected {[dtype.name for dtype in expected]}"
        )


def _map(context: KernelContext) -> Compute:
    types, dims = tuple(context.attrs["output_types"]), tuple(context.attrs["output_shapes"])
    captured_types: Sequence[Any] = context.attrs["Targuments"]
    body = _body_of(context, "f", types)
    takes = [tensor.dtype.base_dtype for tensor in body.inputs]

    def mapped(variant: Any, *captured: Array) -> Array:
        source = _dataset_in(variant)
        _check_types(context, body, "takes", takes, [*source.dtypes, *captured_types])
        return boxed(MapDataset(source, body, tuple(map(_captured, captured)), types, dims))

    return mapped


def _captured(value: Any) -> Any:
    """Return the captured input of a function: a copy of an array, or a handle."""
    return _held(value) if isinstance(value, np.ndarray) and not _is_handle(value) else value


def _is_handle(value: Array) -> bool:
    return value.dtype.hasobject and value.ndim == 0 and not isinstance(value.item(), bytes)


# Iterators


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
    return lambda variant, handle: iterator_behind(handle).begin(_dataset_in(variant))


def _one_shot(context: KernelContext) -> Compute:
    make, factory = _make_iterator(context), _body_of(context, "dataset_factory", [dt.variant])

    async def one_shot(step: StepContext) -> Array:
        handle: Array = make()

        async def dataset() -> Dataset:
            (variant,) = await step.call(factory, ())
            return _dataset_in(variant)

        await handle.item().begin_once(dataset)
        return handle

    return one_shot


def _get_next(context: KernelContext) -> Compute:
    iterator_behind = finder(context, Iterator, _check_iterator(context.attrs))
    given = _given(context.attrs)

    async def wait(step: StepContext, iterator: Iterator) -> Any:
        return given(await iterator.next(step.call, step.run_in_worker))

    def get_next(step: StepContext, handle: Any) -> Awaitable[Any]:
        return wait(step, iterator_behind(handle))

    def at_once(handle: Any) -> Any:
        element = iterator_behind(handle).next_nowait()
        return WOULD_BLOCK if element is None else given(element)

    return NonblockingKernel(get_next, at_once)


def _given(attrs: Attrs) -> Callable[[Element], Any]:
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


def _scalars(*ranks: int | None, outputs: Sequence[Dims] = ((),)) -> ShapeRule:
    """Shape rule: inputs of these ranks (None: any), scalar outputs."""

    def rule(context: ShapeContext) -> Sequence[Dims]:
        for given, rank in zip(context.inputs, ranks, strict=False):
            if rank is not None:
                shapes.with_rank(given, rank)
        return outputs

    return rule


_OUTPUTS = "output_types:list(type)>=1; output_shapes:list(shape)>=1"
_MAPPING = "use_inter_op_parallelism:bool=true; preserve_cardinality:bool=false; force_synchronous:bool=false"
_DATASET_ROWS = (
    (
        "TensorSliceDataset(components:Toutput_types) -> (handle:variant) [Toutput_types:list(type)>=1; "
        "output_shapes:list(shape)>=1; is_files:bool=false; metadata:string=''; replicate_on_split:bool=false] {stateful}",
        _scalars(),
        _slices,
    ),
    (
        "BatchDataset(input_dataset:variant, batch_size:int64) -> (handle:variant) "
        f"[{_OUTPUTS}; metadata:string='']",
        _scalars(None, 0),
        plain(_batch),
    ),
    (
        "BatchDatasetV2(input_dataset:variant, batch_size:int64, drop_remainder:bool) -> (handle:variant) "
        f"[parallel_copy:bool=false; {_OUTPUTS}; metadata:string='']",
        _scalars(None, 0, 0),
        plain(_batch),
    ),
    (
        f"RepeatDataset(input_dataset:variant, count:int64) -> (handle:variant) [{_OUTPUTS}; metadata:string='']",
        _scalars(None, 0),
        plain(_repeat),
    ),
    (
        "MapDataset(input_dataset:variant, other_arguments:Targuments) -> (handle:variant) "
        f"[f:func; Targuments:list(type)>=0; {_OUTPUTS}; {_MAPPING}; metadata:string='']",
        _scalars(),
        _map,
    ),
)
"""(signature, shape rule, kernel)."""

for _signature, _rule, _kernel in _DATASET_ROWS:
    register(_signature, shape=_rule, kernel=_kernel, gradient=undefined_gradient)

for _name in ("Iterator", "IteratorV2"):
    register(
        f"{_name}() -> (handle:resource) [shared_name:string; container:string; {_OUTPUTS}] {{stateful}}",
        shape=_scalars(),
        kernel=_make_iterator,
        gradient=undefined_gradient,
        role=Role.VARIABLE,
    )

register(
    f"OneShotIterator() -> (handle:resource) [dataset_factory:func; {_OUTPUTS}; container:string=''; "
    "shared_name:string=''] {stateful}",
    shape=_scalars(),
    kernel=_one_shot,
    gradient=undefined_gradient,
    asynchronous=True,
)
register(
    "MakeIterator(dataset:variant, iterator:resource) -> () {stateful}",
    shape=_scalars(outputs=()),
    kernel=_begin,
    gradient=undefined_gradient,
)

for _name in ("IteratorGetNext", "IteratorGetNextSync"):
    register(
        f"{_name}(iterator:resource) -> (components:output_types) [{_OUTPUTS}] {{stateful}}",
        shape=declared_shapes,
        kernel=_get_next,
        gradient=undefined_gradient,
        asynchronous=True,
        dynamic_shape=True,
    )

register(
    "IteratorToStringHandle(resource_handle:resource) -> (string_handle:string) {stateful}",
    shape=_scalars(0),
    kernel=_to_string,
    gradient=undefined_gradient,
)
for _name in ("IteratorFromStringHandle", "IteratorFromStringHandleV2"):
    register(
        f"{_name}(string_handle:string) -> (resource_handle:resource) "
        "[output_types:list(type)>=0=[]; output_shapes:list(shape)>=0=[]] {stateful}",
        shape=_scalars(0),
        kernel=_from_string,
        gradient=undefined_gradient,
    )
