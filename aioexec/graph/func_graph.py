"""The body of a function: a graph with inputs and outputs, which may use tensors of enclosing graphs.

A tensor of an enclosing graph is *captured*: it becomes an additional input of the body, and each call of the function passes
the captured tensor. A body thus depends on its inputs only, and can be inlined anywhere.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from aioexec import shapes
from aioexec.dtypes import DType
from aioexec.errors import GraphValueError
from aioexec.graph.function_library import Function, FunctionLibrary
from aioexec.graph.graph import Graph
from aioexec.graph.kernels.kernel import FunctionBody
from aioexec.graph.name_attr_list import NameAttrList
from aioexec.graph.node import BaseGraph, Operation, Tensor
from aioexec.graph.opdef import ArgDef, OpDef
from aioexec.graph.registry import GradientRule
from aioexec.graph.static_values import HANDLE_SHAPE, variable_dims
from aioexec.shapes import Dims


def as_func_graph(body: FunctionBody) -> FuncGraph:
    """A body of a function library, as the class of all bodies."""
    assert isinstance(body, FuncGraph)
    return body


class FuncGraph(Graph):
    """The body of a function, finished or under construction.

    Constant: name, outer_graph (None for an imported body, which captures nothing). Growing: `inputs`, outputs of `_Arg` nodes,
    explicit ones first, then one for each of `captures`, a map from outer tensors to inputs; `control_captures`, outer
    operations that the body must wait for. Set by the builder: `outputs`; `control_outputs`, operations that run although no
    output needs them; `captures_by_value`: tensors that depend on constants only are copied instead of captured. `derived`
    caches objects that other modules derive from a finished body, such as its gradient.
    """

    def __init__(
        self, name: str, outer_graph: Graph | None = None, functions: FunctionLibrary | None = None
    ) -> None:
        super().__init__()
        self.name = name
        self.outer_graph = outer_graph
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []
        self.control_outputs: list[Operation] = []
        self.captures: dict[Tensor, Tensor] = {}
        self.control_captures: dict[Operation, None] = {}
        self.captures_by_value = False
        self.derived: dict[str, Any] = {}
        if outer_graph is not None:
            self.functions = outer_graph.functions
            self.seed = outer_graph.seed
        if functions is not None:
            self.functions = functions

    def add_input(
        self, dtype: DType, dims: Dims = None, name: str = "arg", handle_dims: Dims = None
    ) -> Tensor:
        """Add an input; `handle_dims` is the shape of the variable behind a resource handle."""
        attrs: dict[str, Any] = {"T": dtype.base_dtype, "index": len(self.inputs)}
        if handle_dims is not None:
            attrs[HANDLE_SHAPE] = shapes.TensorShape(handle_dims)
        with self.control_dependencies(None), self.name_scope(None), self.device(None):
            tensor = self.create_op("_Arg", [], name=name, attrs=attrs).outputs[0]
        tensor.set_shape(shapes.TensorShape(dims))
        self.inputs.append(tensor)
        return tensor

    def is_inside(self, graph: BaseGraph) -> bool:
        """Whether tensors of `graph` can be captured: it encloses this one."""
        outer = self.outer_graph
        return outer is not None and (outer is graph or outer.is_inside(graph))

    def capture(self, tensor: Tensor) -> Tensor:
        """The tensor that stands for `tensor` in the body; a tensor of an enclosing graph is captured.

        Raises:
            GraphValueError: its graph does not enclose this one.
        """
        self._check_is_tensor(tensor)
        if tensor.graph is self:
            return tensor
        if tensor not in self.captures:
            copy = self._copy_constant(tensor) if self.captures_by_value else None
            if copy is not None:
                return copy
            if self.outer_graph is None or not self.is_inside(tensor.graph):
                raise GraphValueError(
                    f"{tensor!r} is not an element of function {self.name!r} nor of a graph around it"
                )
            name = tensor.op.name.rpartition("/")[2]
            self.captures[tensor] = self.add_input(tensor.dtype, tensor.dims, name, variable_dims(tensor))
        return self.captures[tensor]

    def _copy_constant(self, tensor: Tensor) -> Tensor | None:
        """A copy of an outer tensor that depends on constants only; None if it does not."""
        op = tensor.op
        inputs = [self._copy_constant(each) for each in op.inputs] if op.row.is_pure else [None]
        if None in inputs:
            return None
        found = [each for each in inputs if each is not None]
        return self.create_op(op.type, found, name=op.name, attrs=dict(op.attrs)).outputs[tensor.value_index]

    @contextlib.contextmanager
    def colocate_with(self, op: Any, ignore_existing: bool = False) -> Iterator[None]:
        element = op._as_graph_element() if hasattr(op, "_as_graph_element") else op
        is_outside = isinstance(element, Tensor | Operation) and self.is_inside(element.graph)
        with contextlib.nullcontext() if is_outside else super().colocate_with(op, ignore_existing):
            yield

    def _control_operation(self, item: Any) -> Operation | None:
        element = item._as_graph_element() if hasattr(item, "_as_graph_element") else item
        op = element.op if isinstance(element, Tensor) else element
        if isinstance(op, Operation) and self.is_inside(op.graph):
            self.control_captures[op] = None
            return None
        return super()._control_operation(item)

    def called_functions(self) -> list[str]:
        """The names of the functions that its operations refer to."""
        return list(dict.fromkeys(name for op in self.get_operations() for name in functions_of(op)))

    def specialize(self, inputs: Sequence[Dims], variables: Sequence[Dims]) -> FuncGraph:
        """A copy of this body for more precise shapes of inputs and variables; the body itself if they add nothing."""
        known = [_narrowed(tensor.dims, dims) for tensor, dims in zip(self.inputs, inputs, strict=True)]
        handles = [
            variable_dims(tensor) if dims is None else dims
            for tensor, dims in zip(self.inputs, variables, strict=True)
        ]
        if all(
            dims == tensor.dims and handle == variable_dims(tensor)
            for tensor, dims, handle in zip(self.inputs, known, handles, strict=True)
        ):
            return self
        copy = FuncGraph(self.name, functions=self.functions)
        replacements = {
            tensor: copy.add_input(tensor.dtype, dims, tensor.op.name, handle)
            for tensor, dims, handle in zip(self.inputs, known, handles, strict=True)
        }
        copies = copy_operations(self.get_operations(), copy, replacements)
        copy.outputs = [replacements[tensor] for tensor in self.outputs]
        copy.control_outputs = [copies[op] for op in self.control_outputs]
        return copy

    def as_function(
        self,
        attrs: Mapping[str, Any] | None = None,
        output_names: Sequence[str] | None = None,
        gradient_rule: GradientRule | None = None,
    ) -> Function:
        """A function with this body, which must be finished.

        Raises:
            GraphValueError: the number of names is not that of the outputs, or a name is repeated.
        """
        self.finalize()
        definition = self._definition([f"ret{k}" for k in range(len(self.outputs))], output_names)
        return Function(
            definition,
            self.functions,
            lambda given: self,
            self.called_functions,
            attrs,
            gradient_rule=gradient_rule,
        )

    def _definition(self, default_names: Sequence[str], output_names: Sequence[str] | None) -> OpDef:
        names = list(default_names if output_names is None else output_names)
        if len(names) != len(self.outputs) or len(set(names)) < len(names):
            raise GraphValueError(
                f"function {self.name!r} returns {len(self.outputs)} values, which cannot be named {names}"
            )
        inputs = {tensor.op for tensor in self.inputs}
        nodes = [op for op in self.get_operations() if op not in inputs]
        taken = {*names, *(op.name for op in nodes)}
        arguments = [(_free_name(tensor.op.name, taken), tensor.dtype.base_dtype) for tensor in self.inputs]
        return OpDef(
            self.name,
            tuple(ArgDef(name, dtype) for name, dtype in arguments),
            tuple(
                ArgDef(name, tensor.dtype.base_dtype)
                for name, tensor in zip(names, self.outputs, strict=True)
            ),
            (),
            is_stateful=any(op.row.is_stateful for op in nodes),
        )


def _free_name(name: str, taken: set[str]) -> str:
    """An argument name that is not in `taken`, derived from `name`: lower case, first a letter. It is added to `taken`."""
    plain = re.sub(r"[^a-z0-9_]", "_", name.lower()).lstrip("_0123456789") or "arg"
    found, count = plain, 0
    while found in taken:
        count += 1
        found = f"{plain}_{count}"
    taken.add(found)
    return found


def functions_of(op: Operation) -> Iterator[str]:
    """The names of the functions that an operation refers to: by its type, if it is a call, and by its attributes."""
    if op.type in op.graph.functions:
        yield op.type
    for value in op.attrs.values():
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, NameAttrList):
                yield each.name


def _narrowed(known: Dims, given: Dims) -> Dims:
    """The merge of a known shape and the caller's; the caller's if they are incompatible."""
    return shapes.merge(known, given) if shapes.compatible(known, given) else given


def copy_operations(
    operations: Iterable[Operation], graph: Graph, replacements: dict[Tensor, Tensor], scope: str = ""
) -> dict[Operation, Operation]:
    """Copy operations, in topological order, into a graph, which infers their shapes anew.

    Args:
        replacements: from tensors of the source to tensors of `graph`; operations all of whose outputs are replaced are not
            copied. The outputs of the copies are added.
        scope: the prefix of the names.

    Returns:
        From each operation to its copy, or, if it was not copied, to the operation of its replacement.
    """
    copies: dict[Operation, Operation] = {}
    back_edges: list[tuple[Operation, dict[int, Tensor]]] = []
    for op in operations:
        if op.outputs and all(tensor in replacements for tensor in op.outputs):
            copies[op] = replacements[op.outputs[0]].op
            continue
        forward = [replacements[tensor] for tensor in op.inputs if tensor in replacements]
        inputs = [replacements.get(tensor, forward[0]) for tensor in op.inputs] if op.inputs else []
        controls = [copies[control] for control in op.control_inputs if control in copies]
        copy = graph.add_node(op.row, f"{scope}{op.name}", inputs, controls, dict(op.attrs), op.device)
        copy.created_at = op.created_at
        copies[op] = copy
        later = {k: tensor for k, tensor in enumerate(op.inputs) if tensor not in replacements}
        if later:
            back_edges.append((copy, later))
        for old, new in zip(op.outputs, copy.outputs, strict=True):
            if shapes.compatible(old.dims, new.dims):
                new.set_shape(shapes.TensorShape(old.dims))
            replacements[old] = new
    for copy, later in back_edges:
        copy.set_inputs({k: replacements[tensor] for k, tensor in later.items()})
    return copies
