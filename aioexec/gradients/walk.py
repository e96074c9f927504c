"""The backward walk: calls the gradient rule of every operation between xs and ys, after those of all its consumers.

The index of a node is higher than those of its inputs. So one pass over decreasing indices visits every node after all its
consumers, unless there are loops: then a loop is visited as one unit, and its nodes in a walk of their own (`control_flow`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from aioexec import dtypes
from aioexec.dtypes import DType
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.gradients import control_flow
from aioexec.gradients.aggregation import Gradient, aggregate
from aioexec.gradients.contexts import Contexts
from aioexec.gradients.order import by_index, by_place
from aioexec.gradients.places import Frame
from aioexec.gradients.registration import rule_of
from aioexec.graph.apply import apply_op
from aioexec.graph.control_flow import while_context
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.kernels.kernel import Role
from aioexec.graph.node import BaseGraph, Operation, Tensor
from aioexec.graph.registry import NotDifferentiable
from aioexec.ops.control_flow.dependencies import tuple_

TAKE_SLICES = (Role.IDENTITY, Role.READ, *control_flow.ROLES)
"""Roles whose gradient rules accept IndexedSlices; others get dense tensors."""


def is_continuous(dtype: DType) -> bool:
    return dtype.base_dtype.is_floating or dtype.base_dtype.is_complex


def is_trainable(dtype: DType) -> bool:
    """Whether tensors of this dtype have gradients; a handle represents its variable."""
    return is_continuous(dtype) or dtype.base_dtype in (dtypes.resource, dtypes.variant)


class Walk:
    """One backward walk.

    Constant: `live`, the tensors that depend on a source (including the sources); `between`, the operations on paths from
    sources to targets; `contexts`, None if there is no control flow. Changing: `collected`, the gradients so far of each live
    tensor.
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
        self.collected: dict[Tensor, list[Gradient]] = {}
        scope = targets[0].graph.get_name_scope() if targets else ""
        self._scope = f"{scope}/" if scope else ""
        ancestors = _ancestors(targets)
        self.live = _dependent(sources, ancestors, stops)
        self.between = self._operations_between(targets, stops)
        self.contexts: Contexts | None = None
        if any(op.row.role in control_flow.ROLES for op in self.between):
            self.contexts = Contexts(targets[0].graph)
            places = self.contexts.places
            undifferentiated = control_flow.open_frames(places, targets, sources)
            self._orders = by_place(self.between, self.live, places, undifferentiated)
        else:
            self._orders = by_index(self.between)

    def _operations_between(self, targets: Sequence[Tensor], stops: set[Operation]) -> set[Operation]:
        found: set[Operation] = set()
        waiting = [tensor.op for tensor in targets if tensor in self.live]
        while waiting:
            op = waiting.pop()
            if op in found or op in stops or not _is_differentiable(op):
                continue
            producers = [tensor.op for tensor in op.inputs if tensor in self.live]
            if producers:
                found.add(op)
                waiting.extend(producers)
        return found

    def add(self, tensor: Tensor, gradient: Gradient | None) -> None:
        if gradient is not None and tensor in self.live:
            self.collected.setdefault(tensor, []).append(gradient)

    def total(self, tensor: Tensor) -> Gradient | None:
        """The sum of a tensor's gradients so far."""
        arrived = self.collected.get(tensor, [])
        if len(arrived) > 1:
            total = aggregate(arrived, self.method)
            self.collected[tensor] = arrived = [] if total is None else [total]
        return arrived[0] if arrived else None

    def run(self, loop: Frame | None = None) -> None:
        """Visit the operations between sources and targets, in a loop or outside of all."""
        for unit in self._orders.get(loop, ()):
            if isinstance(unit, Frame):
                control_flow.differentiate_loop(self, unit)
            elif unit.row.role in control_flow.ROLES:
                control_flow.differentiate(self, unit)
            else:
                self._differentiate(unit)

    def _differentiate(self, op: Operation) -> None:
        with self.at(op):
            arrived = [self.total(tensor) for tensor in op.outputs]
            if any(gradient is not None for gradient in arrived):
                self._apply_rule(
                    op, [self._or_zeros(*pair) for pair in zip(op.outputs, arrived, strict=True)]
                )

    @contextlib.contextmanager
    def at(self, op: Operation) -> Iterator[None]:
        """Make nodes of the block at the place of an operation."""
        if self.contexts is None:
            yield
            return
        with self.contexts.at(self.contexts.places.place(op)):
            yield

    def _or_zeros(self, tensor: Tensor, gradient: Gradient | None) -> Gradient | None:
        """Zeros for outputs without a gradient, so that rules need not handle None."""
        if gradient is not None or not is_continuous(tensor.dtype):
            return gradient
        if self.contexts is not None:
            return control_flow.zeros_for(tensor)
        return apply_op("ZerosLike", tensor, name="zeros_like")

    def _apply_rule(self, op: Operation, arrived: Sequence[Gradient | None]) -> None:
        """Call the rule of an operation."""
        rule = rule_of(op)
        assert not isinstance(rule, NotDifferentiable)
        with self.scope(op):
            if op.row.role not in TAKE_SLICES:
                arrived = [
                    convert_to_tensor(gradient) if isinstance(gradient, IndexedSlices) else gradient
                    for gradient in arrived
                ]
            result = rule(op, *arrived)
            found = list(result) if isinstance(result, list | tuple) else [result]
            if len(found) != len(op.inputs):
                raise GraphValueError(
                    f"gradient of {op.type} {op.name!r}: expected {len(op.inputs)} gradients, one for each input, "
                    f"got {len(found)}"
                )
            if self.gate and sum(gradient is not None for gradient in found) > 1:
                found = tuple_(found)
        for tensor, gradient in zip(op.inputs, found, strict=True):
            if gradient is not None and tensor in self.live:
                self.add(tensor, with_static_shape(op, tensor, gradient))

    @contextlib.contextmanager
    def scope(self, op: Operation) -> Iterator[None]:
        """Name new nodes after an operation, and colocate them with it if requested."""
        placed = op.graph.colocate_with(op) if self.colocate else contextlib.nullcontext()
        with self.named(op.graph, op.name), placed:
            yield

    @contextlib.contextmanager
    def named(self, graph: BaseGraph, name: str) -> Iterator[None]:
        """Put new nodes under a name scope, regardless of the current scope."""
        with graph.name_scope(self._scope), graph.name_scope(f"{name}_grad"):
            yield


