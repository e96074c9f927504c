"""gradients(ys, xs): the chain rule over the nodes between xs and ys, from the gradient rules of the op registry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.gradients.aggregation import (
    AggregationMethod as AggregationMethod,
    Gradient,
    UnconnectedGradients as UnconnectedGradients,
    check_method,
)
from aioexec.gradients.walk import Walk, is_trainable
from aioexec.graph.apply import apply_op, graph_of
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.node import Tensor


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: int | None = None,
    stop_gradients: Any = None,
    unconnected_gradients: UnconnectedGradients | str = UnconnectedGradients.NONE,
) -> list[Any]:
    """The derivatives of the sum of `ys` with respect to each of `xs`.

    Args:
        ys, xs: a tensor or variable, or a list of them.
        grad_ys: the gradient with respect to each of `ys`, ones by default.
        colocate_gradients_with_ops: place the new nodes on the devices of the differentiated ones.
        gate_gradients: make the gradients of a node's inputs available only when all of them are computed.
        aggregation_method: see AggregationMethod.
        stop_gradients: tensors that count as constants.
        unconnected_gradients: the result for an x that no y depends on: None, or zeros.

    Returns:
        A Tensor, IndexedSlices or None for each x.

    Raises:
        GraphTypeError, GraphValueError: invalid arguments.
        LookupError: an op on a path from xs to ys has no gradient.
    """
    method, unconnected = check_method(aggregation_method), UnconnectedGradients(unconnected_gradients)
    ys, xs = _as_list(ys), _as_list(xs)
    with graph_of([*ys, *xs]).as_default() as graph, graph.name_scope(name):
        sources = [_differentiated(x) for x in xs]
        stops = {_differentiated(x).op for x in _as_list(stop_gradients)}
        targets = [convert_to_tensor(y) for y in ys]
        walk = Walk(targets, sources, stops, colocate_gradients_with_ops, gate_gradients, method)
        for y, gradient in zip(targets, _seeds(targets, _as_list(grad_ys)), strict=True):
            walk.add(y, gradient)
        walk.run()
        return _fill_with_zeros([walk.total(x) for x in sources], xs, unconnected)


def _fill_with_zeros(gradients: list[Any], xs: list[Any], unconnected: UnconnectedGradients) -> list[Any]:
    """Replace gradients that are None by zeros, if requested."""
    if unconnected is UnconnectedGradients.NONE:
        return gradients
    pairs = zip(gradients, xs, strict=True)
    return [_zeros_like(x) if each is None else each for each, x in pairs]


def _zeros_like(x: Any) -> Tensor:
    """Zeros of the shape of a tensor, or of the variable behind a handle."""
    tensor = convert_to_tensor(x)
    if tensor.op.type == "VarHandleOp":
        tensor = apply_op("ReadVariableOp", tensor, dtype=tensor.op.attrs["dtype"])
    return apply_op("ZerosLike", tensor)


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _differentiated(x: Any) -> Tensor:
    """The tensor to differentiate by: for a variable its handle or reference."""
    if isinstance(x, IndexedSlices):
        return x.values
    handle = getattr(x, "handle", None)
    return handle if isinstance(handle, Tensor) else convert_to_tensor(x, as_ref=True)


def _seeds(ys: Sequence[Tensor], given: list[Any]) -> list[Gradient | None]:
    """The gradient with respect to each y, None if it is not differentiable."""
    if given and len(given) != len(ys):
        raise GraphValueError(f"gradients: expected {len(ys)} grad_ys, one for each of ys, got {len(given)}")
    return [
        _ones(y, k) if not given or given[k] is None else _convert_gradient(y, given[k], k)
        for k, y in enumerate(ys)
    ]


def _ones(y: Tensor, k: int) -> Tensor | None:
    if y.dtype.base_dtype.is_complex:
        raise GraphTypeError(f"gradients of complex tensors must set grad_ys: {y!r} is complex")
    if not is_trainable(y.dtype):
        return None
    shape = apply_op("Shape", y)
    with y.graph.name_scope(f"grad_ys_{k}") as scope:
        return apply_op("Fill", shape, constant(1, y.dtype.base_dtype), name=scope)


def _convert_gradient(y: Tensor, gradient: Any, k: int) -> Gradient:
    wanted = y.dtype.base_dtype
    if not isinstance(gradient, IndexedSlices):
        gradient = convert_to_tensor(gradient, name=f"grad_ys_{k}", preferred_dtype=wanted)
    if gradient.dtype.base_dtype != wanted:
        raise GraphTypeError(
            f"gradients: grad_ys[{k}] must be {wanted.name} as {y.name!r} is, got {gradient.dtype.base_dtype.name}"
        )
    found: Gradient = gradient
    return found
