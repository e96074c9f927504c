"""Gradients of operations with bodies: function calls, and conditionals and loops whose branches are functions.

1. A conditional or loop is converted to a call of one body, in which Switch, Merge and Enter nodes surround calls of its
   functions.
2. A copy of the body is differentiated, and split into the *forward* body, which returns the original outputs and the values
   that the gradient needs, and the *backward* body, which computes the gradients from these.
3. The operation becomes a call of the forward body; so nothing is computed twice, and random ops run once.

A value passed from the forward to the backward body must be alive whatever branches are taken: a value of a branch is merged
with a dummy, which the backward body does not use.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.data_classes import dataclass
from aioexec.gradients.aggregation import AggregationMethod
from aioexec.gradients.places import Guard
from aioexec.gradients.walk import Walk, is_trainable
from aioexec.graph import registry
from aioexec.graph.apply import apply_op, apply_tuple_op
from aioexec.graph.attrs import complete_attrs
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.func_graph import FuncGraph, copy_operations
from aioexec.graph.graph import get_default_graph
from aioexec.graph.kernels.kernel import Role
from aioexec.graph.name_attr_list import NameAttrList
from aioexec.graph.node import BaseGraph, Operation, Tensor
from aioexec.graph.static_values import variable_dims
from aioexec.ops.control_flow.case import switch_case
from aioexec.ops.control_flow.cond import cond
from aioexec.ops.control_flow.nesting import flatten
from aioexec.ops.control_flow.while_loop import while_loop
from aioexec.shapes import Dims, TensorShape


def gradient_of_bodies(op: Operation, *output_gradients: Any) -> list[Tensor | None]:
    """The gradient rule of calls, and of functional conditionals and loops."""
    body = _single_body(op)
    arrived = [None if each is None else convert_to_tensor(each) for each in output_gradients]
    parts = _Splitting(body, [gradient is not None for gradient in arrived[: len(body.outputs)]]).parts()
    _convert_to_call(op, parts)
    found: list[Tensor | None] = [None] * len(op.inputs)
    if not parts.places:
        return found
    passed = [(op.inputs if each.is_input else op.outputs)[each.place] for each in parts.passed]
    given = [*(gradient for gradient in arrived if gradient is not None), *passed]
    called = _add_function(get_default_graph(), parts.backward)
    types = [tensor.dtype.base_dtype for tensor in parts.backward.outputs]
    results = get_default_graph().create_op(_call_type(op), given, attrs={"f": called, "Tout": types}).outputs
    for place, result in zip(parts.places, results, strict=True):
        found[place] = result
    return found


# Conversion to one body


def _call_type(op: Operation) -> str:
    return "StatefulPartitionedCall" if op.row.is_stateful else "PartitionedCall"


def _single_body(op: Operation) -> FuncGraph:
    """A body that computes an operation's outputs from its inputs."""
    assert op.row.bodies is not None
    bodies: Sequence[FuncGraph] = op.row.bodies(op)
    if op.row.role is Role.CALL:
        handles = [variable_dims(tensor) for tensor in op.inputs]
        return bodies[0].specialize([tensor.dims for tensor in op.inputs], handles)
    made = FuncGraph(op.name.replace("/", "_"), functions=op.graph.functions)
    with made.as_default():
        inputs = [
            made.add_input(tensor.dtype, tensor.dims, handle_dims=variable_dims(tensor))
            for tensor in op.inputs
        ]
        made.outputs = _BUILDERS[op.row.role](op, inputs, bodies)
    for tensor, output in zip(made.outputs, op.outputs, strict=False):
        if shapes.compatible(tensor.dims, output.dims):
            tensor.set_shape(output.shape)
    return made


def _call(op: Operation, attr: NameAttrList, inputs: Sequence[Tensor], body: FuncGraph) -> list[Tensor]:
    types = [tensor.dtype.base_dtype for tensor in body.outputs]
    attrs = {"f": attr, "Tout": types}
    return list(get_default_graph().create_op(_call_type(op), inputs, attrs=attrs).outputs)


def _build_if(op: Operation, inputs: Sequence[Tensor], bodies: Sequence[FuncGraph]) -> list[Tensor]:
    pred, *rest = inputs
    then, otherwise = (
        functools.partial(_call, op, op.attrs[attr], rest, body)
        for attr, body in zip(("then_branch", "else_branch"), bodies, strict=True)
    )
    pred = pred if pred.dtype == dtypes.bool_ else apply_op("ToBool", pred)
    chosen = cond(pred, then, otherwise, strict=True)
    return flatten(chosen)


