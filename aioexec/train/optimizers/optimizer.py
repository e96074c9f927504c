"""Optimizer: makes the operation that updates variables to minimize a loss."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from aioexec import dtypes
from aioexec.errors import GraphTypeError, GraphValueError, UnimplementedError
from aioexec.gradients.backprop import gradients
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.graph import Graph, get_default_graph
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Operation, Tensor
from aioexec.ops.array.unique import unique
from aioexec.ops.control_flow.dependencies import group, tuple_
from aioexec.ops.state.assignments import assign_add
from aioexec.ops.state.initialization import trainable_variables
from aioexec.ops.state.variable import ResourceVariable, Variable, is_resource_variable
from aioexec.ops.state.variable_ops import assign_add_variable_op
from aioexec.train.optimizers import slots

GradientAndVariable = tuple[Any, Any]


class Optimizer:
    """Base of optimizers.

    A subclass implements the update of one variable: `_apply_dense` and `_apply_sparse` for reference variables, the
    `_resource_…` ones for resource variables; and may override `_prepare`, `_create_slots` and `_finish`.

    State: `_slots` is slot name -> (graph, name of the variable) -> variable; `_non_slots` is (name, graph) -> variable.
    """

    GATE_NONE = 0
    GATE_OP = 1
    GATE_GRAPH = 2

    def __init__(self, use_locking: bool, name: str) -> None:
        if not name:
            raise GraphValueError(f"{type(self).__name__}: the optimizer must have a name, got {name!r}")
        self._use_locking = use_locking
        self._name = name
        self._slots: dict[str, dict[tuple[Graph, str], Any]] = {}
        self._non_slots: dict[tuple[str, Graph], Any] = {}

    def get_name(self) -> str:
        return self._name

    def minimize(
        self,
        loss: Any,
        global_step: Any = None,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Any = None,
    ) -> Operation:
        """An operation that takes one step: `compute_gradients`, then `apply_gradients`.

        Args:
            global_step: a variable to increment after the step.

        Raises:
            GraphValueError: the loss depends on none of the variables.
        """
        pairs = self.compute_gradients(
            loss, var_list, gate_gradients, aggregation_method, colocate_gradients_with_ops, grad_loss
        )
        if all(gradient is None for gradient, _ in pairs):
            raise GraphValueError(
                f"No gradients provided for any variable, check your graph for ops that do not support gradients, "
                f"between variables {[str(variable.name) for _, variable in pairs]} and loss {loss!r}"
            )
        return self.apply_gradients(pairs, global_step=global_step, name=name)

    def compute_gradients(
        self,
        loss: Any,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: Any = None,
    ) -> list[GradientAndVariable]:
        """(gradient, variable) for each variable, the gradient None if the loss does not depend on it.

        Args:
            var_list: the trainable variables of the graph by default.
            gate_gradients: GATE_NONE, GATE_OP or GATE_GRAPH: gradients may be used as soon as they are computed, when all of
                the same node are, or when all are.
            grad_loss: the gradient with respect to the loss.
        """
        if callable(loss):
            raise UnimplementedError(
                "compute_gradients: loss must be a tensor; functions are for eager execution"
            )
        if gate_gradients not in (self.GATE_NONE, self.GATE_OP, self.GATE_GRAPH):
            raise GraphValueError(
                f"gate_gradients must be one of: Optimizer.GATE_NONE, GATE_OP, GATE_GRAPH, got {gate_gradients!r}"
            )
        self._check_dtypes([loss])
        variables = _check_variables(trainable_variables() if var_list is None else _flat(var_list))
        found = gradients(
            loss,
            variables,
            grad_ys=grad_loss,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
            gate_gradients=gate_gradients == self.GATE_OP,
            aggregation_method=aggregation_method,
        )
        if gate_gradients == self.GATE_GRAPH and any(gradient is not None for gradient in found):
            found = tuple_(found)
        pairs = list(zip(found, variables, strict=True))
        self._check_dtypes([variable for gradient, variable in pairs if gradient is not None])
        return pairs

    def apply_gradients(
        self, grads_and_vars: Iterable[GradientAndVariable], global_step: Any = None, name: str | None = None
    ) -> Operation:
        """An operation that updates the variables by their gradients; pairs without a gradient are skipped.

        Raises:
            GraphValueError: there is no gradient.
            GraphTypeError: an item is not a pair (gradient, variable).
        """
        pairs = [self._check_pair(gradient, variable) for gradient, variable in grads_and_vars]
        if not pairs:
            raise GraphValueError("No variables provided")
        used = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
        if not used:
            raise GraphValueError(
                f"No gradients provided for any variable: {[variable.name for _, variable in pairs]}"
            )
        graph = get_default_graph()
        with graph.control_dependencies(None):
            self._create_slots([variable for _, variable in used])
        with graph.name_scope(name or self._name) as scope:
            self._prepare()
            updates = [self._update_variable(graph, gradient, variable) for gradient, variable in used]
            if global_step is None:
                train_op = self._finish(updates, scope)
            else:
                with graph.control_dependencies([self._finish(updates, "update")]):
                    train_op = _count_step(graph, global_step, scope)
        train_ops = graph.get_collection_ref(GraphKeys.TRAIN_OP)
        if train_op not in train_ops:
            train_ops.append(train_op)
        return train_op

    def _check_pair(self, gradient: Any, variable: Any) -> GradientAndVariable:
        if not isinstance(variable, Variable):
            raise GraphTypeError(f"apply_gradients: expected a variable to optimize, got {variable!r}")
        if gradient is not None and not isinstance(gradient, IndexedSlices):
            try:
                gradient = convert_to_tensor(gradient)
            except TypeError as error:
                raise GraphTypeError(
                    f"Gradient must be convertible to a Tensor or IndexedSlices, or None: {gradient!r}"
                ) from error
        return gradient, variable

    def _update_variable(self, graph: Graph, gradient: Any, variable: Any) -> Any:
        """The update of one variable, followed by the projection of its constraint, if it has one."""
        with graph.name_scope(f"update_{variable.op.name}"), graph.colocate_with(variable.op):
            if isinstance(gradient, IndexedSlices):
                if variable.constraint is not None:
                    raise GraphValueError(
                        f"variable {variable.name!r} has a constraint, which cannot be applied after a sparse gradient"
                    )
                if is_resource_variable(variable):
                    return self._resource_apply_sparse_duplicate_indices(
                        gradient.values, variable, gradient.indices
                    )
                return self._apply_sparse_duplicate_indices(gradient, variable)
            apply = self._resource_apply_dense if is_resource_variable(variable) else self._apply_dense
            update = apply(gradient, variable)
            if variable.constraint is None:
                return update
            with graph.control_dependencies([update]):
                return variable.assign(
                    variable.constraint(variable.read_value()), self._use_locking, None, False
                )

    def _check_dtypes(self, tensors: Sequence[Any]) -> None:
        allowed = self._valid_dtypes()
        for tensor in tensors:
            dtype = tensor.dtype.base_dtype
            if dtype not in allowed:
                raise GraphValueError(
                    f"{self._name}: invalid dtype {dtype.name} for {tensor.name}, "
                    f"expected one of {sorted(kind.name for kind in allowed)}"
                )

    def _valid_dtypes(self) -> set[dtypes.DType]:
        return {dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64}

    # Slots

    def get_slot(self, var: Any, name: str) -> Any:
        """The slot variable of `var` under this name, or None."""
        return self._slots.get(name, {}).get((var.graph, var.op.name))

    def get_slot_names(self) -> list[str]:
        """The names of slots made so far, sorted."""
        return sorted(self._slots)

    def variables(self) -> list[Any]:
        """All variables that the optimizer has made in the default graph, sorted by name."""
        graph = get_default_graph()
        made = [variable for (_, where), variable in self._non_slots.items() if where is graph]
        made += [
            variable
            for held in self._slots.values()
            for (where, _), variable in held.items()
            if where is graph
        ]
        return sorted(made, key=lambda variable: str(variable.name))

    def _slot(self, slot_name: str, var: Any, make: Any) -> Any:
        held = self._slots.setdefault(slot_name, {})
        key = (var.graph, var.op.name)
        if key not in held:
            held[key] = make()
        return held[key]

    def _get_or_make_slot(self, var: Any, val: Any, slot_name: str, op_name: str) -> Any:
        return self._slot(slot_name, var, lambda: slots.create_slot(var, val, op_name))

    def _get_or_make_slot_with_initializer(
        self, var: Any, initializer: Any, shape: Any, dtype: Any, slot_name: str, op_name: str
    ) -> Any:
        return self._slot(
            slot_name,
            var,
            lambda: slots.create_slot_with_initializer(var, initializer, shape, dtype, op_name),
        )

    def _zeros_slot(self, var: Any, slot_name: str, op_name: str) -> Any:
        return self._slot(slot_name, var, lambda: slots.create_zeros_slot(var, op_name))

    def _create_non_slot_variable(self, initial_value: Any, name: str, colocate_with: Any) -> Any:
        """A variable that belongs to no parameter; a resource variable if `colocate_with` is one, and placed with it."""
        graph = colocate_with.graph
        key = (name, graph)
        if key not in self._non_slots:
            with graph.colocate_with(colocate_with.op):
                self._non_slots[key] = Variable(
                    initial_value,
                    name=name,
                    trainable=False,
                    use_resource=is_resource_variable(colocate_with),
                )
        return self._non_slots[key]

    def _get_non_slot_variable(self, name: str, graph: Graph | None = None) -> Any:
        return self._non_slots.get((name, graph or get_default_graph()))

    # For subclasses

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        """Make the slots of these variables."""

    def _prepare(self) -> None:
        """Make the tensors all updates share."""

    def _apply_dense(self, grad: Tensor, var: Any) -> Any:
        raise NotImplementedError

    def _resource_apply_dense(self, grad: Tensor, handle: ResourceVariable) -> Any:
        raise NotImplementedError

    def _apply_sparse_duplicate_indices(self, grad: IndexedSlices, var: Any) -> Any:
        """Apply slices that may contain a row repeatedly."""
        values, indices = summed_rows(grad.values, grad.indices)
        return self._apply_sparse(IndexedSlices(values, indices, grad.dense_shape), var)

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Any:
        raise NotImplementedError

    def _resource_apply_sparse_duplicate_indices(
        self, grad: Tensor, handle: ResourceVariable, indices: Tensor
    ) -> Any:
        """Apply rows whose indices may be repeated."""
        return self._resource_apply_sparse(*_with_handle(summed_rows(grad, indices), handle))

    def _resource_apply_sparse(self, grad: Tensor, handle: ResourceVariable, indices: Tensor) -> Any:
        raise NotImplementedError

    def _finish(self, update_ops: Sequence[Any], name_scope: str) -> Operation:
        """The operation that runs after all updates."""
        return group(*update_ops, name=name_scope)

    def _call_if_callable(self, param: Any) -> Any:
        return param() if callable(param) else param


def _check_variables(variables: list[Any]) -> list[Any]:
    if not variables:
        raise GraphValueError("No variables to optimize")
    for variable in variables:
        if not isinstance(variable, Variable):
            raise GraphTypeError(f"var_list must hold variables, got {variable!r}")
    return variables


def _flat(variables: Any) -> list[Any]:
    if not isinstance(variables, list | tuple):
        return [variables]
    return [variable for item in variables for variable in _flat(item)]


def _with_handle(
    rows: tuple[Tensor, Tensor], handle: ResourceVariable
) -> tuple[Tensor, ResourceVariable, Tensor]:
    return rows[0], handle, rows[1]


def summed_rows(values: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    """The same slices with repeated rows added up."""
    rows, places = unique(indices)
    return apply_op("UnsortedSegmentSum", values, places, apply_op("Size", rows)), rows


def cast_to(tensor: Tensor, like: Any) -> Tensor:
    """A hyperparameter in the dtype of a variable."""
    dtype = like.dtype.base_dtype
    if tensor.dtype.base_dtype == dtype:
        return tensor
    return apply_op("Cast", tensor, DstT=dtype)


def _count_step(graph: Graph, global_step: Any, name: str) -> Operation:
    """Add 1 to the global step."""
    with graph.colocate_with(global_step.op):
        if is_resource_variable(global_step):
            return assign_add_variable_op(global_step.handle, 1, name=name)
        counted: Operation = assign_add(global_step, 1, name=name).op
        return counted
