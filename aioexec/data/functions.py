"""Functions of elements: a Python function, traced into the body of a graph function."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

from aioexec.data.structure import (
    Component,
    SparseComponent,
    component_of,
    flat_dtypes,
    flat_shapes,
    flatten,
    from_tensors,
    is_nested,
    pack,
)
from aioexec.data_classes import dataclass
from aioexec.errors import GraphTypeError
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.name_attr_list import NameAttrList
from aioexec.graph.node import Operation, Tensor
from aioexec.ops.containers.tensor_array_class import TensorArray
from aioexec.ops.functions.defun import Defun

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class TracedFunction:
    """A graph function of elements.

    Attributes:
        attr: the function as an attribute of a dataset op.
        captured: tensors of the enclosing graph, which the op passes after the components.
        spec: the spec of the result.
    """

    attr: NameAttrList
    captured: list[Tensor]
    spec: Any

    @property
    def captured_types(self) -> list[Any]:
        return [tensor.dtype.base_dtype for tensor in self.captured]


def traced(
    function: Callable[..., Any], transformation: str, spec: Any, convert: Callable[[Any], Any] | None = None
) -> TracedFunction:
    """Trace a function of elements of this spec; an element that is a tuple becomes several arguments.

    Args:
        convert: converts the function's result.

    Raises:
        GraphTypeError: the function returns something that cannot be a component.
    """
    return traced_flat(
        lambda *tensors: _called(function, from_tensors(spec, tensors)),
        f"{transformation}_{_name_of(function)}",
        flat_dtypes(spec),
        flat_shapes(spec),
        convert,
    )


def traced_flat(
    function: Callable[..., Any],
    name: str,
    types: Sequence[Any],
    shapes: Sequence[Any],
    convert: Callable[[Any], Any] | None = None,
) -> TracedFunction:
    """Trace a function of tensors of these dtypes and shapes."""
    found: list[Any] = []

    def body(*tensors: Tensor) -> list[Tensor]:
        for tensor, shape in zip(tensors, shapes, strict=True):
            tensor.set_shape(shape)
        result = function(*tensors)
        spec, outputs = result_tensors(result if convert is None else convert(result), name)
        found.append(spec)
        return outputs

    defined = Defun(*types, func_name=f"__inference_{name}_{next(_numbers)}")(body)
    defined.add_to_graph(get_default_graph())
    return TracedFunction(NameAttrList(defined.name, {}), defined.captured_inputs, found[0])


def _called(function: Callable[..., Any], element: Any) -> Any:
    return function(*element) if type(element) is tuple else function(element)


def _name_of(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", None) or type(function).__name__
    return re.sub(r"[^A-Za-z0-9_.]", "", name) or "function"


def result_tensors(result: Any, name: str) -> tuple[Any, list[Tensor]]:
    """Return the spec of a function's result, and its tensors; a list is taken for a tuple.

    Raises:
        GraphTypeError: a part of it cannot be a component.
    """
    if isinstance(result, list):
        result = tuple(result)
    specs: list[Component] = []
    tensors: list[Tensor] = []
    for leaf in flatten(result):
        if leaf is None or isinstance(leaf, Operation):
            raise GraphTypeError(f"Unsupported return value from function passed to {name}: {result!r}.")
        value = leaf.stack() if isinstance(leaf, TensorArray) else leaf
        component = component_of(value)
        if component is None:
            tensor = convert_to_tensor(value)
            component = Component(tensor.dtype.base_dtype, tensor.shape)
        else:
            tensor = component.to_tensor(value)
        specs.append(component)
        tensors.append(tensor)
    return pack(result, specs) if is_nested(result) else specs[0], tensors


def split_sparse(spec: Any) -> TracedFunction:
    """Return the function that replaces the sparse components of an element by their rows, each a component of its own."""
    components = flatten(spec)

    def split(*tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(
            component.to_tensor(component.from_tensor(tensor), slices=True)
            if isinstance(component, SparseComponent)
            else tensor
            for component, tensor in zip(components, tensors, strict=True)
        )

    return traced_flat(split, "Dataset_unbatch", flat_dtypes(spec), flat_shapes(spec))
