"""Attention as one op, which planning substitutes for its elementary operations; clients never add it.

Its operands may be [batch, position, head, depth], as products yield them: the permutations to heads are attributes, and the
kernel reads and writes through strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.data_classes import dataclass
from aioexec.errors import GraphValueError, InvalidArgumentError
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
from aioexec.graph.kernels.launches import broadcast_strides, c_strides
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.ops.common.elementwise import FLOATS
from aioexec.ops.common.shares import Scratch, Work
from aioexec.ops.linalg.products import multiply
from aioexec.ops.nn.attention_loops import ADDED, NO_MASK, SUBTRACTED, attend
from aioexec.ops.nn.softmax import softmax_values
from aioexec.ops.nn.softmax_loops import TILE
from aioexec.shapes import Dims

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

SCORE_BYTES = 2**17
"""Bytes of a block of scores: less than the second-level cache, which also holds the keys and values of a head."""
LEAST_ROWS = 24
"""Rows of a block, however long they are: each block reads all keys and values."""
MOST_IMAGES = 8
"""Images up to which each has launches of its own, whose heads are shared by workers; of more, images are shared."""
PRODUCT_NS, SCORE_NS, LOAD_NS = 0.005, 0.6, 0.06
"""Nanoseconds of a multiply-add per byte of an element, of the mask and exponential of a score, and to load a byte of keys and
values from the L3 cache: most of the time with few queries."""
ORDERS = ("query_order", "key_order", "value_order")


def permuted(dims: Dims, order: Sequence[int]) -> Dims:
    if dims is None:
        return None
    if len(dims) != len(order):
        raise GraphValueError(f"expected {len(order)} dimensions, got {dims}")
    return tuple(dims[axis] for axis in order)


def attention_dims(context: ShapeContext) -> Sequence[Dims]:
    rank = len(context.attrs["output_order"])
    for name in (*ORDERS, "output_order"):
        if sorted(context.attrs[name]) != list(range(rank)):
            raise GraphValueError(f"{name} must permute {rank} axes, got {context.attrs[name]}")
    query, key, value = (
        permuted(dims, context.attrs[order])
        for dims, order in zip(context.inputs[: len(ORDERS)], ORDERS, strict=True)
    )
    if query is None or key is None or value is None:
        return [None]
    shapes.merge(query[-1:], key[-1:])
    scores: Dims = shapes.concatenate(shapes.broadcast(query[:-2], key[:-2]), (query[-2], key[-2]))
    for mask in context.inputs[len(ORDERS) :]:
        scores = shapes.broadcast(scores, mask)
    if scores is None:
        return [None]
    shapes.merge(scores[-1:], value[-2:-1])
    batch = shapes.broadcast(scores[:-2], value[:-2])
    return [permuted(shapes.concatenate(batch, (scores[-2], value[-1])), context.attrs["output_order"])]


def attention_kernel(context: KernelContext) -> Compute:
    attrs = context.attrs
    orders = [tuple(attrs[name]) for name in ORDERS]

    def compute(*inputs: Array) -> Array:
        for k, order in enumerate(orders):
            if inputs[k].ndim != len(order):
                raise InvalidArgumentError(
                    f"input {k} must have {len(order)} dimensions, its shape is {list(inputs[k].shape)}"
                )
        query, key, value = (np.transpose(x, order) for x, order in zip(inputs, orders, strict=False))
        if query.shape[-1] != key.shape[-1]:
            raise InvalidArgumentError(
                f"queries and keys must have the same depth, got {query.shape[-1]} and {key.shape[-1]}"
            )
        scores = multiply(query, np.swapaxes(key, -1, -2)) * query.dtype.type(attrs["scale"])
        for mask in inputs[len(ORDERS) :]:
            scores = scores - mask if attrs["subtracts"] else scores + mask
        if scores.shape[-1] != value.shape[-2]:
            raise InvalidArgumentError(
                f"there must be as many values as scores, got {value.shape[-2]} and {scores.shape[-1]}"
            )
        result = multiply(softmax_values(scores), value)
        return np.ascontiguousarray(np.transpose(result, attrs["output_order"]))

    return compute


def attention_work(attrs: Attrs, inputs: Sequence[Any]) -> float:
    """Return an estimate of the nanoseconds of the reference kernel: two products, and passes over the scores."""
    query, key, value = inputs[: len(ORDERS)]
    columns = key.shape[attrs["key_order"][-2]]
    scores = query.size // max(query.shape[attrs["query_order"][-1]], 1) * columns
    depths = query.shape[attrs["query_order"][-1]] + value.shape[attrs["value_order"][-1]]
    return float(scores * (1.5 * depths + 40.0))


# Native form


@dataclass(frozen=True, slots=True)
class Heads:
    """An operand as [images, heads, rows, columns]: dimensions, and strides in elements."""

    shape: Shape
    strides: Shape


def heads_of(shape: Shape, order: Sequence[int]) -> Heads:
    """View an array whose axes are permuted by `order`; without an axis for images there is one image."""
    strides = c_strides(shape, 1)
    missing = 4 - len(order)
    return Heads(
        (1,) * missing + tuple(shape[axis] for axis in order),
        (0,) * missing + tuple(strides[axis] for axis in order),
    )


def inverse(order: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(axis) for axis in np.argsort(order))


def mask_strides(masks: Sequence[Spec], scores: Shape) -> Shape | None:
    """Return the strides in elements by which the mask broadcasts to the scores; None if it does not."""
    if not masks:
        return (0, 0, 0, 0)
    shape = (1,) * (4 - len(masks[0].shape)) + masks[0].shape
    if len(shape) != 4 or any(dim not in (1, wide) for dim, wide in zip(shape, scores, strict=True)):
        return None
    return broadcast_strides(shape, 1, scores)


def bind_attention(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    """Bind one kernel for each image, or for all, if batch dimensions are equal, at most two, and rows are contiguous."""
    rank = len(attrs["output_order"])
    if inputs[0].dtype.name not in FLOATS or rank not in (3, 4):
        return None
    if outputs[0].size == 0:
        return Launches(())
    query, key, value = (
        heads_of(spec.shape, attrs[order]) for spec, order in zip(inputs, ORDERS, strict=False)
    )
    output = heads_of(outputs[0].shape, inverse(attrs["output_order"]))
    masks = mask_strides(inputs[len(ORDERS) :], (*query.shape[:3], key.shape[2]))
    if not query.shape[:2] == key.shape[:2] == value.shape[:2] == output.shape[:2] or 0 in key.shape:
        return None
    if masks is None or not is_contiguous(query, key, value, output) or len(inputs) > len(ORDERS) + 1:
        return None
    return launches_of(attrs, inputs, query, key, value, masks, output)


def is_contiguous(query: Heads, key: Heads, value: Heads, output: Heads) -> bool:
    """Return whether products can read and write these operands: elements of a row (or, of keys, a column) are adjacent."""
    adjacent = all(each.strides[3] == 1 for each in (query, value, output))
    return adjacent and 1 in key.strides[2:]


def launches_of(
    attrs: Attrs,
    inputs: Sequence[Spec],
    query: Heads,
    key: Heads,
    value: Heads,
    masks: Shape,
    output: Heads,
) -> Launches:
    spec, (images, heads, rows, depth), columns = inputs[0], query.shape, key.shape[2]
    name, size = spec.dtype.name, spec.dtype.itemsize
    block = min(rows, max(SCORE_BYTES // (columns * size), LEAST_ROWS))
    turned = key.strides[3] != 1
    masking = NO_MASK if len(inputs) == len(ORDERS) else SUBTRACTED if attrs["subtracts"] else ADDED
    key_strides = (*key.strides[:2], key.strides[3 if turned else 2])
    strides = (*query.strides[:3], *key_strides, int(turned), *value.strides[:3], *masks, *output.strides[:3])
    sizes = (rows, columns, depth, value.shape[3], block, masking)
    kernel = LoopKernel(attend, (name,) * 7, 8 + len(strides), 1)
    operands = (
        *(Operand("input", k) for k in range(len(ORDERS))),
        mask_operand(inputs),
        Operand("output", 0),
    )
    steps = [
        tuple(
            each[axis] * size for each in (query.strides, key.strides, value.strides, masks, output.strides)
        )
        for axis in range(2)
    ]
    terms = columns * (depth + value.shape[3])
    cost = int(heads * (rows * (PRODUCT_NS * size * terms + SCORE_NS * columns) + LOAD_NS * size * terms))
    scratch = (Scratch(0, block * columns * size), Scratch(1, (block + TILE) * size))
    by_heads = images <= MOST_IMAGES
    found = [
        Work(
            kernel,
            tuple(
                replace(operand, offset=image * step)
                for operand, step in zip(operands, steps[0], strict=True)
            ),
            (1 if by_heads else images, heads, *sizes, *strides),
            steps[1 if by_heads else 0],
            cost if by_heads else cost * images,
            unit=1 if by_heads else 0,
            scratch=scratch,
            reals=(float(attrs["scale"]),),
        ).cut()
        for image in range(images if by_heads else 1)
    ]
    return Launches(tuple(row for rows_of_image, _ in found for row in rows_of_image), scratch=found[0][1])


def mask_operand(inputs: Sequence[Spec]) -> Operand:
    """The mask; without one a placeholder, which is not read."""
    return Operand("input", len(ORDERS) if len(inputs) > len(ORDERS) else 0)


register(
    "_Attention(query:T, key:T, value:T, masks:N*T) -> (output:T) "
    "[T:type{float|double}; N:int>=0; scale:float=1; subtracts:bool=false; query_order:list(int); "
    "key_order:list(int); value_order:list(int); output_order:list(int)]",
    shape=attention_dims,
    kernel=attention_kernel,
    native=Native(bind_attention, FLOATS),
    gradient=NOT_DIFFERENTIABLE,
    work=attention_work,
)
