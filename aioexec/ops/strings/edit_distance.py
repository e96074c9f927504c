"""EditDistance: the Levenshtein distance between sequences in two sparse batches."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.errors import GraphTypeError, GraphValueError, InternalError, InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.kernels.interruption import check_cancelled
from aioexec.graph.kernels.kernel import Compute, KernelContext
from aioexec.graph.node import Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.graph.sparse_tensor import SparseTensor
from aioexec.ops.common.elementwise import Array, shown
from aioexec.shapes import Dims

_LARGEST = 1 << 30  # upper bound for the sequences of a batch: the dense shape is not trusted


def _shape(context: ShapeContext) -> Sequence[Dims]:
    for first in (0, 3):
        indices, values, shape = context.inputs[first : first + 3]
        indices = shapes.with_rank(indices, 2)
        shapes.merge(shapes.with_rank(values, 1), None if indices is None else indices[:1])
        shapes.merge(shapes.with_rank(shape, 1), None if indices is None else indices[1:])
    known = [context.value(2), context.value(5)]
    if known[0] is None or known[1] is None:
        return [None]
    if known[0].shape != known[1].shape:
        raise GraphValueError(
            f"truth and hypothesis must have one rank, got {known[1].tolist()} and {known[0].tolist()}"
        )
    return [tuple(max(int(a), int(b)) for a, b in zip(*known, strict=True))[:-1]]


def _sequences(what: str, indices: Array, values: Array, shape: Array) -> dict[tuple[int, ...], list[Any]]:
    """Return the sequence for each batch index that has one.

    Raises:
        InvalidArgumentError: the components are inconsistent.
    """
    if (
        indices.ndim != 2
        or values.shape != indices.shape[:1]
        or shape.shape != indices.shape[1:]
        or shape.size < 2
    ):
        raise InvalidArgumentError(
            f"{what} of indices {shown(indices.shape)}, values {shown(values.shape)} and shape {shape.tolist()}: "
            f"expected a row for each value, and a column for each of at least 2 dimensions"
        )
    found: dict[tuple[int, ...], list[Any]] = {}
    for place, value in zip(indices.tolist(), values.tolist(), strict=True):
        found.setdefault(tuple(place[:-1]), []).append(value)
    return found


def distance(a: Sequence[Any], b: Sequence[Any]) -> int:
    """Return the Levenshtein distance, computed by rows of the table."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        check_cancelled()
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
    return row[-1]


def _kernel(context: KernelContext) -> Compute:
    normalize = bool(context.attrs["normalize"])

    def measured(hypothesis: Sequence[Any], truth: Sequence[Any]) -> float:
        steps = float(distance(hypothesis, truth))
        if not normalize:
            return steps
        if not truth:
            return np.inf if hypothesis else 0.0
        return steps / len(truth)

    def compute(*parts: Array) -> Array:
        hypotheses, truths = _sequences("hypothesis", *parts[:3]), _sequences("truth", *parts[3:])
        if parts[2].shape != parts[5].shape:
            raise InvalidArgumentError(
                f"truth and hypothesis must have one rank, got {parts[5].tolist()} and {parts[2].tolist()}"
            )
        for shape in (parts[2], parts[5]):
            if min(shape) < 0:
                raise InvalidArgumentError(f"dimensions must be >= 0, got {shape.tolist()}")
            if prod(shape.tolist()) >= 2**63:
                raise InvalidArgumentError(f"Shape {shape.tolist()} would have more than 2**63 - 1 elements")
        batch = np.maximum(parts[2], parts[5])[:-1].tolist()
        if prod(batch) > _LARGEST:
            raise InvalidArgumentError(f"a batch of shape {batch} is too large")
        result = np.zeros(batch, np.float32)
        for place in hypotheses.keys() | truths.keys():
            if any(not 0 <= k < dim for k, dim in zip(place, batch, strict=True)):
                raise InternalError(f"indices {list(place)} are outside of the shape {batch}")
            result[place] = measured(hypotheses.get(place, ()), truths.get(place, ()))
        return result

    return compute


register(
    "EditDistance(hypothesis_indices:int64, hypothesis_values:T, hypothesis_shape:int64, truth_indices:int64, truth_values:T, "
    "truth_shape:int64) -> (output:float) [normalize:bool=true; T:type]",
    shape=_shape,
    kernel=_kernel,
    gradient=NOT_DIFFERENTIABLE,
    shape_operands=(2, 5),
)


def edit_distance(hypothesis: Any, truth: Any, normalize: bool = True, name: str = "edit_distance") -> Tensor:
    """Return the distances of sequences along the last dimension of SparseTensors, if `normalize` over truth's length.

    Raises:
        GraphTypeError: an argument is not a SparseTensor.
    """
    for what, value in (("Hypothesis", hypothesis), ("Truth", truth)):
        if not isinstance(value, SparseTensor):
            raise GraphTypeError(f"{what} must be a SparseTensor, got {value!r}")
    parts = [part for each in (hypothesis, truth) for part in (each.indices, each.values, each.dense_shape)]
    return apply_op("EditDistance", *parts, normalize=normalize, name=name)