def _build_case(op: Operation, inputs: Sequence[Tensor], bodies: Sequence[FuncGraph]) -> list[Tensor]:
    index, *rest = inputs
    called = [
        functools.partial(_call, op, branch, rest, body)
        for branch, body in zip(op.attrs["branches"], bodies, strict=True)
    ]
    return flatten(switch_case(index, dict(enumerate(called))))


def _build_while(op: Operation, inputs: Sequence[Tensor], bodies: Sequence[FuncGraph]) -> list[Tensor]:
    condition, body = bodies
    invariants = [tensor.shape for tensor in op.outputs]

    def holds(*variables: Tensor) -> Tensor:
        (result,) = _call(op, op.attrs["cond"], variables, condition)
        return result if result.dtype == dtypes.bool_ else apply_op("ToBool", result)

    def following(*variables: Tensor) -> list[Tensor]:
        results = _call(op, op.attrs["body"], variables, body)
        for tensor, shape in zip(results, invariants, strict=True):
            tensor.set_shape(shape)
        return results

    parallel = op.attrs["parallel_iterations"]
    after = while_loop(holds, following, list(inputs), invariants, parallel, return_same_structure=True)
    return flatten(after)


_BUILDERS = {Role.IF: _build_if, Role.CASE: _build_case, Role.WHILE: _build_while}


# Splitting


@dataclass(frozen=True, slots=True)
class _Passed:
    """A value passed to the backward body: an input of the forward body, or one of its outputs."""

    is_input: bool
    place: int


@dataclass(frozen=True, slots=True)
class _Parts:
    """The result of splitting a body.

    Attributes:
        forward: the body, with additional outputs.
        added: their shapes, as far as they do not depend on the branches taken.
        backward: from the gradients of outputs and the values passed to gradients of inputs.
        passed: the values passed.
        places: the indices of the inputs with gradients.
    """

    forward: FuncGraph
    added: list[Dims]
    backward: FuncGraph
    passed: list[_Passed]
    places: list[int]


class _Splitting:
    """Differentiates a copy of a body and splits it.

    Constant: the copy with its inputs and outputs; the operations of it that compute gradients. Growing: the values to pass.
    """

    def __init__(self, body: FuncGraph, arrived: Sequence[bool]) -> None:
        self._name = body.name
        self._whole = FuncGraph(body.name, functions=body.functions)
        self._inputs, self._outputs, copies = copy_body(body, self._whole)
        self._controls = [copies[op] for op in body.control_outputs]
        self._arrived: list[Tensor] = []
        self._passed: dict[Tensor, _Passed] = {}
        self._added: list[Tensor] = []
        count = self._whole.version
        self._results = self._differentiate(arrived)
        made = self._whole.get_operations()[count:]
        places = self._places
        self._backward = [op for op in made if places is None or op not in places.added]

    def _differentiate(self, arrived: Sequence[bool]) -> list[Any]:
        whole = self._whole
        targets = [tensor for tensor, there in zip(self._outputs, arrived, strict=True) if there]
        sources = [tensor for tensor in self._inputs if is_trainable(tensor.dtype)]
        with whole.as_default(), whole.name_scope("gradients"):
            self._arrived = [whole.add_input(tensor.dtype, tensor.dims, "gradient") for tensor in targets]
            walk = Walk(targets, sources, set(), False, False, AggregationMethod.DEFAULT)
            for target, gradient in zip(targets, self._arrived, strict=True):
                walk.add(target, gradient)
            walk.run()
            found = [walk.total(tensor) for tensor in self._inputs]
            self._places = None if walk.contexts is None else walk.contexts.places
            return [None if each is None else convert_to_tensor(each) for each in found]

    def parts(self) -> _Parts:
        backward = FuncGraph(f"{self._name}_backward", functions=self._whole.functions)
        places = [place for place, result in enumerate(self._results) if result is not None]
        with backward.as_default():
            replacements = {
                tensor: backward.add_input(tensor.dtype, tensor.dims, "gradient") for tensor in self._arrived
            }
            mine = set(self._backward)
            used = [tensor for op in self._backward for tensor in op.inputs if tensor.op not in mine]
            results = [self._results[place] for place in places]
            for tensor in (*used, *(each for each in results if each.op not in mine)):
                self._pass_value(tensor, backward, replacements)
            copy_operations(
                [op for op in self._backward if op.row.role is not Role.PLACEHOLDER], backward, replacements
            )
        backward.outputs = [replacements[result] for result in results]
        forward = self._forward(mine)
        return _Parts(
            forward, [self._dims(t) for t in self._added], backward, list(self._passed.values()), places
        )

    def _guards(self, tensor: Tensor) -> tuple[Guard, ...]:
        return () if self._places is None else self._places.behind(tensor).guards

    def _dims(self, tensor: Tensor) -> Dims:
        return tensor.dims if not self._guards(tensor) or shapes.is_fully_defined(tensor.dims) else None

    def _pass_value(self, tensor: Tensor, backward: FuncGraph, replacements: dict[Tensor, Tensor]) -> None:
        """Pass a value of the forward body to the backward body; it is dead there if it is dead in the forward body."""
        if tensor in replacements:
            return
        guards = self._guards(tensor)
        for pred, _ in guards:
            self._pass_value(pred, backward, replacements)
        if tensor in self._inputs:
            self._passed[tensor] = _Passed(True, self._inputs.index(tensor))
        elif tensor in self._outputs:
            self._passed[tensor] = _Passed(False, self._outputs.index(tensor))
        else:
            self._passed[tensor] = _Passed(False, len(self._outputs) + len(self._added))
            self._added.append(tensor)
        given = backward.add_input(tensor.dtype, self._dims(tensor), "saved", variable_dims(tensor))
        for pred, side in guards:
            given = backward.create_op("Switch", [given, replacements[pred]]).outputs[side]
        given.set_shape(TensorShape(tensor.dims))
        replacements[tensor] = given

    def _forward(self, without: set[Operation]) -> FuncGraph:
        forward = FuncGraph(f"{self._name}_forward", functions=self._whole.functions)
        replacements = _inputs_of(self._inputs, forward)
        operations = [op for op in self._whole.get_operations() if op not in without]
        copies = copy_operations(operations, forward, replacements)
        with forward.as_default():
            added = [
                _merge_with_dummy(
                    replacements[tensor], [(replacements[p], s) for p, s in self._guards(tensor)]
                )
                for tensor in self._added
            ]
        forward.outputs = [*(replacements[tensor] for tensor in self._outputs), *added]
        forward.control_outputs = [copies[op] for op in self._controls]
        return forward


