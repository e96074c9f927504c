"""Bitcast: reinterprets the bytes of a tensor as another dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.kernels.kernel import Alias, Attrs, Compute, KernelContext, Native, Spec
from aioexec.graph.node import Tensor
from aioexec.graph.registry import ShapeContext, register, undefined_gradient
from aioexec.ops.array.arrays import run_time
from aioexec.ops.common.elementwise import Array
from aioexec.shapes import Dims

_TYPES = (
    "bfloat16|half|float|double|int64|int32|uint8|uint16|uint32|uint64|int8|int16|complex64|complex128|"
    "qint8|quint8|qint16|quint16|qint32"
)


def _dims(dims: Dims, held: int, wanted: int) -> Dims:
    """Return the shape: narrower elements add a last dimension, wider ones remove it.

    Raises:
        GraphValueError: the last dimension does not have the bytes of one wider element.
    """
    if dims is None or held == wanted:
        return dims
    if held > wanted:
        return (*dims, held // wanted)
    if not dims or dims[-1] not in (None, wanted // held):
        raise GraphValueError(
            f"Cannot bitcast elements of {held} bytes to {wanted}: expected a last dimension of {wanted // held}, "
            f"got shape {dims}"
        )
    return dims[:-1]


def _shape(context: ShapeContext) -> Sequence[Dims]:
    return [_dims(context.inputs[0], context.attrs["T"].size, context.attrs["type"].size)]


def _kernel(context: KernelContext) -> Compute:
    held, wanted = context.attrs["T"], context.attrs["type"]

    @run_time
    def compute(x: Array) -> Array:
        shape = _dims(x.shape, held.size, wanted.size) or ()
        return np.frombuffer(x.tobytes(), wanted.numpy).reshape(shape)

    return compute


def _bind(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Alias:
    return Alias((0,), (0,))


register(
    f"Bitcast(input:T) -> (output:type) [T:type{{{_TYPES}}}; type:type{{{_TYPES}}}]",
    shape=_shape,
    kernel=_kernel,
    gradient=undefined_gradient,
    native=Native(_bind),
)


def bitcast(input: Any, type: Any, name: str | None = None) -> Tensor:
    """Reinterpret the bytes of `input` as `type`; a narrower dtype adds a last dimension, a wider one removes it."""
    return apply_op("Bitcast", input, type=dtypes.as_dtype(type), name=name)
