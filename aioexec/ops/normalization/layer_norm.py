"""Layer normalisation as one op, which planning substitutes for its elementary operations; clients never add it."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.graph.kernels.kernel import (
    Attrs,
    Compute,
    KernelContext,
    Launches,
    LoopKernel,
    Native,
    Operand,
    Spec,
)
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.ops.common.elementwise import FLOATS
from aioexec.ops.common.shares import Scratch, Work
from aioexec.ops.normalization.layer_norm_loops import normalize_layer
from aioexec.shapes import Dims

Array = np.ndarray[Any, Any]

ELEMENT_NS, ROW_NS = 0.35, 10
"""Nanoseconds for each element and row, in the caches."""


def normalized_dims(context: ShapeContext) -> Sequence[Dims]:
    return [functools.reduce(shapes.broadcast, context.inputs)]


def layer_norm_kernel(context: KernelContext) -> Compute:
    epsilon = context.attrs["epsilon"]

    def compute(*inputs: Array) -> Array:
        *terms, scale, shift = inputs
        x = functools.reduce(operator.add, terms)
        centred = x - np.mean(x, axis=-1, keepdims=True)
        variance = np.mean(np.square(centred), axis=-1, keepdims=True)
        factor = 1 / np.sqrt(variance + x.dtype.type(epsilon))
        return np.asarray(centred * (factor * scale) + shift)

    return compute


def bind_layer_norm(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    """Bind one kernel if all terms have the shape of the output, and scale and shift are vectors."""
    *terms, scale, shift = inputs
    out = outputs[0]
    if out.dtype.name not in FLOATS or not out.shape or len(terms) > 2:
        return None
    if any(term.shape != out.shape for term in terms) or not scale.shape == shift.shape == out.shape[-1:]:
        return None
    if out.size == 0:
        return Launches(())
    n, name, size = out.shape[-1], out.dtype.name, out.dtype.itemsize
    rows, last = out.size // n, len(terms) - 1
    places = (0, last, last + 1, last + 2)
    work = Work(
        LoopKernel(normalize_layer, (name,) * 6, 3, 1),
        (*(Operand("input", k) for k in places), Operand("output", 0)),
        (rows, n, last),
        (n * size, n * size, 0, 0, n * size),
        int(rows * (ROW_NS + ELEMENT_NS * n)),
        scratch=(Scratch(0, size),),
        reals=(float(attrs["epsilon"]),),
    )
    return Launches(*work.cut())  # not in place: vector code is for memory that does not overlap


register(
    "_LayerNorm(terms:N*T, scale:T, shift:T) -> (output:T) [T:type{float|double}; N:int>=1; epsilon:float]",
    shape=normalized_dims,
    kernel=layer_norm_kernel,
    native=Native(bind_layer_norm, FLOATS),
    gradient=NOT_DIFFERENTIABLE,
)
