"""Ops that make a dataset of another one with a function of elements."""

from __future__ import annotations

from typing import Any

from aioexec import dtypes as dt
from aioexec.graph.kernels.kernel import KernelContext
from aioexec.ops.common.elementwise import Array
from aioexec.ops.datasets.variants import METADATA, OUTPUTS, function_kernel, register_dataset, scalar_in
from aioexec.resources.datasets.dataset import Dataset
from aioexec.resources.datasets.mapping import FilterDataset, Function, MapDataset

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
