"""Initial values as tensors, rewritten so that they do not depend on the order in which variables are initialised."""

from __future__ import annotations

from typing import Any

from aioexec import shapes
from aioexec.dtypes import DType
from aioexec.errors import GraphValueError
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.kernels.kernel import Role
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import BaseGraph, Operation, Tensor


def without_uninitialized(value: Tensor, suffix: str) -> Tensor:
    """Return `value` with the variables it reads replaced by their initial values.

    Args:
        suffix: suffix of the names of copied nodes.
    """
    ancestors = _ancestors(value.op)
    if not any(op.row.role is Role.VARIABLE for op in ancestors):
        return value
    graph: BaseGraph = value.graph
    variables = _variables_by_node(graph)
    replaced: dict[Tensor, Tensor] = {}
    with graph.control_dependencies(None), graph.name_scope(None):
        for op in sorted(ancestors, key=lambda op: op.index):
            variable = _variable_read_by(op, variables)
            if variable is not None:
                replaced[op.outputs[0]] = variable.initialized_value()
            elif any(tensor in replaced for tensor in op.inputs) and not _takes_references(op):
                inputs = [replaced.get(tensor, tensor) for tensor in op.inputs]
                copied = graph.create_op(op.type, inputs, name=op.name + suffix, attrs=dict(op.attrs))
                replaced.update(zip(op.outputs, copied.outputs, strict=True))
    return replaced.get(value, value)


def _ancestors(op: Operation) -> set[Operation]:
    """Return `op` and all operations whose outputs it depends on."""
    found = {op}
    waiting = [op]
    while waiting:
        producers = {tensor.op for tensor in waiting.pop().inputs} - found
        found |= producers
        waiting.extend(producers)
    return found


def _variables_by_node(graph: BaseGraph) -> dict[Operation, Any]:
    """Map each variable node to its variable."""
    keys = (GraphKeys.GLOBAL_VARIABLES, GraphKeys.LOCAL_VARIABLES)
    return {variable.op: variable for key in keys for variable in graph.get_collection(key)}


def _variable_read_by(op: Operation, variables: dict[Operation, Any]) -> Any:
    """Return the variable that `op` reads, if reading is all it does."""
    if op.row.role is Role.VARIABLE and op.outputs[0].dtype.is_ref:
        return variables.get(op)
    return variables.get(op.inputs[0].op) if op.row.role is Role.READ else None


def _takes_references(op: Operation) -> bool:
    return any(arg.is_ref for arg in op.row.definition.inputs)


def initial_tensor(graph: BaseGraph, initial_value: Any, dtype: DType | None, validate_shape: bool) -> Tensor:
    """Convert an initial value to a tensor; a function is called within the name scope "Initializer".

    Raises:
        GraphValueError: `validate_shape` is set, and the shape is not static.
    """
    if not callable(initial_value):
        tensor = convert_to_tensor(initial_value, dtype, name="initial_value")
    else:
        with graph.name_scope("Initializer"), graph.device(None):
            tensor = convert_to_tensor(initial_value(), dtype, name="initial_value")
    if validate_shape and not shapes.is_fully_defined(tensor.dims):
        raise GraphValueError(
            f"Variable {graph.get_name_scope()!r}: initial_value must have a shape specified, got {tensor!r}"
        )
    return tensor


def guarded(variable: Any) -> Tensor:
    """Return the initial value of a variable, independent of whether other variables are initialised."""
    return without_uninitialized(variable.initial_value, f"_{variable.op.name.replace('/', '_')}")
