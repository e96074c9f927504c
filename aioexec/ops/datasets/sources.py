"""Ops of datasets that have no other dataset as input: tensors, their rows, ranges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioexec.errors import InvalidArgumentError
from aioexec.graph.kernels.kernel import Compute, KernelContext
from aioexec.ops.common.elementwise import Array
from aioexec.ops.datasets.variants import METADATA, OUTPUTS, captured, held, register_dataset, scalar_in
from aioexec.resources.datasets.dataset import check_components
from aioexec.resources.datasets.sources import RangeDataset, SliceDataset, TensorDataset
from aioexec.resources.tensor_list import boxed
from aioexec.shapes import Dims


def _declared(context: KernelContext) -> tuple[Sequence[Any], Sequence[Dims]]:
    types, dims = context.attrs["Toutput_types"], context.attrs["output_shapes"]
    if len(dims) != len(types):
        raise InvalidArgumentError(
            f"Number of components does not match: expected {len(types)} shapes but got {len(dims)}"
        )
    return types, dims


def _slices(context: KernelContext) -> Compute:
    types, dims = _declared(context)

    def slices(*components: Any) -> Array:
        kept = tuple(map(held, components))
        check_components(types, dims, types, [each.shape[1:] for each in kept])
        return boxed(SliceDataset(tuple(types), kept))

    return slices


def _tensors(context: KernelContext) -> Compute:
    types, _ = _declared(context)
    return lambda *components: boxed(TensorDataset(tuple(types), tuple(map(captured, components))))


def _range(context: KernelContext) -> Compute:
    (dtype,) = context.attrs["output_types"]

    def numbers(start: Array, stop: Array, step: Array) -> Array:
        return boxed(
            RangeDataset(dtype, scalar_in(start, "start"), scalar_in(stop, "stop"), scalar_in(step, "step"))
        )

    return numbers


_COMPONENTS = "Toutput_types:list(type)>=1; output_shapes:list(shape)>=1"
register_dataset(
    "TensorSliceDataset",
    "components:Toutput_types",
    f"{_COMPONENTS}; is_files:bool=false; {METADATA}; replicate_on_split:bool=false",
    _slices,
    is_stateful=True,
)
register_dataset(
    "TensorDataset", "components:Toutput_types", f"{_COMPONENTS}; {METADATA}", _tensors, is_stateful=True
)
register_dataset(
    "RangeDataset",
    "start:int64, stop:int64, step:int64",
    f"{OUTPUTS}; {METADATA}; replicate_on_split:bool=false",
    _range,
    0,
    0,
    0,
    is_stateful=True,
)
