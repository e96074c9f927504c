"""Ops of datasets of some elements of others, of random numbers, and of sparse tensors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from aioexec import dtypes as dt
from aioexec.data_classes import dataclass
from aioexec.dtypes import DType
from aioexec.errors import InvalidArgumentError
from aioexec.graph.kernels.kernel import Compute, KernelContext, plain
from aioexec.ops.common.elementwise import Array
from aioexec.ops.datasets.transformations import node_seeds, samples
from aioexec.ops.datasets.variants import METADATA, OUTPUTS, dataset_in, made, register_dataset, scalar_in
from aioexec.ops.sparse.protos import Parts, check_batch, check_parts, split_batch, variants_of
from aioexec.resources.datasets.batches import Batches, check_size
from aioexec.resources.datasets.choosing import (
    DirectedInterleaveDataset,
    IgnoreErrorsDataset,
    RandomDataset,
    UniqueDataset,
)
from aioexec.resources.datasets.dataset import Dataset, Memory, Pass
from aioexec.resources.datasets.sources import ElementsDataset
from aioexec.resources.datasets.work import Element
from aioexec.resources.tensor_list import boxed
from aioexec.shapes import Dims

for _name in ("IgnoreErrorsDataset", "ExperimentalIgnoreErrorsDataset"):
    register_dataset(
        _name, "input_dataset:variant", f"{OUTPUTS}; log_warning:bool=false", made(IgnoreErrorsDataset)
    )
for _name, _own in (("UniqueDataset", f"; {METADATA}"), ("ExperimentalUniqueDataset", "")):
    register_dataset(_name, "input_dataset:variant", f"{OUTPUTS}{_own}", made(UniqueDataset))


def _directed(choices: Dataset, *sources: Any) -> Dataset:
    return DirectedInterleaveDataset(choices, tuple(map(dataset_in, sources)))


for _name, _own in (
    ("DirectedInterleaveDataset", "; stop_on_empty_dataset:bool=false"),
    ("ExperimentalDirectedInterleaveDataset", ""),
):
    register_dataset(
        _name,
        "selector_input_dataset:variant, data_input_datasets:N*variant",
        f"{OUTPUTS}; N:int>=1{_own}",
        made(_directed),
    )


def _random(seed: Array, seed2: Array) -> Array:
    return boxed(RandomDataset(node_seeds(seed, seed2), samples))


for _name, _own in (("RandomDataset", f"; {METADATA}"), ("ExperimentalRandomDataset", "")):
    register_dataset(
        _name, "seed:int64, seed2:int64", f"{OUTPUTS}{_own}", plain(_random), 0, 0, is_stateful=True
    )

# Sparse tensors


def _sparse_slices(context: KernelContext) -> Compute:
    """The kernel of a dataset of the rows of a sparse tensor, each as its three components."""
    types = (dt.int64, context.attrs["Tvalues"], dt.int64)

    def slices(indices: Array, values: Array, shape: Array) -> Array:
        check_parts(indices, values, shape)
        check_batch(indices, values, shape)
        empty, tensors = split_batch(Parts(indices.copy(), values.copy(), shape.copy()))
        rows: list[Element] = [tuple(empty)] * int(shape[0])
        for number, parts in tensors:
            rows[number] = tuple(parts)
        for row in rows:
            for part in row:
                part.setflags(write=False)
        return boxed(ElementsDataset(types, rows))

    return slices


register_dataset(
    "SparseTensorSliceDataset",
    "indices:int64, values:Tvalues, dense_shape:int64",
    "Tvalues:type",
    _sparse_slices,
    is_stateful=True,
)


@dataclass(frozen=True, slots=True, eq=False)
class SparseBatchDataset:
    """Batches of arrays of different shapes, as sparse tensors whose rows have the shape `row` (-1: the largest size)."""

    source: Dataset
    size: int
    row: tuple[int, ...]

    def __post_init__(self) -> None:
        check_size(self.size)

    @property
    def dtypes(self) -> tuple[DType, ...]:
        return (dt.variant,)

    @property
    def dims(self) -> tuple[Dims, ...]:
        return ((3,),)

    def begin(self, memory: Memory) -> Pass:
        join = partial(_sparse_rows, self.row, self.source.dtypes[0])
        return Batches(self.source.begin(memory), self.size, False, join)


def _sparse_rows(row: tuple[int, ...], dtype: DType, elements: Sequence[Element]) -> Element:
    arrays = [element[0] for element in elements]
    for array in arrays:
        if array.ndim != len(row):
            raise InvalidArgumentError(
                f"Input element had shape ({array.shape}) that is incompatible with the row_shape ({row})"
            )
        if any(0 <= most < size for size, most in zip(array.shape, row, strict=True)):
            raise InvalidArgumentError(
                f"Input element had shape {array.shape}, larger than the row_shape {row}"
            )
    largest = [
        max(array.shape[axis] for array in arrays) if most < 0 else most for axis, most in enumerate(row)
    ]
    places = [np.argwhere(np.ones(array.shape, bool)) for array in arrays]
    numbered = [
        np.insert(each, 0, number, axis=1) if row else np.full((1, 1), number)
        for number, each in enumerate(places)
    ]
    parts = Parts(
        np.concatenate(numbered).astype(np.int64),
        np.concatenate([array.ravel() for array in arrays]),
        np.array([len(arrays), *largest], np.int64),
    )
    return (variants_of(parts, dtype),)


def _sparse_batch(source: Dataset, size: Array, row: Array) -> Dataset:
    return SparseBatchDataset(source, scalar_in(size, "batch_size"), tuple(row.tolist()))


for _name in ("DenseToSparseBatchDataset", "ExperimentalDenseToSparseBatchDataset"):
    register_dataset(
        _name,
        "input_dataset:variant, batch_size:int64, row_shape:int64",
        OUTPUTS,
        made(_sparse_batch),
        None,
        0,
        1,
    )
