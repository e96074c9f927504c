"""Temporary variables: created in each step, and freed when they are destroyed or the step ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.errors import InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.graph import get_default_graph
from aioexec.graph.kernels.kernel import Compute, KernelContext, StepContext
from aioexec.graph.node import Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register, undefined_gradient
from aioexec.ops.common.elementwise import Array
from aioexec.resources.variable import Variable
from aioexec.shapes import Dims


class TemporaryVariable(Variable):
    """A variable of one step; a separate resource class, and thus a separate name space."""

    __slots__ = ()


def _create_variable(context: KernelContext) -> Compute:
    name = context.attrs["var_name"] or context.node_name
    dtype, dims = context.attrs["dtype"], context.attrs["shape"]

    def make(step: StepContext) -> Variable:
        """Create the variable with zeros; in TensorFlow its content is uninitialised."""
        if not shapes.is_fully_defined(dims):
            raise InvalidArgumentError(f"Shape {shapes.describe(dims)} is not fully defined")
        variable = TemporaryVariable(name, dtype, dims)
        variable.swap(np.zeros([int(dim or 0) for dim in dims], dtype.numpy))
        context.resources.create(step.container, name, variable)
        return variable

    return make


def _destroy(context: KernelContext) -> Compute:
    name = context.attrs["var_name"]

    def destroy(step: StepContext, variable: Variable) -> Array:
        context.resources.delete(TemporaryVariable, step.container, name)
        return variable.require()  # the variable is not written any more

    return destroy


def _declared(context: ShapeContext) -> Sequence[Dims]:
    return [context.attrs["shape"]]


register(
    "TemporaryVariable() -> (ref:Ref(dtype)) [shape:shape; dtype:type; var_name:string=''] {stateful}",
    shape=_declared,
    kernel=_create_variable,
    gradient=NOT_DIFFERENTIABLE,
    asynchronous=True,
)
register(
    "DestroyTemporaryVariable(ref:Ref(T)) -> (value:T) [T:type; var_name:string]",
    shape=lambda context: [context.inputs[0]],
    kernel=_destroy,
    gradient=undefined_gradient,
    asynchronous=True,
)


def temporary_variable(shape: Any, dtype: Any, var_name: str = "", name: str | None = None) -> Tensor:
    """Return a reference to a variable that exists until `destroy_temporary_variable`, or the end of the step."""
    attrs = {"shape": shapes.as_dims(shape), "dtype": dtypes.as_dtype(dtype).base_dtype, "var_name": var_name}
    op = get_default_graph().create_op("TemporaryVariable", (), name=name or "TemporaryVariable", attrs=attrs)
    return op.outputs[0]


def destroy_temporary_variable(ref: Tensor, var_name: str, name: str | None = None) -> Tensor:
    """Free a temporary variable and return its last content.

    The node fails with NotFoundError if there is no such variable in the step.
    """
    return apply_op("DestroyTemporaryVariable", ref, var_name=var_name, name=name)
