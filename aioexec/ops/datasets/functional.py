"""Ops that make a dataset of another one with a function of elements."""

from __future__ import annotations

from typing import Any

from aioexec import dtypes as dt
from aioexec.graph.kernels.kernel import KernelContext
from aioexec.ops.common.elementwise import Array
from aioexec.ops.datasets.variants import (
    METADATA,
    OUTPUTS,
    dataset_in,
    function_kernel,
    register_dataset,
    scalar_in,
)
from aioexec.resources.datasets.batches import BatchDataset
from aioexec.resources.datasets.dataset import Dataset
from aioexec.resources.datasets.mapping import FilterDataset, Function, MapDataset
from aioexec.resources.datasets.nesting import FlatMapDataset, InterleaveDataset
from aioexec.resources.datasets.work import Element

AUTOTUNED = 4
"""Calls at once if their number is up to us."""

_INPUTS = "input_dataset:variant, other_arguments:Targuments"


def parallel_calls(value: Array) -> int:
    """Return the number of calls at once that an input asks for."""
    count: int = scalar_in(value, "num_parallel_calls")
    return AUTOTUNED if count == -1 else count


def output_types(context: KernelContext) -> Any:
    """Return the dtypes that a node declares for its elements."""
    return context.attrs["output_types"]


def _map(context: KernelContext, source: Dataset, function: Function, *parallel: Array) -> Dataset:
    attrs = context.attrs
    count = parallel_calls(*parallel) if parallel else 1
    return MapDataset(source, function, tuple(attrs["output_types"]), tuple(attrs["output_shapes"]), count)


def _filter(context: KernelContext, source: Dataset, function: Function) -> Dataset:
    return FilterDataset(source, function)


_FUNCTION = "f:func; Targuments:list(type)>=0"
_MAPPING = "use_inter_op_parallelism:bool=true; preserve_cardinality:bool=false"
register_dataset(
    "MapDataset",
    _INPUTS,
    f"{_FUNCTION}; {OUTPUTS}; {_MAPPING}; force_synchronous:bool=false; {METADATA}",
    function_kernel(_map, output_types),
)
register_dataset(
    "ParallelMapDataset",
    f"{_INPUTS}, num_parallel_calls:int32",
    f"{_FUNCTION}; {OUTPUTS}; use_inter_op_parallelism:bool=true; sloppy:bool=false; preserve_cardinality:bool=false; "
    f"{METADATA}",
    function_kernel(_map, output_types),
)
register_dataset(
    "ParallelMapDatasetV2",
    f"{_INPUTS}, num_parallel_calls:int64",
    f"{_FUNCTION}; {OUTPUTS}; use_inter_op_parallelism:bool=true; deterministic:string='default'; "
    f"preserve_cardinality:bool=false; use_unbounded_threadpool:bool=false; {METADATA}",
    function_kernel(_map, output_types),
)
register_dataset(
    "FilterDataset",
    _INPUTS,
    f"predicate:func; Targuments:list(type)>=0; {OUTPUTS}; {METADATA}",
    function_kernel(_filter, lambda context: [dt.bool], "predicate"),
)

# Functions that return datasets


def _outputs(context: KernelContext) -> tuple[Any, Any]:
    return tuple(context.attrs["output_types"]), tuple(context.attrs["output_shapes"])


def _dataset_of(outputs: Element) -> Dataset:
    return dataset_in(outputs[0])


def _variant(context: KernelContext) -> Any:
    return [dt.variant]


def _flat_map(context: KernelContext, source: Dataset, function: Function) -> Dataset:
    return FlatMapDataset(source, function, _dataset_of, *_outputs(context))


def _interleave(
    context: KernelContext, source: Dataset, function: Function, cycle: Array, block: Array, *parallel: Array
) -> Dataset:
    calls = parallel_calls(*parallel) if parallel else 1
    length = scalar_in(cycle, "cycle_length")
    return InterleaveDataset(
        source,
        function,
        _dataset_of,
        *_outputs(context),
        cycle=AUTOTUNED if length == -1 else length,
        block=scalar_in(block, "block_length"),
        parallel=calls,
        is_sloppy=_is_sloppy(context),
    )


def _is_sloppy(context: KernelContext) -> bool:
    return bool(context.attrs.get("sloppy", False)) or context.attrs.get("deterministic") == "false"


