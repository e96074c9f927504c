"""The program of attention: scores by one product, their softmax by rows, and the weighted values by another product."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aioexec.devices.cuda.programs.normalizing import Rows
from aioexec.devices.cuda.programs.products import Axis, Contraction, contract
from aioexec.devices.cuda.programs.program import Binder, Program, full, wide
from aioexec.graph.kernels.kernel import Attrs, Operand, Spec
from aioexec.graph.kernels.launches import View, broadcast_strides, c_strides

Shape = tuple[int, ...]
ORDERS = ("query_order", "key_order", "value_order")


def permuted(spec: Spec, order: Sequence[int]) -> tuple[Shape, Shape]:
    """The shape and the strides of an array whose axes are permuted."""
    strides = c_strides(spec.shape, spec.dtype.itemsize)
    return tuple(spec.shape[axis] for axis in order), tuple(strides[axis] for axis in order)


def batches(lead: Shape, *operands: tuple[Shape, Shape]) -> tuple[Axis, ...]:
    """The dimensions before the last two, with the strides of operands that are broadcast to them."""
    return tuple(
        (dim, *(0 if shape[k] == 1 and dim != 1 else strides[k] for shape, strides in operands))
        for k, dim in enumerate(lead)
    )


def bind_attention(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Program:
    """softmax(query key^T scale + mask) value, for each image and head."""
    out, program = outputs[0], Program()
    dtype = out.dtype.name
    kind = wide(dtype)
    query, key, value = (permuted(spec, attrs[order]) for spec, order in zip(inputs, ORDERS, strict=False))
    lead = np.broadcast_shapes(query[0][:-2], key[0][:-2])
    rows, columns, depth = query[0][-2], key[0][-2], query[0][-1]
    shape = (*lead, rows, columns)
    scores = program.space(kind, shape)
    contract(
        program,
        Contraction(
            (Operand("input", 0), dtype),
            (Operand("input", 1), dtype),
            (scores.operand, kind),
            batches(lead, query, key, (shape, scores.strides)),
            ((rows, query[1][-2], scores.strides[-2]),),
            ((columns, key[1][-2], scores.strides[-1]),),
            ((depth, query[1][-1], key[1][-1]),),
        ),
    )
    masks = [
        ("m", View(Operand("input", 3), dtype, broadcast_strides(mask.shape, mask.dtype.itemsize, shape)))
        for mask in inputs[len(ORDERS) :]
    ]
    sign = "-" if attrs["subtracts"] else "+"
    masked = f" {sign} cast(m, {kind!r})" if masks else ""
    program.elementwise(
        f"y = s * {float(np.dtype(kind).type(attrs['scale']))!r}{masked}",
        [("s", scores), *masks],
        [("y", scores)],
        shape,
    )
    flat = (int(np.prod(shape[:-1])), columns)
    matrix = full(scores.operand, kind, flat)
    Rows(program, matrix, flat).each("exp(e) / s", matrix)
    order = np.argsort(attrs["output_order"])
    result = permuted(out, [int(axis) for axis in order])
    whole = result[0][:-2]
    weights = (shape, scores.strides)
    contract(
        program,
        Contraction(
            (scores.operand, kind),
            (Operand("input", 2), dtype),
            (Operand("output", 0), dtype),
            batches(whole, weights, value, result),
            ((rows, scores.strides[-2], result[1][-2]),),
            ((value[0][-1], value[1][-1], result[1][-1]),),
            ((columns, scores.strides[-1], value[1][-2]),),
        ),
    )
    return program


BINDERS: dict[str, Binder] = {"_Attention": bind_attention}
