"""Ops that make a dataset of others without functions: batches, repetitions, shuffles and the like."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from aioexec.graph.kernels.kernel import Compute, KernelContext
from aioexec.ops.common.elementwise import Array
from aioexec.ops.datasets.variants import (
    METADATA,
    OUTPUTS,
    dataset_in,
    held,
    made,
    register_dataset,
    scalar_in,
)
from aioexec.ops.random.philox import Stream, words
from aioexec.resources.datasets.batches import BatchDataset, PaddedBatchDataset, UnbatchDataset
from aioexec.resources.datasets.dataset import Dataset
from aioexec.resources.datasets.prefetching import PrefetchDataset
from aioexec.resources.datasets.selections import (
    ConcatenateDataset,
    RepeatDataset,
    ShardDataset,
    SkipDataset,
    TakeDataset,
    ZipDataset,
)
from aioexec.resources.datasets.shuffling import ShuffleDataset
from aioexec.resources.tensor_list import boxed

_ATTRS = f"{OUTPUTS}; {METADATA}"

# Batches


def _batch(source: Dataset, size: Array, drops_remainder: Array | None = None) -> Dataset:
    drops = drops_remainder is not None and bool(scalar_in(drops_remainder, "drop_remainder"))
    return BatchDataset(source, scalar_in(size, "batch_size"), drops)


def _padded_batch(context: KernelContext) -> Compute:
    count = context.attrs["N"]

    def padded(variant: Any, size: Array, *rest: Array) -> Array:
        shapes = tuple(tuple(each.tolist()) for each in rest[:count])
        values = tuple(map(held, rest[count : 2 * count]))
        drops = len(rest) > 2 * count and bool(scalar_in(rest[-1], "drop_remainder"))
        source = dataset_in(variant)
        return boxed(PaddedBatchDataset(source, scalar_in(size, "batch_size"), shapes, values, drops))

    return padded


register_dataset("BatchDataset", "input_dataset:variant, batch_size:int64", _ATTRS, made(_batch), None, 0)
register_dataset(
    "BatchDatasetV2",
    "input_dataset:variant, batch_size:int64, drop_remainder:bool",
    f"parallel_copy:bool=false; {_ATTRS}",
    made(_batch),
    None,
    0,
    0,
)
_PADDED = "input_dataset:variant, batch_size:int64, padded_shapes:N*int64, padding_values:Toutput_types"
_PADDED_ATTRS = f"Toutput_types:list(type)>=1; output_shapes:list(shape)>=1; N:int>=1; {METADATA}"
register_dataset("PaddedBatchDataset", _PADDED, _PADDED_ATTRS, _padded_batch, None, 0)
register_dataset(
    "PaddedBatchDatasetV2",
    f"{_PADDED}, drop_remainder:bool",
    f"parallel_copy:bool=false; {_PADDED_ATTRS}",
    _padded_batch,
    None,
    0,
)
register_dataset("UnbatchDataset", "input_dataset:variant", _ATTRS, made(UnbatchDataset))
register_dataset("ExperimentalUnbatchDataset", "input_dataset:variant", OUTPUTS, made(UnbatchDataset))

# Selections


def _repeat(source: Dataset, count: Array) -> Dataset:
    return RepeatDataset(source, scalar_in(count, "count"))


def _take(source: Dataset, count: Array) -> Dataset:
    return TakeDataset(source, scalar_in(count, "count"))


def _skip(source: Dataset, count: Array) -> Dataset:
    return SkipDataset(source, scalar_in(count, "count"))


def _prefetch(source: Dataset, size: Array) -> Dataset:
    return PrefetchDataset(source, scalar_in(size, "buffer_size"))


def _shard(source: Dataset, count: Array, index: Array) -> Dataset:
    return ShardDataset(source, scalar_in(count, "num_shards"), scalar_in(index, "index"))


for _name, _make in (("RepeatDataset", _repeat), ("TakeDataset", _take), ("SkipDataset", _skip)):
    register_dataset(_name, "input_dataset:variant, count:int64", _ATTRS, made(_make), None, 0)
register_dataset(
    "PrefetchDataset",
    "input_dataset:variant, buffer_size:int64",
    f"{OUTPUTS}; slack_period:int=0; legacy_autotune:bool=true; buffer_size_min:int=0; {METADATA}",
    made(_prefetch),
    None,
    0,
)
register_dataset(
    "ShardDataset",
    "input_dataset:variant, num_shards:int64, index:int64",
    f"require_non_empty:bool=false; {_ATTRS}",
    made(_shard),
    None,
    0,
    0,
)
register_dataset(
    "ConcatenateDataset",
    "input_dataset:variant, another_dataset:variant",
    _ATTRS,
    made(lambda source, second: ConcatenateDataset(source, dataset_in(second))),
)
register_dataset(
    "ZipDataset",
    "input_datasets:N*variant",
    f"{OUTPUTS}; N:int>=1; {METADATA}",
    made(lambda first, *others: ZipDataset((first, *map(dataset_in, others)))),
)

# Shuffles


def samples(seed: int, seed2: int) -> Iterator[int]:
    """Yield the words of the Philox stream of two seeds, one after another."""
    stream = Stream(seed, seed2)
    offsets = np.arange(64, dtype=np.uint64)
    while True:
        yield from words(stream.key, stream.reserve(64), offsets).ravel().tolist()


def node_seeds(seed: Array, seed2: Array) -> tuple[int, int]:
    """Return the seeds of a node; random ones for 0, 0."""
    seeds = scalar_in(seed, "seed"), scalar_in(seed2, "seed2")
    if seeds == (0, 0):
        stream = Stream(0, 0)
        return stream.key, stream.reserve(1) >> 64
    return seeds


def _shuffle(context: KernelContext) -> Compute:
    reshuffles: bool = context.attrs["reshuffle_each_iteration"]

    def shuffle(variant: Any, size: Array, seed: Array, seed2: Array, *rest: Any) -> Array:
        source = dataset_in(variant)
        count = scalar_in(rest[0], "count") if rest else 1
        return boxed(
            ShuffleDataset(
                source,
                scalar_in(size, "buffer_size"),
                node_seeds(seed, seed2),
                samples,
                reshuffles,
                count,
            )
        )

    return shuffle


_SHUFFLED = "input_dataset:variant, buffer_size:int64, seed:int64, seed2:int64"
register_dataset(
    "ShuffleDataset", _SHUFFLED, f"reshuffle_each_iteration:bool=true; {_ATTRS}", _shuffle, None, 0, 0, 0
)
register_dataset(
    "ShuffleAndRepeatDataset",
    f"{_SHUFFLED}, count:int64",
    f"{OUTPUTS}; reshuffle_each_iteration:bool=true; {METADATA}",
    _shuffle,
    None,
    0,
    0,
    0,
    0,
)

# What tells TensorFlow's runtime how to go about it changes no elements.


def _same(source: Dataset, *options: Array) -> Dataset:
    return source


for _name, _inputs, _own in (
    ("OptionsDataset", "", f"serialized_options:string; {_ATTRS}"),
    ("ModelDataset", "", f"algorithm:int=0; cpu_budget:int=0; ram_budget:int=0; {OUTPUTS}"),
    ("OptimizeDataset", ", optimizations:string", f"{OUTPUTS}; optimization_configs:list(string)=[]"),
    ("RewriteDataset", ", rewrite_name:string", OUTPUTS),
    ("MaxIntraOpParallelismDataset", ", max_intra_op_parallelism:int64", OUTPUTS),
    ("PrivateThreadPoolDataset", ", num_threads:int64", OUTPUTS),
    ("LatencyStatsDataset", ", tag:string", OUTPUTS),
):
    register_dataset(_name, f"input_dataset:variant{_inputs}", _own, made(_same))