def _buffered_interleave(
    context: KernelContext,
    source: Dataset,
    function: Function,
    cycle: Array,
    block: Array,
    *options: Array,
) -> Dataset:
    """The kernel of interleaves with buffers: `options` are sloppy, in some ops, the buffers' sizes, and the calls at once."""
    replaces = True
    if options[0].dtype == bool:
        is_sloppy, ahead, calls = bool(scalar_in(options[0], "sloppy")), options[1], cycle
    elif len(options) == 2:
        is_sloppy, ahead, calls = _is_sloppy(context), options[0], cycle
    else:
        is_sloppy, ahead, calls, replaces = _is_sloppy(context), options[0], options[2], False
    length = scalar_in(cycle, "cycle_length")
    return InterleaveDataset(
        source,
        function,
        _dataset_of,
        *_outputs(context),
        cycle=AUTOTUNED if length == -1 else length,
        block=scalar_in(block, "block_length"),
        parallel=max(2, abs(scalar_in(calls, "num_parallel_calls"))),
        ahead=max(1, scalar_in(ahead, "buffer_output_elements")),
        is_sloppy=is_sloppy,
        replaces=replaces,
    )


register_dataset(
    "FlatMapDataset",
    _INPUTS,
    f"{_FUNCTION}; {OUTPUTS}; {METADATA}",
    function_kernel(_flat_map, _variant),
)
_CYCLES = f"{_INPUTS}, cycle_length:int64, block_length:int64"
register_dataset(
    "InterleaveDataset",
    _CYCLES,
    f"{_FUNCTION}; {OUTPUTS}; {METADATA}",
    function_kernel(_interleave, _variant),
)
register_dataset(
    "ParallelInterleaveDatasetV2",
    f"{_CYCLES}, num_parallel_calls:int64",
    f"{_FUNCTION}; {OUTPUTS}; sloppy:bool=false; {METADATA}",
    function_kernel(_interleave, _variant),
)
register_dataset(
    "ParallelInterleaveDatasetV3",
    f"{_CYCLES}, num_parallel_calls:int64",
    f"f:func; deterministic:string='default'; Targuments:list(type)>=0; {OUTPUTS}; {METADATA}",
    function_kernel(_interleave, _variant),
)
register_dataset(
    "ParallelInterleaveDatasetV4",
    f"{_CYCLES}, buffer_output_elements:int64, prefetch_input_elements:int64, num_parallel_calls:int64",
    f"f:func; deterministic:string='default'; Targuments:list(type)>=0; {OUTPUTS}; {METADATA}",
    function_kernel(_buffered_interleave, _variant),
)
for _name, _own in (
    ("ParallelInterleaveDataset", f"; {METADATA}"),
    ("ExperimentalParallelInterleaveDataset", ""),
):
    register_dataset(
        _name,
        f"{_CYCLES}, sloppy:bool, buffer_output_elements:int64, prefetch_input_elements:int64",
        f"{_FUNCTION}; {OUTPUTS}{_own}",
        function_kernel(_buffered_interleave, _variant),
    )
register_dataset(
    "LegacyParallelInterleaveDatasetV2",
    f"{_CYCLES}, buffer_output_elements:int64, prefetch_input_elements:int64",
    f"f:func; deterministic:string='default'; Targuments:list(type)>=0; {OUTPUTS}; {METADATA}",
    function_kernel(_buffered_interleave, _variant),
)

# Fused with batches


def _map_and_batch(
    context: KernelContext, source: Dataset, function: Function, size: Array, calls: Array, drops: Array
) -> Dataset:
    types, dims = _outputs(context)
    rows = tuple(None if each is None else each[1:] for each in dims)
    mapped = MapDataset(source, function, types, rows, parallel_calls(calls))
    return BatchDataset(mapped, scalar_in(size, "batch_size"), bool(scalar_in(drops, "drop_remainder")))


for _name, _own in (("MapAndBatchDataset", f"; {METADATA}"), ("ExperimentalMapAndBatchDataset", "")):
    register_dataset(
        _name,
        f"{_INPUTS}, batch_size:int64, num_parallel_calls:int64, drop_remainder:bool",
        f"{_FUNCTION}; {OUTPUTS}; preserve_cardinality:bool=false{_own}",
        function_kernel(_map_and_batch, output_types),
    )


def _take_while(context: KernelContext, source: Dataset, function: Function) -> Dataset:
    return FilterDataset(source, function, stops=True)


for _name, _own in (("TakeWhileDataset", f"; {METADATA}"), ("ExperimentalTakeWhileDataset", "")):
    register_dataset(
        _name,
        _INPUTS,
        f"predicate:func; Targuments:list(type)>=0; {OUTPUTS}{_own}",
        function_kernel(_take_while, lambda context: [dt.bool], "predicate"),
    )