def _inputs_of(inputs: Sequence[Tensor], graph: FuncGraph) -> dict[Tensor, Tensor]:
    return {
        tensor: graph.add_input(tensor.dtype, tensor.dims, tensor.op.name, variable_dims(tensor))
        for tensor in inputs
    }


def copy_body(
    body: FuncGraph, graph: FuncGraph
) -> tuple[list[Tensor], list[Tensor], dict[Operation, Operation]]:
    """Copy a body into an empty one; returns the inputs and outputs there, and from each operation to its copy."""
    replacements = _inputs_of(body.inputs, graph)
    inputs = list(replacements.values())
    copies = copy_operations(body.get_operations(), graph, replacements)
    return inputs, [replacements[tensor] for tensor in body.outputs], copies


def _merge_with_dummy(tensor: Tensor, guards: Sequence[Guard]) -> Tensor:
    """A tensor of a branch, merged with a dummy of the same dtype, and of its shape if that is known, for the other branch."""
    dims = tensor.dims
    for pred, side in reversed(guards):
        switched = apply_tuple_op("Switch", _dummy(tensor), pred)[1 - side]
        if shapes.is_fully_defined(dims) and tensor.dtype.base_dtype not in _WITHOUT_SHAPE:
            switched = apply_op("Fill", np.array(dims, np.int32), switched)
        tensor = apply_tuple_op("Merge", [tensor, switched][:: 1 - 2 * side])[0]
    return tensor


_WITHOUT_SHAPE = (dtypes.resource, dtypes.variant)


def _dummy(tensor: Tensor) -> Tensor:
    dtype = tensor.dtype.base_dtype
    if dtype == dtypes.variant:
        return apply_op("EmptyTensorList", -1, -1, element_dtype=dtypes.float32)
    if dtype == dtypes.resource:
        return apply_tuple_op("TensorArrayV3", 0, dtype=dtypes.float32)[0]
    return constant(np.zeros((), dtype.numpy) if dtype != dtypes.string else "", dtype)


# Calls


def _add_function(graph: BaseGraph, body: FuncGraph) -> NameAttrList:
    """Add a body to the library under a unique name."""
    base, count = body.name, 0
    while body.name in graph.functions:
        count += 1
        body.name = f"{base}_{count}"
    graph.add_function(body.as_function())
    return NameAttrList(body.name)


def _convert_to_call(op: Operation, parts: _Parts) -> None:
    """Change an operation to a call of the forward body, with its additional outputs."""
    row = registry.lookup(_call_type(op))
    types = [tensor.dtype.base_dtype for tensor in parts.forward.outputs]
    attrs = {key: value for key, value in op.attrs.items() if key.startswith("_")}
    attrs |= {"f": _add_function(op.graph, parts.forward), "Tout": types}
    attrs = complete_attrs(row.definition, op.name, attrs, [tensor.dtype for tensor in op.inputs])
    op.become(row, attrs, types[len(op.outputs) :], parts.added)
