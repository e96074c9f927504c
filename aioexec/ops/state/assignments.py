"""Functions that assign to variables of both kinds, as TensorFlow's state_ops.

Each accepts a `Variable` or a reference. A node that updates a reference is colocated with the variable.
"""

from __future__ import annotations

import contextlib
from typing import Any

from aioexec.errors import GraphTypeError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor


def reference_of(ref: Any) -> Tensor | None:
    """Return the reference that `ref` is or has; None for a resource variable.

    Raises:
        GraphTypeError: `ref` is neither.
    """
    if getattr(ref, "handle", None) is not None:
        return None
    try:
        tensor = convert_to_tensor(ref, as_ref=True) if not isinstance(ref, Tensor) else ref
    except (GraphTypeError, TypeError):
        tensor = None
    if tensor is None or not tensor.dtype.is_ref:
        raise GraphTypeError(f"expected a variable or a reference to one, got {ref!r}")
    return tensor


def update_reference(
    op_type: str, ref: Tensor, *arguments: Any, name: str | None = None, **attrs: Any
) -> Tensor:
    """Add a node that updates the variable of `ref`, colocated with it; its output is the reference."""
    placed = ref.graph.colocate_with(ref.op) if ref.op.type in _MAKERS else contextlib.nullcontext()
    with placed:
        return apply_op(op_type, ref, *arguments, name=name, **attrs)


_MAKERS = frozenset({"Variable", "VariableV2"})


def assign(
    ref: Any,
    value: Any,
    validate_shape: bool | None = None,
    use_locking: bool | None = None,
    name: str | None = None,
) -> Any:
    """Replace the content of a variable.

    Args:
        validate_shape: whether the value must have the shape of the variable; otherwise the variable takes the shape of the
            value.

    Returns:
        The reference; for a resource variable, an object that reads the new content.
    """
    reference = reference_of(ref)
    if reference is None:
        return ref.assign(value, name=name)
    return update_reference(
        "Assign", reference, value, name=name, validate_shape=validate_shape, use_locking=use_locking
    )


def assign_add(ref: Any, value: Any, use_locking: bool | None = None, name: str | None = None) -> Any:
    """Add `value`, of the variable's shape, to a variable."""
    reference = reference_of(ref)
    if reference is None:
        return ref.assign_add(value, name=name)
    return update_reference("AssignAdd", reference, value, name=name, use_locking=use_locking)


def assign_sub(ref: Any, value: Any, use_locking: bool | None = None, name: str | None = None) -> Any:
    """Subtract `value`, of the variable's shape, from a variable."""
    reference = reference_of(ref)
    if reference is None:
        return ref.assign_sub(value, name=name)
    return update_reference("AssignSub", reference, value, name=name, use_locking=use_locking)


def is_variable_initialized(ref: Any, name: str | None = None) -> Tensor:
    """Return whether a variable is initialised."""
    reference = reference_of(ref)
    if reference is None:
        initialized: Tensor = ref.is_initialized(name=name)
        return initialized
    return update_reference("IsVariableInitialized", reference, name=name)
