"""Datasets in variant tensors, and what the kernels of dataset ops share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.errors import InvalidArgumentError
from aioexec.graph.kernels.kernel import Compute, FunctionBody, KernelContext, Reference
from aioexec.graph.registry import ShapeContext, ShapeRule, register, undefined_gradient
from aioexec.ops.common.elementwise import Array
from aioexec.resources.datasets.dataset import Dataset
from aioexec.resources.datasets.mapping import Function
from aioexec.resources.memory import owns_memory
from aioexec.resources.tensor_list import boxed
from aioexec.shapes import Dims

OUTPUTS = "output_types:list(type)>=1; output_shapes:list(shape)>=1"
METADATA = "metadata:string=''"


def dataset_in(variant: Any) -> Dataset:
    """Return the dataset in a variant tensor.

    Raises:
        InvalidArgumentError: the tensor holds something else.
    """
    content = variant.item() if isinstance(variant, np.ndarray) and variant.ndim == 0 else variant
    if not hasattr(content, "begin") or not hasattr(content, "dims"):
        raise InvalidArgumentError("Tensor must be a Variant scalar holding a dataset.")
    found: Dataset = content
    return found


def scalar_in(value: Array, what: str) -> Any:
    """Return the content of a scalar.

    Raises:
        InvalidArgumentError: it has another rank.
    """
    if value.ndim:
        raise InvalidArgumentError(f"{what} must be a scalar, got shape {value.shape}")
    return value.item()


def held(value: Array) -> Array:
    """Return a copy that a dataset may keep."""
    kept = value if owns_memory(value) and not value.flags.writeable else value.copy()
    kept.setflags(write=False)
    return kept


def captured(value: Any) -> Any:
    """Return the captured input of a function: a copy of an array, or a handle."""
    return held(value) if isinstance(value, np.ndarray) and not _is_handle(value) else value


def _is_handle(value: Array) -> bool:
    return value.dtype.hasobject and value.ndim == 0 and not isinstance(value.item(), bytes)


# Functions


def body_of(context: KernelContext, attr: str, types: Sequence[Any]) -> FunctionBody:
    """Return the body of a function named by an attribute, after checking the dtypes that it returns.

    Raises:
        InvalidArgumentError: the dtypes differ, or the function is recursive (an iterator would wait for its own elements).
        NotFoundError: the graph has no such function.
    """
    called = context.attrs[attr]
    if context.functions.is_recursive(called.name):
        raise InvalidArgumentError(
            f"{context.node_name!r}: function {called.name!r} calls itself; recursion is not supported"
        )
    body = context.functions.body(called)
    _check_types(context, body, "returns", [tensor.dtype.base_dtype for tensor in body.outputs], types)
    return body


def _check_types(
    context: KernelContext, body: FunctionBody, verb: str, got: Sequence[Any], expected: Sequence[Any]
) -> None:
    if list(got) != list(expected):
        raise InvalidArgumentError(
            f"{context.node_name!r}: function {body.name!r} {verb} {[dtype.name for dtype in got]}, "
            f"expected {[dtype.name for dtype in expected]}"
        )


MakeFunction = Callable[[Sequence[Any], Sequence[Any]], Function]
"""From the dtypes of elements and the captured values to a function of elements."""


def function_of(
    context: KernelContext, types: Sequence[Any], attr: str = "f", captured_attr: str = "Targuments"
) -> MakeFunction:
    """Return a maker of the function named by an attribute, which returns these dtypes; raises as `body_of`."""
    body = body_of(context, attr, types)
    captured_types: Sequence[Any] = context.attrs[captured_attr]
    takes = [tensor.dtype.base_dtype for tensor in body.inputs]

    def make(element_types: Sequence[Any], values: Sequence[Any]) -> Function:
        _check_types(context, body, "takes", takes, [*element_types, *captured_types])
        return Function(body, tuple(map(captured, values)))

    return make


# Registration


def scalars(*ranks: int | None, outputs: Sequence[Dims] = ((),)) -> ShapeRule:
    """Shape rule: inputs of these ranks (None: any), scalar outputs."""

    def rule(context: ShapeContext) -> Sequence[Dims]:
        for given, rank in zip(context.inputs, ranks, strict=False):
            if rank is not None:
                shapes.with_rank(given, rank)
        return outputs

    return rule


Make = Callable[..., Dataset]


def made(make: Make) -> Reference:
    """Return the kernel of a dataset op without functions: `make(*inputs)`, datasets instead of variants."""

    def compute(variant: Any, *inputs: Array) -> Array:
        return boxed(make(dataset_in(variant), *inputs))

    return lambda context: compute


def register_dataset(
    names: str, inputs: str, attrs: str, kernel: Reference, *ranks: int | None, is_stateful: bool = False
) -> None:
    """Register dataset ops: `names` of the same op, inputs and attributes as in a signature."""
    flags = " {stateful}" if is_stateful else ""
    for name in names.split():
        register(
            f"{name}({inputs}) -> (handle:variant) [{attrs}]{flags}",
            shape=scalars(*ranks),
            kernel=kernel,
            gradient=undefined_gradient,
        )


def function_kernel(
    make: Callable[..., Dataset], returned: Callable[[KernelContext], Sequence[Any]], attr: str = "f"
) -> Reference:
    """Return the kernel of an op with one function.

    Args:
        make: `make(context, source, function, *inputs)` returns the dataset; inputs are those after `other_arguments`.
        returned: the dtypes that the function returns.
    """

    def kernel(context: KernelContext) -> Compute:
        function = function_of(context, returned(context), attr)
        count = len(context.attrs["Targuments"])

        def compute(variant: Any, *inputs: Any) -> Array:
            source = dataset_in(variant)
            found = function(source.dtypes, inputs[:count])
            return boxed(make(context, source, found, *inputs[count:]))

        return compute

    return kernel
