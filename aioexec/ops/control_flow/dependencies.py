"""Functions for control dependencies: no_op, group, tuple, with_dependencies."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import apply_no_output_op, apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.kernels.kernel import Role, plain
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, register

register(
    "NoOp() -> ()",
    shape=lambda context: (),
    kernel=plain(lambda: None),
    gradient=NOT_DIFFERENTIABLE,
    role=Role.NO_OP,
)


def no_op(name: str | None = None) -> Operation:
    """Return an operation that does nothing."""
    return apply_no_output_op("NoOp", name=name)


def operation_of(value: Any, what: str) -> Operation:
    """Return the operation that produces a tensor, variable or IndexedSlices; raises GraphTypeError."""
    if hasattr(value, "_as_graph_element"):
        value = value._as_graph_element()
    if isinstance(value, Operation):
        return value
    if isinstance(value, Tensor | IndexedSlices):
        return value.op
    raise GraphTypeError(f"{what} must be operations or tensors, got {value!r}")


def _flatten(values: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if isinstance(value, dict):
            found.extend(_flatten(value.values()))
        elif isinstance(value, list | tuple):
            found.extend(_flatten(value))
        else:
            found.append(value)
    return found


def group(*inputs: Any, name: str | None = None, **kwargs: Any) -> Operation:
    """Return an operation that finishes after all `inputs` (nested tensors and operations).

    If they are on several devices, one node per device waits for the inputs there.

    Raises:
        GraphTypeError: an input is neither operation nor tensor.
    """
    if kwargs:
        raise GraphTypeError(f"group: unknown keyword arguments {sorted(kwargs)}")
    operations = [operation_of(value, "group: inputs") for value in _flatten(inputs) if value is not None]
    if not operations:
        return no_op(name=name or "group_deps")
    graph = operations[0].graph
    by_device: dict[str, list[Operation]] = {}
    for operation in operations:
        by_device.setdefault(operation.device, []).append(operation)
    with graph.as_default(), graph.name_scope(name or "group_deps") as scope:
        if len(by_device) == 1:
            return _wait_for(operations, operations[0].device, scope)
        return _wait_for(
            [_wait_for(there, device, None) for device, there in sorted(by_device.items())], None, scope
        )


def _wait_for(operations: Sequence[Operation], device: str | None, name: str | None) -> Operation:
    graph = get_default_graph()
    placed = graph.device(device) if device else contextlib.nullcontext()
    with placed, graph.control_dependencies(operations):
        return no_op(name=name)


def with_dependencies(dependencies: Sequence[Any], output_tensor: Any, name: str | None = None) -> Any:
    """Return the value of `output_tensor` (a tensor or IndexedSlices), available only after `dependencies`."""
    operations = [operation_of(item, "with_dependencies: dependencies") for item in dependencies]
    if not isinstance(output_tensor, IndexedSlices):
        output_tensor = convert_to_tensor(output_tensor)
    graph = output_tensor.graph
    with (
        graph.as_default(),
        graph.name_scope(name or "control_dependency") as scope,
        graph.colocate_with(output_tensor.op),
        graph.control_dependencies(operations),
    ):
        if isinstance(output_tensor, IndexedSlices):
            values = apply_op("Identity", output_tensor.values, name=scope)
            return IndexedSlices(values, output_tensor.indices, output_tensor.dense_shape)
        return apply_op("Identity", output_tensor, name=scope)


def tuple_(
    tensors: Sequence[Any], name: str | None = None, control_inputs: Sequence[Any] | None = None
) -> list[Any]:
    """Return the same tensors, each available only after all `tensors` and `control_inputs`.

    None among the tensors stays None.

    Raises:
        GraphValueError: all tensors are None.
        GraphTypeError: a control input is neither operation nor tensor.
    """
    given = [tensor for tensor in tensors if tensor is not None]
    if not given:
        raise GraphValueError(f"tuple: tensors must have at least one Tensor, got {list(tensors)!r}")
    with get_default_graph().name_scope(name or "tuple"):
        waited = [operation_of(item, "tuple: control_inputs") for item in control_inputs or ()]
        converted = [None if item is None else _as_output(item) for item in tensors]
        gate = group([item.op for item in converted if item is not None], waited)
        return [None if item is None else with_dependencies([gate], item) for item in converted]


def _as_output(value: Any) -> Tensor | IndexedSlices:
    return value if isinstance(value, IndexedSlices) else convert_to_tensor(value)
