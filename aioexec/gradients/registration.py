"""Gradient rules registered by name, for nodes of a program.

The default rule of an op is in its row. A program may register further rules by name, and assign them to nodes: within
`graph.gradient_override_map`, or for a whole function, by `custom_gradient`.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph import registry
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.kernels.kernel import Role
from aioexec.graph.node import Operation
from aioexec.graph.registry import NOT_DIFFERENTIABLE, GradientRule, undefined_gradient
from aioexec.graph.scope_names import GRADIENT_NAME
from aioexec.ops.control_flow.nesting import flatten, pack_sequence_as

Rule = GradientRule | registry.NotDifferentiable

_rules: dict[str, Rule] = {}
_numbers: Final = itertools.count()


class RegisterGradient:
    """Registers a gradient rule under a name: `rule(op, *output gradients)` returns a gradient for each input, or a single one.

    @RegisterGradient("Clipped")
    def clipped(op, dy):
        return clip_by_value(dy, -1.0, 1.0)
    """

    def __init__(self, op_type: str) -> None:
        if not isinstance(op_type, str):
            raise GraphTypeError(f"op_type must be a string, got {op_type!r}")
        self._name = op_type

    def __call__(self, f: Callable[..., Any]) -> Callable[..., Any]:
        _register(self._name, f)
        return f


def NotDifferentiable(op_type: str) -> None:
    """Declare that nodes that use the rule of this name have no gradient."""
    if not isinstance(op_type, str):
        raise GraphTypeError(f"op_type must be a string, got {op_type!r}")
    _register(op_type, NOT_DIFFERENTIABLE)


NoGradient = no_gradient = NotDifferentiable


def _register(name: str, rule: Rule) -> None:
    if name in _rules:
        raise KeyError(f"Registering two gradient with name {name!r}!")
    _rules[name] = rule


def rule_of(op: Operation) -> Rule:
    """The gradient rule of an operation: that of its attribute `_gradient_op_type`, else that of its op.

    Raises:
        LookupError: there is no rule of that name.
    """
    name = op.attrs.get(GRADIENT_NAME)
    if name is not None:
        name = name.decode() if isinstance(name, bytes) else name
        if name in _rules:
            return _rules[name]
        if op.row.role is not Role.CALL:
            raise LookupError(f"No gradient defined for operation {op.name!r} (gradient name: {name})")
    rule = op.row.gradient
    return _rules.get(op.type, rule) if rule is undefined_gradient else rule


def get_gradient_function(op: Operation) -> GradientRule | None:
    """The gradient rule of an operation; None if it is not differentiable.

    Raises:
        LookupError: no rule is defined for it.
    """
    rule = rule_of(op)
    if rule is undefined_gradient:
        undefined_gradient(op)
    return None if isinstance(rule, registry.NotDifferentiable) else rule


def custom_gradient(f: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Decorates a function that returns (result, function from the gradients of the result to those of the arguments).

    Raises:
        GraphValueError: (in a call) the number of gradients is not that of the arguments.
    """
    if f is None:
        return custom_gradient

    @functools.wraps(f)
    def decorated(*args: Any) -> Any:
        graph = get_default_graph()
        inputs = [convert_to_tensor(arg) for arg in args]
        inputs = [graph.create_op("Identity", [tensor]).outputs[0] for tensor in inputs]
        result, gradient = f(*inputs)
        outputs = [convert_to_tensor(tensor) for tensor in flatten(result)]

        def rule(op: Operation, *output_gradients: Any) -> Sequence[Any]:
            found = gradient(*output_gradients[: len(outputs)])
            found = list(found) if isinstance(found, list | tuple) else [found]
            if len(found) != len(inputs):
                raise GraphValueError(
                    f"custom_gradient function expected to return {len(inputs)} gradients, but returned {len(found)} instead."
                )
            return [*[None] * len(outputs), *found]

        name = f"CustomGradient-{next(_numbers)}"
        _register(name, rule)
        op = graph.create_op("IdentityN", [*outputs, *inputs], attrs={GRADIENT_NAME: name})
        handed = list(op.outputs[: len(outputs)])
        return pack_sequence_as(result, handed)

    return decorated
