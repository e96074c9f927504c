"""The backward walk: every operation between xs and ys asks its gradient rule, after all that use its outputs.

The nodes of a graph stand behind their inputs in the order of their indexes. So one walk from the last index to the first meets
every node after all its consumers, unless there are loops: then a loop counts as one node, and the walk goes through its
nodes in a walk of its own (`control_flow`).
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
from aioexec.gradients.order import by_index, by_structure
from aioexec.gradients.registration import rule_of
from aioexec.gradients.structure import Frame
from aioexec.graph.apply import apply_op
from aioexec.graph.control_flow import while_context
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.kernels.kernel import Role
from aioexec.graph.node import BaseGraph, Operation, Tensor
from aioexec.graph.registry import NotDifferentiable
from aioexec.ops.control_flow.dependencies import tuple_

TAKE_SLICES = (Role.IDENTITY, Role.READ, *control_flow.ROLES)
"""Roles whose gradient rules hand on what they get; others get tensors."""


def is_continuous(dtype: DType) -> bool:
    return dtype.base_dtype.is_floating or dtype.base_dtype.is_complex


def is_trainable(dtype: DType) -> bool:
    """Whether gradients flow through tensors of this dtype; a handle stands for its variable."""
    return is_continuous(dtype) or dtype.base_dtype in (dtypes.resource, dtypes.variant)


class Walk:
    """One backward walk.

    Constant: `live`, the tensors that depend on a source (the sources included); `between`, the operations on the way from the
    targets to sources; `contexts`, None where there is no control flow. Changing: `collected`, the gradients that have arrived
    at each live tensor.
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
        self.between = self._on_the_way(targets, stops)
        self.contexts: Contexts | None = None
        if any(op.row.role in control_flow.ROLES for op in self.between):
            self.contexts = Contexts(targets[0].graph)
            structure = self.contexts.structure
            left_open = control_flow.open_frames(structure, targets, sources)
            self._orders = by_structure(self.between, self.live, structure, left_open)
        else:
            self._orders = by_index(self.between)

    def _on_the_way(self, targets: Sequence[Tensor], stops: set[Operation]) -> set[Operation]:
        found: set[Operation] = set()
        waiting = [tensor.op for tensor in targets if tensor in self.live]
        while waiting:
            op = waiting.pop()
            if op in found or op in stops or not _passes(op):
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
        """The sum of what has arrived at a tensor."""
        arrived = self.collected.get(tensor, [])
        if len(arrived) > 1:
            total = aggregate(arrived, self.method)
            self.collected[tensor] = arrived = [] if total is None else [total]
        return arrived[0] if arrived else None

    def run(self, loop: Frame | None = None) -> None:
        """Go through what is between, in a loop or outside of all."""
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
                self._ask(op, [self._or_zeros(*pair) for pair in zip(op.outputs, arrived, strict=True)])

    @contextlib.contextmanager
    def at(self, op: Operation) -> Iterator[None]:
        """Make nodes where an operation is."""
        if self.contexts is None:
            yield
            return
        with self.contexts.at(self.contexts.structure.place(op)):
            yield

    def _or_zeros(self, tensor: Tensor, gradient: Gradient | None) -> Gradient | None:
        """Zeros where nothing arrived at one of several outputs, so that rules need not look."""
        if gradient is not None or not is_continuous(tensor.dtype):
            return gradient
        if self.contexts is not None:
            return control_flow.zeros_for(tensor)
        return apply_op("ZerosLike", tensor, name="zeros_like")

    def _ask(self, op: Operation, arrived: Sequence[Gradient | None]) -> None:
        """Ask the rule of an operation."""
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
                self.add(tensor, fitting(op, tensor, gradient))

    @contextlib.contextmanager
    def scope(self, op: Operation) -> Iterator[None]:
        """Name nodes after an operation, and place them beside it if that is asked for."""
        placed = op.graph.colocate_with(op) if self.colocate else contextlib.nullcontext()
        with self.named(op.graph, op.name), placed:
            yield

    @contextlib.contextmanager
    def named(self, graph: BaseGraph, name: str) -> Iterator[None]:
        """Name nodes after something, whatever they are inside of."""
        with graph.name_scope(self._scope), graph.name_scope(f"{name}_grad"):
            yield


def _passes(op: Operation) -> bool:
    """Whether gradients go through an operation; through a loop that says it is not to be differentiated they do not."""
    if isinstance(rule_of(op), NotDifferentiable):
        return False
    loop = while_context(op._control_flow_context) if op.row.role is Role.EXIT else None
    return loop is None or loop.back_prop


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


def _dependent(sources: Sequence[Tensor], among: set[Operation], stops: set[Operation]) -> set[Tensor]:
    """The sources, and the tensors gradients can reach them from."""
    found = set(sources)
    waiting = list(found)
    while waiting:
        for op in waiting.pop().consumers():
            if op in among and op not in stops and _passes(op):
                reached = [t for t in op.outputs if t not in found and is_trainable(t.dtype)]
                found.update(reached)
                waiting.extend(reached)
    return found


def fitting(op: Operation, tensor: Tensor, gradient: Any) -> Gradient:
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
