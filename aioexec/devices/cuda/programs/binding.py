"""Binds the native form of an op to shapes for a GPU: float16 and bfloat16 too, which the CPU's programs leave to NumPy.

An elementwise row for float16 is that for float32 with strides of half the length, since the expression language computes in
every dtype. Copies, which know only the size of an element, become copies of 2 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from aioexec.graph.kernels.kernel import (
    Alias,
    Attrs,
    ElementwiseKernel,
    Launch,
    Launches,
    Operand,
    Spec,
)
from aioexec.graph.kernels.launches import View, c_strides, launch
from aioexec.graph.registry import Row

HALVES = frozenset({"float16", "bfloat16"})
_NARROW = {"int32": "int16", "uint32": "uint16"}


def bind(row: Row, attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | Alias | None:
    """Rows for these shapes; None if the op has no native form for them."""
    if row.name == "Cast":
        return bind_cast(inputs[0], outputs[0])
    assert row.native is not None
    found = row.native.bind(attrs, inputs, outputs)
    if found is None and any(spec.dtype.name in HALVES for spec in (*inputs, *outputs)):
        return bind_halves(row, attrs, inputs, outputs)
    return found


def bind_cast(source: Spec, target: Spec) -> Launches | None:
    """A conversion between any two dtypes of the expression language, the short floats included."""
    body = f"y = cast(x, {target.dtype.name!r})"
    kernel = ElementwiseKernel(body, (("x", source.dtype.name),), (("y", target.dtype.name),), "xx")
    if source.size == 0:
        return Launches(())
    words = (1, source.size, source.dtype.itemsize, target.dtype.itemsize)
    return Launches((Launch(kernel, (Operand("input", 0), Operand("output", 0)), words),))


def bind_halves(
    row: Row, attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launches | Alias | None:
    """Rows for short floats, from those for float32; None unless all are elementwise."""
    assert row.native is not None
    found = row.native.bind(attrs, [widened(spec) for spec in inputs], [widened(spec) for spec in outputs])
    specs = {"input": inputs, "state": inputs, "output": outputs}
    if isinstance(found, Alias):
        sources = zip(found.inputs, found.offsets, strict=True)
        return Alias(
            found.inputs,
            tuple(at // 2 if inputs[k].dtype.name in HALVES else at for k, at in sources),
        )
    if found is None or found.scratch:
        return None
    rows = []
    for each in found.rows:
        if not isinstance(each.kernel, ElementwiseKernel):
            return None
        kinds = [specs[operand.kind][operand.index].dtype.name for operand in each.operands]
        rows.append(narrowed(each, each.kernel, kinds))
    return Launches(tuple(rows))


def widened(spec: Spec) -> Spec:
    if spec.dtype.name not in HALVES:
        return spec
    value = None if spec.value is None else spec.value.astype(np.float32)
    return Spec(np.dtype(np.float32), spec.shape, value)


def narrowed(row: Launch, kernel: ElementwiseKernel, kinds: Sequence[str]) -> Launch:
    """A row for float32 as one for operands of the dtypes `kinds`, of which the short floats stood for float32."""
    rank = row.words[0]
    words = list(row.words)
    operands, types = [], []
    for k, (operand, kind) in enumerate(zip(row.operands, kinds, strict=True)):
        name, dtype = (*kernel.inputs, *kernel.outputs)[k]
        if kind in HALVES:
            for at in range(1 + rank * (k + 1), 1 + rank * (k + 2)):
                words[at] //= 2
            operand = replace(operand, offset=operand.offset // 2)
            dtype = kind if dtype == "float32" else _NARROW[dtype]
        operands.append(operand)
        types.append((name, dtype))
    count = len(kernel.inputs)
    narrow = ElementwiseKernel(kernel.body, tuple(types[:count]), tuple(types[count:]), kernel.pattern)
    return Launch(narrow, tuple(operands), tuple(words))


def copy_row(source: Operand, target: Operand, nbytes: int) -> Launch:
    """A copy of memory; the number of bytes is not 0."""
    itemsize = next(size for size in (8, 4, 2, 1) if (nbytes | source.offset | target.offset) % size == 0)
    kind = {8: "int64", 4: "int32", 2: "int16", 1: "int8"}[itemsize]
    strides = c_strides((nbytes // itemsize,), itemsize)
    row = launch(
        "y = x",
        [("x", View(source, kind, strides))],
        [("y", View(target, kind, strides))],
        (nbytes // itemsize,),
    )
    assert row is not None
    return row
