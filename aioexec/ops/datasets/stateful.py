"""Ops of datasets with state between elements: generators, scans, groups, windows, caches; and reductions of datasets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioexec import dtypes as dt
from aioexec.errors import InvalidArgumentError, UnimplementedError
from aioexec.graph.kernels.kernel import Compute, KernelContext, StepContext
from aioexec.graph.registry import ShapeContext, register, undefined_gradient
from aioexec.ops.common.elementwise import Array
from aioexec.ops.containers.optional import declared_shapes
from aioexec.ops.datasets.iterators import given_by
from aioexec.ops.datasets.variants import (
    METADATA,
    OUTPUTS,
    captured,
    dataset_in,
    function_of,
    made,
    register_dataset,
    scalar_in,
)
from aioexec.ops.strings.elements import scalar_bytes
from aioexec.resources.datasets.caching import CacheDataset
from aioexec.resources.datasets.dataset import Dataset
from aioexec.resources.datasets.generators import GeneratorDataset, ScanDataset
from aioexec.resources.datasets.grouping import GroupByWindowDataset, WindowDataset
from aioexec.resources.datasets.iterators import next_of
from aioexec.resources.datasets.mapping import Function
from aioexec.resources.datasets.work import Element, Work
from aioexec.resources.tensor_list import boxed
from aioexec.shapes import Dims


def _outputs(context: KernelContext) -> tuple[Any, Any]:
    return tuple(context.attrs["output_types"]), tuple(context.attrs["output_shapes"])


def _parts(values: Sequence[Any], *counts: int) -> list[Sequence[Any]]:
    """Split the inputs of a node into lists of these lengths."""
    found, at = [], 0
    for count in counts:
        found.append(values[at : at + count])
        at += count
    return found


# Generators


def _generator(context: KernelContext) -> Compute:
    attrs = context.attrs
    types, dims = _outputs(context)
    names = ("init_func", "next_func", "finalize_func")
    start = function_of(context, _returned(context, "init_func"), "init_func", "Tinit_func_args")
    advance = function_of(context, types, "next_func", "Tnext_func_args")
    finish = function_of(context, _returned(context, "finalize_func"), "finalize_func", "Tfinalize_func_args")
    state = _returned(context, "init_func")
    counts = [len(attrs[f"T{name}_args"]) for name in names]

    def generator(*inputs: Any) -> Array:
        for_start, for_advance, for_finish = _parts(inputs, *counts)
        return boxed(
            GeneratorDataset(
                start([], for_start), advance(state, for_advance), finish(state, for_finish), types, dims
            )
        )

    return generator


def _returned(context: KernelContext, attr: str) -> list[Any]:
    """Return the dtypes of a function's outputs."""
    return [tensor.dtype.base_dtype for tensor in context.functions.body(context.attrs[attr]).outputs]


register_dataset(
    "GeneratorDataset",
    "init_func_other_args:Tinit_func_args, next_func_other_args:Tnext_func_args, "
    "finalize_func_other_args:Tfinalize_func_args",
    "init_func:func; next_func:func; finalize_func:func; Tinit_func_args:list(type)>=0; Tnext_func_args:list(type)>=0; "
    f"Tfinalize_func_args:list(type)>=0; {OUTPUTS}; {METADATA}",
    _generator,
    is_stateful=True,
)

# Scans


def _scan(context: KernelContext) -> Compute:
    attrs = context.attrs
    types, dims = _outputs(context)
    states: Sequence[Any] = attrs["Tstate"]
    function = function_of(context, [*states, *types])

    def scan(variant: Any, *inputs: Any) -> Array:
        source = dataset_in(variant)
        initial, rest = inputs[: len(states)], inputs[len(states) :]
        made_function = function([*states, *source.dtypes], rest)
        return boxed(ScanDataset(source, made_function, tuple(map(captured, initial)), types, dims))

    return scan


_SCAN = "input_dataset:variant, initial_state:Tstate, other_arguments:Targuments"
_SCAN_ATTRS = (
    f"f:func; Tstate:list(type)>=1; Targuments:list(type)>=0; {OUTPUTS}; preserve_cardinality:bool=false"
)
register_dataset("ScanDataset", _SCAN, f"{_SCAN_ATTRS}; use_default_device:bool=true; {METADATA}", _scan)
register_dataset("ExperimentalScanDataset", _SCAN, _SCAN_ATTRS, _scan)

# Windows and groups


def _window(source: Dataset, size: Array, shift: Array, stride: Array, drops: Array) -> Dataset:
    return WindowDataset(
        source,
        scalar_in(size, "size"),
        scalar_in(shift, "shift"),
        scalar_in(stride, "stride"),
        bool(scalar_in(drops, "drop_remainder")),
    )


