"""gradients(ys, xs): the chain rule over the nodes between xs and ys, from the gradient rules of the op registry.

The nodes of a graph stand behind their inputs in the order of their indexes, so one walk from the last index to the first meets
every node after all its consumers: no counting, no recursion, linear in the nodes ys are computed from.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from aioexec import dtypes
from aioexec.dtypes import DType
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.gradients.aggregation import (
    AggregationMethod as AggregationMethod,
    Gradient,
    UnconnectedGradients as UnconnectedGradients,
    aggregate,
    checked_method,
)
from aioexec.graph.apply import apply_op, graph_of
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.kernel import Role
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import NotDifferentiable
from aioexec.ops.control import tuple_


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
    """The derivatives of the sum of `ys` by each of `xs`.

    Args:
        ys, xs: a tensor or variable, or a list of them.
        grad_ys: the gradient by each of `ys`, ones by default.
        colocate_gradients_with_ops: put the new nodes on the devices of those they belong to.
        gate_gradients: let the gradients by a node's inputs be used only when all of them are there.
        aggregation_method: see AggregationMethod.
        stop_gradients: tensors that count as constants.
        unconnected_gradients: what to return for an x that no y depends on: None, or zeros.

    Returns:
        A Tensor, IndexedSlices or None for each x.

    Raises:
        GraphTypeError, GraphValueError: arguments that do not fit.
        LookupError: an op on the way must not be differentiated.
    """
    method, unconnected = checked_method(aggregation_method), UnconnectedGradients(unconnected_gradients)
    ys, xs = _as_list(ys), _as_list(xs)
    with graph_of([*ys, *xs]).as_default() as graph, graph.name_scope(name):
        sources = [_differentiated(x) for x in xs]
        stops = {_differentiated(x).op for x in _as_list(stop_gradients)}
        targets = [convert_to_tensor(y) for y in ys]
        walk = Walk(targets, sources, stops, colocate_gradients_with_ops, gate_gradients, method)
        for y, gradient in zip(targets, _seeds(targets, _as_list(grad_ys)), strict=True):
            walk.add(y, gradient)
        walk.run()
        found: list[Any] = [walk.total(x) for x in sources]
        if unconnected is UnconnectedGradients.ZERO:
            for k, x in enumerate(xs):
                found[k] = apply_op("ZerosLike", convert_to_tensor(x)) if found[k] is None else found[k]
    return found


def is_trainable(dtype: DType) -> bool:
    """Whether gradients flow through tensors of this dtype; a handle stands for its variable."""
    return _is_continuous(dtype) or dtype.base_dtype in (dtypes.resource, dtypes.variant)


def _is_continuous(dtype: DType) -> bool:
    return dtype.base_dtype.is_floating or dtype.base_dtype.is_complex


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _differentiated(x: Any) -> Tensor:
    """The tensor whose gradient is meant: of a variable its handle or reference."""
    if isinstance(x, IndexedSlices):
        return x.values
    handle = getattr(x, "handle", None)
    return handle if isinstance(handle, Tensor) else convert_to_tensor(x, as_ref=True)


def _seeds(ys: Sequence[Tensor], given: list[Any]) -> list[Gradient | None]:
    """The gradient by each y, None where nothing can flow back from it."""
    if given and len(given) != len(ys):
        raise GraphValueError(f"gradients: expected {len(ys)} grad_ys, one for each of ys, got {len(given)}")
    return [
        _ones(y, k) if not given or given[k] is None else _given(y, given[k], k) for k, y in enumerate(ys)
    ]


def _ones(y: Tensor, k: int) -> Tensor | None:
    if y.dtype.base_dtype.is_complex:
        raise GraphTypeError(f"gradients of complex tensors must set grad_ys: {y!r} is complex")
    if not is_trainable(y.dtype):
        return None
    shape = apply_op("Shape", y)
    with y.graph.name_scope(f"grad_ys_{k}") as scope:
        ones: Tensor = apply_op("Fill", shape, constant(1, y.dtype.base_dtype), name=scope)
    return ones


def _given(y: Tensor, gradient: Any, k: int) -> Gradient:
    wanted = y.dtype.base_dtype
    if not isinstance(gradient, IndexedSlices):
        gradient = convert_to_tensor(gradient, name=f"grad_ys_{k}", preferred_dtype=wanted)
    if gradient.dtype.base_dtype != wanted:
        raise GraphTypeError(
            f"gradients: grad_ys[{k}] must be {wanted.name} as {y.name!r} is, got {gradient.dtype.base_dtype.name}"
        )
    found: Gradient = gradient
    return found


_TAKE_SLICES = (Role.IDENTITY, Role.READ)
"""Roles whose gradient rules hand on what they get; others get tensors."""


class Walk:
    """One backward walk.

    Constant: `live`, the tensors that depend on a source (the sources included); `between`, the operations whose gradient
    rule is asked, last first. Changing: `collected`, the gradients that have arrived at each live tensor.
    """

    def __init__(
        self,
        targets: Sequence[Tensor],
        sources: Sequence[Tensor],
        stops: set[Operation],
        colocate: bool,
        gate: bool,
        method: int,
    ) -> None:
        self.colocate = colocate
        self.gate = gate
        self.method = method
        self.live = set(sources)
        self.between = self._find(targets, stops)
        self.collected: dict[Tensor, list[Gradient]] = {}

    def _find(self, targets: Sequence[Tensor], stops: set[Operation]) -> list[Operation]:
        found = []
        for op in sorted(_ancestors(targets), key=lambda op: op.index):
            if op in stops or isinstance(op.row.gradient, NotDifferentiable):
                continue
            if any(tensor in self.live for tensor in op.inputs):
                self.live.update(tensor for tensor in op.outputs if is_trainable(tensor.dtype))
                found.append(op)
        return found[::-1]

    def add(self, tensor: Tensor, gradient: Gradient | None) -> None:
        if gradient is not None and tensor in self.live:
            self.collected.setdefault(tensor, []).append(gradient)

    def total(self, tensor: Tensor) -> Gradient | None:
        """The sum of what has arrived at a tensor."""
        arrived = self.collected.get(tensor, [])
        if len(arrived) > 1:
            total = aggregate(arrived, self.method)
            self.collected[tensor] = arrived = [] if total is None else [total]
        return arrived[0] if arrived else None

    def run(self) -> None:
        for op in self.between:
            arrived = [self.total(tensor) for tensor in op.outputs]
            if any(gradient is not None for gradient in arrived):
                self._differentiate(
                    op, [self._or_zeros(*pair) for pair in zip(op.outputs, arrived, strict=True)]
                )

    def _or_zeros(self, tensor: Tensor, gradient: Gradient | None) -> Gradient | None:
        """Zeros where nothing arrived at one of several outputs, so that rules need not look."""
        if gradient is not None or not _is_continuous(tensor.dtype):
            return gradient
        zeros: Tensor = apply_op("ZerosLike", tensor, name="zeros_like")
        return zeros

    def _differentiate(self, op: Operation, arrived: Sequence[Gradient | None]) -> None:
        rule = op.row.gradient
        assert not isinstance(rule, NotDifferentiable)
        placed = op.graph.colocate_with(op) if self.colocate else contextlib.nullcontext()
        with op.graph.name_scope(f"{op.name}_grad"), placed:
            if op.row.role not in _TAKE_SLICES:
                arrived = [
                    convert_to_tensor(gradient) if isinstance(gradient, IndexedSlices) else gradient
                    for gradient in arrived
                ]
            found = list(rule(op, *arrived))
            if len(found) != len(op.inputs):
                raise GraphValueError(
                    f"gradient of {op.type} {op.name!r}: expected {len(op.inputs)} gradients, one for each input, "
                    f"got {len(found)}"
                )
            if self.gate and sum(gradient is not None for gradient in found) > 1:
                found = tuple_(found)
        for tensor, gradient in zip(op.inputs, found, strict=True):
            if gradient is not None and tensor in self.live:
                self.add(tensor, _fitting(op, tensor, gradient))


def _ancestors(tensors: Sequence[Tensor]) -> set[Operation]:
    """The operations these tensors are computed by."""
    found = {tensor.op for tensor in tensors}
    waiting = list(found)
    while waiting:
        for tensor in waiting.pop().inputs:
            if tensor.op not in found:
                found.add(tensor.op)
                waiting.append(tensor.op)
    return found


def _fitting(op: Operation, tensor: Tensor, gradient: Any) -> Gradient:
    """The gradient, with what is known of the tensor's shape.

    Raises:
        GraphTypeError, GraphValueError: dtype or shape are not the tensor's.
    """
    if tensor.dtype.base_dtype in (dtypes.resource, dtypes.variant):
        found: Gradient = gradient
        return found
    if gradient.dtype.base_dtype != tensor.dtype.base_dtype:
        raise GraphTypeError(
            f"gradient of {op.type} {op.name!r} by {tensor.name!r}: expected {tensor.dtype.base_dtype.name}, "
            f"got {gradient.dtype.base_dtype.name}"
        )
    if isinstance(gradient, Tensor):
        try:
            gradient.set_shape(tensor.shape)
        except GraphValueError as error:
            raise GraphValueError(
                f"gradient of {op.type} {op.name!r} by {tensor.name!r}: expected shape {tensor.shape}, "
                f"got {gradient.shape}"
            ) from error
    fitting: Gradient = gradient
    return fitting
