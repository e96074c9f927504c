"""Folds scales and shifts of channels, such as batch normalisation with constant statistics, into the operation before them.

A convolution, depthwise convolution or matrix product with a constant filter w, followed by operations that together map each
output channel y to y s + t, becomes one with the filter w s, and an addition of the bias t:

    conv(x, w) s + t  =  conv(x, w s) + t

The operations are additions, subtractions, products and quotients with constant scalars or vectors along the channels, and
`FusedBatchNorm` (also V2 and V3) with `is_training=False` and constant operands, for which s = scale / sqrt(variance + epsilon)
and t = offset - mean s. At least one of them scales; a bias alone stays as it is.

Results differ from those of the operations one after another by rounding: s, t and w s are computed in float64 and rounded
once. That is within a few units in the last place of the largest term of the sum.

A value that is fetched, or has other uses, is still computed: nothing behind it is folded. Neither is anything across control
edges or devices, nor if w s or t is not finite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.graph.node import Operation
from aioexec.planning.rewriting.replacement import Rewriting
from aioexec.planning.rewriting.uses import Uses
from aioexec.planning.simplify import LARGEST_FOLDED
from aioexec.planning.subgraph import Bind, Node, Subgraph, Value, known_value

_FLOATS: Final = ("float32", "float64")
_BATCH_NORMS: Final = frozenset({"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"})
_EACH_BY_CONSTANT: Final = frozenset({"Add", "AddV2", "Sub", "Mul", "RealDiv"})
_COMMUTATIVE: Final = frozenset({"Add", "AddV2", "Mul"})


@dataclass(frozen=True, slots=True)
class _Linear:
    """An operation that is linear in its constant filter.

    Attributes:
        rank: of the output; `axis`: the dimension of its channels.
        data_format: "NHWC" or "NCHW".
        broadcast: the shape in which a vector along the channels multiplies the filter.
    """

    node: Node
    filter: Value
    rank: int
    axis: int
    data_format: str
    broadcast: tuple[int, ...]

    @property
    def channels(self) -> int:
        return int(np.prod(self.broadcast))


@dataclass(frozen=True, slots=True)
class _Affine:
    """y s + t for each channel, in float64; `scales` is whether s may differ from 1, `shifts` whether t may differ from 0."""

    s: Value
    t: Value
    scales: bool = True
    shifts: bool = True

    def then(self, other: _Affine) -> _Affine:
        return _Affine(
            self.s * other.s,
            self.t * other.s + other.t,
            self.scales or other.scales,
            self.shifts or other.shifts,
        )


@dataclass(frozen=True, slots=True)
class _Folded:
    """A filter that was folded: from which one, by which scales, and the result."""

    source: Value
    s: Value
    filter: Value


_folded: Final[WeakKeyDictionary[Operation, _Folded]] = WeakKeyDictionary()
"""The last folded filter of a linear operation: signatures and sessions of a graph share its memory."""


def fold_channel_scales(graph: Subgraph, bind: Bind) -> None:
    """Fold scales and shifts of channels into the convolutions and products before them."""
    rewriting = Rewriting(graph)
    for node in graph.nodes:
        linear = _linear_of(node)
        chain = [] if linear is None else list(_chain(linear, rewriting.uses))
        if linear is not None and any(affine.scales for _, affine in chain):
            rewriting.attempt(_fold, linear, chain)
    rewriting.apply()


def _linear_of(node: Node) -> _Linear | None:
    """A node as a linear operation with a constant filter, if it is one."""
    if not node.computes(*_LINEAR):
        return None
    filter = known_value(node.inputs[1])
    if filter is None or filter.dtype.name not in _FLOATS or not 0 < filter.nbytes <= LARGEST_FOLDED:
        return None
    return _LINEAR[node.row.name](node, filter)


def _conv(node: Node, filter: Value) -> _Linear | None:
    order = node.op.attrs["data_format"]
    if filter.ndim != 4:
        return None
    broadcast = (1, 1, 1, filter.shape[3]) if node.row.name == "Conv2D" else (1, 1, *filter.shape[2:])
    return _Linear(node, filter, 4, order.index("C"), order, broadcast)


def _product(node: Node, filter: Value) -> _Linear | None:
    if filter.ndim != 2:
        return None
    broadcast = (filter.shape[0], 1) if node.op.attrs["transpose_b"] else (1, filter.shape[1])
    return _Linear(node, filter, 2, 1, "NHWC", broadcast)


_LINEAR: Final[dict[str, Callable[[Node, Value], _Linear | None]]] = {
    "Conv2D": _conv,
    "DepthwiseConv2dNative": _conv,
    "MatMul": _product,
}


def _chain(linear: _Linear, uses: Uses) -> Iterator[tuple[Node, _Affine]]:
    """The operations behind a linear one that can be folded into it."""
    node = linear.node
    while (following := uses.only_user(node)) is not None:
        if following.controls or following.device != linear.node.device:
            return
        affine = _affine_of(following, node, linear)
        if affine is None or uses.has_other_outputs(following):
            return
        yield following, affine
        node = following


def _affine_of(node: Node, value: Node, linear: _Linear) -> _Affine | None:
    """What an operation does to each channel of `value`, if it scales or shifts it by constants."""
    name = node.row.name
    if name in _BATCH_NORMS:
        return _batch_norm(node, value, linear)
    if name == "BiasAdd":
        if node.inputs[0][0] is not value or node.op.attrs["data_format"] != linear.data_format:
            return None
        return _shift(_vector(known_value(node.inputs[1]), linear))
    if name not in _EACH_BY_CONSTANT:
        return None
    first, second = (known_value(edge) for edge in node.inputs)
    operand = second if node.inputs[0][0] is value else first if name in _COMMUTATIVE else None
    vector = _broadcast(operand, linear)
    if vector is None or name in ("Add", "AddV2"):
        return _shift(vector)
    if name == "Sub":
        return _shift(-vector)
    with np.errstate(all="ignore"):
        return _scale(vector if name == "Mul" else 1 / vector)


def _shift(vector: Value | None) -> _Affine | None:
    return None if vector is None else _Affine(np.ones_like(vector), vector, scales=False)


def _scale(vector: Value) -> _Affine:
    return _Affine(vector, np.zeros_like(vector), shifts=False)


def _batch_norm(node: Node, value: Node, linear: _Linear) -> _Affine | None:
    attrs = node.op.attrs
    if attrs["is_training"] or attrs["data_format"] != linear.data_format or linear.rank != 4:
        return None
    scale, offset, mean, variance = (_vector(known_value(edge), linear) for edge in node.inputs[1:5])
    if scale is None or offset is None or mean is None or variance is None:
        return None
    with np.errstate(all="ignore"):
        s = scale / np.sqrt(variance + np.float64(np.float32(attrs["epsilon"])))
        return _Affine(s, offset - mean * s)


def _vector(value: Value | None, linear: _Linear) -> Value | None:
    """A constant vector with an element for each channel; None for anything else."""
    return None if value is None or value.shape != (linear.channels,) else value.astype(np.float64)


def _broadcast(value: Value | None, linear: _Linear) -> Value | None:
    """A constant that broadcasts to the output along the channels only, as a vector; None for anything else."""
    if value is None or value.ndim > linear.rank:
        return None
    dims = (1,) * (linear.rank - value.ndim) + value.shape
    if any(dim != 1 for k, dim in enumerate(dims) if k != linear.axis):
        return None
    if dims[linear.axis] not in (1, linear.channels):
        return None
    return np.broadcast_to(value.reshape(-1), linear.channels).astype(np.float64)


def _fold(rewriting: Rewriting, linear: _Linear, chain: list[tuple[Node, _Affine]]) -> None:
    """Give a linear operation the folded filter, and replace the chain behind it by at most an addition of a bias."""
    node, folded = linear.node, [each for each, _ in chain]
    with np.errstate(all="ignore"):
        affine = reduce(_Affine.then, (each for _, each in chain))
        filter, bias = _scaled(linear, affine.s), affine.t.astype(linear.filter.dtype)
    if not (np.isfinite(filter).all() and np.isfinite(bias).all()):
        return
    last = folded[-1]
    scaled = [node.inputs[0], rewriting.constant(filter, node, "/folded")]
    if affine.shifts:
        inputs = [(node, 0), rewriting.constant(bias, last, "/folded")]
        added = rewriting.make("BiasAdd", last, inputs, data_format=linear.data_format)
        node.inputs = scaled
        rewriting.replace(folded, [(last, 0)], added)
    else:
        node.inputs = scaled
        rewriting.replace([node, *folded], [(last, 0)], node)


def _scaled(linear: _Linear, s: Value) -> Value:
    """The filter times s; the same array as for another plan of the same graph."""
    known = _folded.get(linear.node.op)
    if known is not None and known.source is linear.filter and np.array_equal(known.s, s):
        return known.filter
    product = linear.filter * s.reshape(linear.broadcast)
    folded = _Folded(linear.filter, s, product.astype(linear.filter.dtype))
    _folded[linear.node.op] = folded
    return folded.filter