register_dataset(
    "WindowDataset",
    "input_dataset:variant, size:int64, shift:int64, stride:int64, drop_remainder:bool",
    f"{OUTPUTS}; {METADATA}",
    made(_window),
    None,
    0,
    0,
    0,
    0,
)


def _dataset_of(outputs: Element) -> Dataset:
    return dataset_in(outputs[0])


def _group_by_window(context: KernelContext) -> Compute:
    types, dims = _outputs(context)
    names = ("key_func", "reduce_func", "window_size_func")
    returned = ([dt.int64], [dt.variant], [dt.int64])
    key, reduce, size = (
        function_of(context, found, name, f"T{name}_other_arguments")
        for name, found in zip(names, returned, strict=True)
    )
    counts = [len(context.attrs[f"T{name}_other_arguments"]) for name in names]

    def group(variant: Any, *inputs: Any) -> Array:
        source = dataset_in(variant)
        for_key, for_reduce, for_size = _parts(inputs, *counts)
        return boxed(
            GroupByWindowDataset(
                source,
                key(source.dtypes, for_key),
                reduce([dt.int64, dt.variant], for_reduce),
                size([dt.int64], for_size),
                _dataset_of,
                types,
                dims,
            )
        )

    return group


_GROUP = (
    "input_dataset:variant, key_func_other_arguments:Tkey_func_other_arguments, "
    "reduce_func_other_arguments:Treduce_func_other_arguments, "
    "window_size_func_other_arguments:Twindow_size_func_other_arguments"
)
_GROUP_ATTRS = (
    "key_func:func; reduce_func:func; window_size_func:func; Tkey_func_other_arguments:list(type)>=0; "
    f"Treduce_func_other_arguments:list(type)>=0; Twindow_size_func_other_arguments:list(type)>=0; {OUTPUTS}"
)
register_dataset("GroupByWindowDataset", _GROUP, f"{_GROUP_ATTRS}; {METADATA}", _group_by_window)
register_dataset("ExperimentalGroupByWindowDataset", _GROUP, _GROUP_ATTRS, _group_by_window)

# Caches


def _cache(source: Dataset, name: Array) -> Dataset:
    if scalar_bytes(name, "filename"):
        raise UnimplementedError("CacheDataset: elements are cached in memory only, not in files")
    return CacheDataset(source)


register_dataset(
    "CacheDataset", "input_dataset:variant, filename:string", f"{OUTPUTS}; {METADATA}", made(_cache), None, 0
)

# Reductions


def _reduce(context: KernelContext) -> Compute:
    attrs, background = context.attrs, context.background
    states: Sequence[Any] = attrs["Tstate"]
    function = function_of(context, states)
    given = given_by(attrs)

    async def reduce(step: StepContext, variant: Any, *inputs: Any) -> Any:
        source = dataset_in(variant)
        state: Element = tuple(inputs[: len(states)])
        made_function = function([*states, *source.dtypes], inputs[len(states) :])
        work = Work(background)
        try:
            through = source.begin({})
            while (element := await next_of(through, work)) is not None:
                state = await _result(work, made_function, (*state, *element))
        finally:
            await work.close()
        return given(tuple([part.copy() for part in state]))

    return reduce


async def _result(work: Work, function: Function, element: Element) -> Element:
    call = function.call(work, element)
    while call.is_open:
        await work.wait(call)
    return call.outcome()


def _state_shapes(context: ShapeContext) -> Sequence[Dims]:
    return list(context.attrs["output_shapes"])


register(
    "ReduceDataset(input_dataset:variant, initial_state:Tstate, other_arguments:Targuments) -> "
    f"(components:output_types) [f:func; Tstate:list(type)>=1; Targuments:list(type)>=0; {OUTPUTS}; "
    f"use_inter_op_parallelism:bool=true; {METADATA}] {{stateful}}",
    shape=_state_shapes,
    kernel=_reduce,
    gradient=undefined_gradient,
    asynchronous=True,
    dynamic_shape=True,
)


def _single(context: KernelContext) -> Compute:
    background, given = context.background, given_by(context.attrs)

    async def single(step: StepContext, variant: Any) -> Any:
        work = Work(background)
        try:
            through = dataset_in(variant).begin({})
            element = await next_of(through, work)
            if element is None:
                raise InvalidArgumentError("Dataset was empty.")
            if await next_of(through, work) is not None:
                raise InvalidArgumentError("Dataset had more than one element.")
        finally:
            await work.close()
        return given(element)

    return single


register(
    f"DatasetToSingleElement(dataset:variant) -> (components:output_types) [{OUTPUTS}; {METADATA}] {{stateful}}",
    shape=declared_shapes,
    kernel=_single,
    gradient=undefined_gradient,
    asynchronous=True,
    dynamic_shape=True,
)