def _is_differentiable(op: Operation) -> bool:
    """Whether gradients propagate through an operation; not through loops with back_prop=False."""
    if isinstance(rule_of(op), NotDifferentiable):
        return False
    loop = while_context(op._control_flow_context) if op.row.role is Role.EXIT else None
    return loop is None or loop.back_prop


def _ancestors(tensors: Sequence[Tensor]) -> set[Operation]:
    """The operations that these tensors depend on."""
    found = {tensor.op for tensor in tensors}
    waiting = list(found)
    while waiting:
        for tensor in waiting.pop().inputs:
            if tensor.op not in found:
                found.add(tensor.op)
                waiting.append(tensor.op)
    return found


def _dependent(sources: Sequence[Tensor], among: set[Operation], stops: set[Operation]) -> set[Tensor]:
    """The sources, and the tensors that depend on them, up to the stops."""
    found = set(sources)
    waiting = list(found)
    while waiting:
        for op in waiting.pop().consumers():
            if op in among and op not in stops and _is_differentiable(op):
                reached = [t for t in op.outputs if t not in found and is_trainable(t.dtype)]
                found.update(reached)
                waiting.extend(reached)
    return found


def with_static_shape(op: Operation, tensor: Tensor, gradient: Any) -> Gradient:
    """The gradient, with the static shape of the tensor merged in.

    Raises:
        GraphTypeError, GraphValueError: dtype or shape are not the tensor's.
    """
    found: Gradient = gradient
    if tensor.dtype.base_dtype in (dtypes.resource, dtypes.variant):
        return found
    if found.dtype.base_dtype != tensor.dtype.base_dtype:
        raise GraphTypeError(
            f"gradient of {op.type} {op.name!r} by {tensor.name!r}: expected {tensor.dtype.base_dtype.name}, "
            f"got {found.dtype.base_dtype.name}"
        )
    if isinstance(found, Tensor):
        try:
            found.set_shape(tensor.shape)
        except GraphValueError as error:
            raise GraphValueError(
                f"gradient of {op.type} {op.name!r} by {tensor.name!r}: expected shape {tensor.shape}, "
                f"got {found.shape}"
            ) from error
    return found
