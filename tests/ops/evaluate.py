"""Evaluates graphs with the reference kernels alone, node by node, without the engine: the oracle of gradient checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.kernels.kernel import Compute, Role
from aioexec.graph.node import Operation, Tensor, producers
from aioexec.resources.manager import ResourceManager
from aioexec.resources.variable import Variable

FORWARDING = (Role.IDENTITY, Role.NO_OP)
"""Roles a node may have without a kernel."""


class Evaluator:
    """A session in miniature: kernels are bound once a node, state stays in `resources` from run to run."""

    def __init__(self) -> None:
        self.resources = ResourceManager()
        self._bound: dict[Operation, Compute] = {}

    def run(self, fetches: Any, feeds: Mapping[Tensor, Any] | None = None) -> Any:
        """The values of a tensor, an operation (None), IndexedSlices (dense), or a list of them; feeds are arrays."""
        many = fetches if isinstance(fetches, list | tuple) else [fetches]
        values: dict[Tensor, Any] = dict(feeds or {})
        for op in self._needed(many, values):
            self._compute(op, values)
        results = [self._result(item, values) for item in many]
        return results if isinstance(fetches, list | tuple) else results[0]

    def _needed(self, fetches: Iterable[Any], fed: Mapping[Tensor, Any]) -> list[Operation]:
        """The operations to run, in an order in which each comes after what it needs."""
        waiting = [op for item in fetches for op in _roots(item, fed)]
        found: set[Operation] = set()
        while waiting:
            op = waiting.pop()
            if op in found:
                continue
            found.add(op)
            if all(tensor in fed for tensor in op.inputs):
                waiting.extend(op.control_inputs)
            else:
                unfed = {tensor.op for tensor in op.inputs if tensor not in fed}
                waiting.extend(p for p in producers(op) if p in unfed or p in op.control_inputs)
        return sorted(found, key=lambda op: op.index)

    def _compute(self, op: Operation, values: dict[Tensor, Any]) -> None:
        inputs = [seen(op, k, values[tensor]) for k, tensor in enumerate(op.inputs)]
        if op.row.kernel is None:
            assert op.row.role in FORWARDING, f"{op!r} has no kernel"
            outputs: Sequence[Any] = inputs
        else:
            if op not in self._bound:
                self._bound[op] = op.row.kernel(context_of(op, self.resources))
            with np.errstate(all="ignore"):
                outputs = as_outputs(op, self._bound[op](*inputs))
        for tensor, value in zip(op.outputs, outputs, strict=False):
            values.setdefault(tensor, value)

    def _result(self, item: Any, values: Mapping[Tensor, Any]) -> Any:
        if item is None or isinstance(item, Operation):
            return None
        if isinstance(item, IndexedSlices):
            assert item.dense_shape is not None
            return dense(values[item.values], values[item.indices], values[item.dense_shape])
        value = values[item]
        return value.read() if isinstance(value, Variable) and item.dtype.is_ref else value


def evaluate(fetches: Any, feeds: Mapping[Tensor, Any] | None = None) -> Any:
    """Evaluate without state."""
    return Evaluator().run(fetches, feeds)


def context_of(op: Operation, resources: ResourceManager | None = None) -> Any:
    """The context for binding a kernel to `op`."""
    return SimpleNamespace(
        node_name=op.name,
        attrs=op.attrs,
        input_dtypes=[tensor.dtype for tensor in op.inputs],
        output_dtypes=[tensor.dtype for tensor in op.outputs],
        resources=resources if resources is not None else ResourceManager(),
    )


def seen(op: Operation, k: int, value: Any) -> Any:
    """Input k as the kernel gets it: a reference edge that ends at a plain input is read."""
    if isinstance(value, Variable) and op.inputs[k].dtype.is_ref and not _takes_reference(op, k):
        return value.read()
    return value


def as_outputs(op: Operation, result: Any) -> list[Any]:
    """A kernel's result, one item per output, after checking number and dtype."""
    count = len(op.outputs)
    outputs = [] if count == 0 else [result] if count == 1 else list(result)
    assert len(outputs) == count, f"{op.type}: {len(outputs)} outputs, expected {count}"
    for k, tensor in enumerate(op.outputs):
        if isinstance(outputs[k], np.ndarray | np.generic):
            expected = tensor.dtype.base_dtype.numpy
            assert outputs[k].dtype == expected, (
                f"{op.type}: output {k} is {outputs[k].dtype}, expected {expected}"
            )
            outputs[k] = np.asarray(outputs[k])
    return outputs


def dense(values: Any, indices: Any, shape: Any) -> np.ndarray[Any, Any]:
    """The dense tensor for indexed slices."""
    result = np.zeros(tuple(shape), values.dtype)
    np.add.at(result, indices, values)
    return result


def _roots(item: Any, fed: Mapping[Tensor, Any]) -> list[Operation]:
    if isinstance(item, IndexedSlices):
        parts = [item.values, item.indices, item.dense_shape]
        return [part.op for part in parts if part is not None and part not in fed]
    if item is None or item in fed:
        return []
    return [item if isinstance(item, Operation) else item.op]


def _takes_reference(op: Operation, k: int) -> bool:
    inputs = op.row.definition.inputs
    if any(arg.is_list for arg in inputs):
        return all(arg.is_ref for arg in inputs)
    return inputs[k].is_ref
