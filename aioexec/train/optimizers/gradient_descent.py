"""The optimizers: gradient descent, momentum, Adam."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioexec.graph.apply import apply_no_output_op, apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.node import Operation, Tensor
from aioexec.ops.control_flow.dependencies import group
from aioexec.ops.math.math_functions import sqrt
from aioexec.ops.state import sparse_updates as sparse_updates  # registers sparse updates
from aioexec.ops.state.assignments import assign, assign_sub
from aioexec.ops.state.scatter_updates import scatter_add
from aioexec.ops.state.variable import ResourceVariable, is_resource_variable
from aioexec.ops.training import optimizer_updates as optimizer_updates  # registers update ops
from aioexec.train.optimizers.optimizer import Optimizer, cast_to


class GradientDescentOptimizer(Optimizer):
    """var -= learning_rate * gradient."""

    def __init__(self, learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent") -> None:
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._rate: Any = None

    def _prepare(self) -> None:
        self._rate = convert_to_tensor(self._call_if_callable(self._learning_rate), name="learning_rate")

    def _apply_dense(self, grad: Tensor, var: Any) -> Any:
        return apply_op(
            "ApplyGradientDescent", var, cast_to(self._rate, var), grad, use_locking=self._use_locking
        )

    def _resource_apply_dense(self, grad: Tensor, handle: ResourceVariable) -> Any:
        rate = cast_to(self._rate, handle)
        return apply_no_output_op(
            "ResourceApplyGradientDescent", handle.handle, rate, grad, use_locking=self._use_locking
        )

    def _apply_sparse_duplicate_indices(self, grad: IndexedSlices, var: Any) -> Any:
        step = IndexedSlices(grad.values * cast_to(self._rate, var), grad.indices, grad.dense_shape)
        return var.scatter_sub(step, use_locking=self._use_locking)

    def _resource_apply_sparse_duplicate_indices(
        self, grad: Tensor, handle: ResourceVariable, indices: Tensor
    ) -> Any:
        step = -grad * cast_to(self._rate, handle)
        return apply_no_output_op("ResourceScatterAdd", handle.handle, indices, step)


class MomentumOptimizer(Optimizer):
    """accumulation = momentum * accumulation + gradient; var -= learning_rate * accumulation.

    With `use_nesterov`: var -= learning_rate * (gradient + momentum * accumulation).
    """

    def __init__(
        self,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._momentum = momentum
        self._use_nesterov = use_nesterov
        self._rate: Any = None
        self._keep: Any = None

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            self._zeros_slot(var, "momentum", self._name)

    def _prepare(self) -> None:
        self._rate = convert_to_tensor(self._call_if_callable(self._learning_rate), name="learning_rate")
        self._keep = convert_to_tensor(self._call_if_callable(self._momentum), name="momentum")

    def _options(self) -> dict[str, Any]:
        return {"use_locking": self._use_locking, "use_nesterov": self._use_nesterov}

    def _apply_dense(self, grad: Tensor, var: Any) -> Any:
        rate, keep = cast_to(self._rate, var), cast_to(self._keep, var)
        return apply_op(
            "ApplyMomentum", var, self.get_slot(var, "momentum"), rate, grad, keep, **self._options()
        )

    def _resource_apply_dense(self, grad: Tensor, handle: ResourceVariable) -> Any:
        rate, keep = cast_to(self._rate, handle), cast_to(self._keep, handle)
        slot = self.get_slot(handle, "momentum").handle
        return apply_no_output_op(
            "ResourceApplyMomentum", handle.handle, slot, rate, grad, keep, **self._options()
        )

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Any:
        rate, keep = cast_to(self._rate, var), cast_to(self._keep, var)
        slot = self.get_slot(var, "momentum")
        return apply_op(
            "SparseApplyMomentum", var, slot, rate, grad.values, grad.indices, keep, **self._options()
        )

    def _resource_apply_sparse(self, grad: Tensor, handle: ResourceVariable, indices: Tensor) -> Any:
        rate, keep = cast_to(self._rate, handle), cast_to(self._keep, handle)
        slot = self.get_slot(handle, "momentum").handle
        return apply_no_output_op(
            "ResourceSparseApplyMomentum", handle.handle, slot, rate, grad, indices, keep, **self._options()
        )


class AdamOptimizer(Optimizer):
    """Adam (Kingma and Ba, 2014): steps of about the learning rate, scaled by running means of the gradient and its square.

    `epsilon` is added to the root of the mean square, as in the formula just before section 2.1 of the paper (epsilon hat).
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adam",
    ) -> None:
        super().__init__(use_locking, name)
        self._hyper = {"learning_rate": learning_rate, "beta1": beta1, "beta2": beta2, "epsilon": epsilon}
        self._tensors: dict[str, Tensor] = {}
        self._read: list[Tensor | None] = []

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        first = min(var_list, key=lambda var: str(var.name))
        for name in ("beta1", "beta2"):
            self._create_non_slot_variable(self._call_if_callable(self._hyper[name]), f"{name}_power", first)
        for var in var_list:
            self._zeros_slot(var, "m", self._name)
            self._zeros_slot(var, "v", self._name)

    def _prepare(self) -> None:
        self._tensors = {
            name: convert_to_tensor(self._call_if_callable(value), name=name)
            for name, value in self._hyper.items()
        }
        self._read = [
            None if is_resource_variable(power) else power.read_value()
            for power in self._get_beta_accumulators()
        ]

    def _powers(self) -> list[Tensor]:
        """The powers at the beginning of the step; a reference is read once, since later reads may wait for the update."""
        kept = zip(self._get_beta_accumulators(), self._read, strict=True)
        return [power.value() if read is None else read for power, read in kept]

    def _get_beta_accumulators(self) -> tuple[Any, Any]:
        return self._get_non_slot_variable("beta1_power"), self._get_non_slot_variable("beta2_power")

    def _scalars(self, var: Any) -> list[Tensor]:
        """beta1_power, beta2_power, learning rate, beta1, beta2, epsilon in the dtype of the variable."""
        powers = [cast_to(power, var) for power in self._powers()]
        names = ("learning_rate", "beta1", "beta2", "epsilon")
        return powers + [cast_to(self._tensors[name], var) for name in names]

    def _apply_dense(self, grad: Tensor, var: Any) -> Any:
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        return apply_op("ApplyAdam", var, m, v, *self._scalars(var), grad, use_locking=self._use_locking)

    def _resource_apply_dense(self, grad: Tensor, handle: ResourceVariable) -> Any:
        handles = [var.handle for var in (handle, self.get_slot(handle, "m"), self.get_slot(handle, "v"))]
        return apply_no_output_op(
            "ResourceApplyAdam", *handles, *self._scalars(handle), grad, use_locking=self._use_locking
        )

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Any:
        return self._apply_rows(grad.values, var, grad.indices)

    def _resource_apply_sparse(self, grad: Tensor, handle: ResourceVariable, indices: Tensor) -> Any:
        return self._apply_rows(grad, handle, indices)

    def _apply_rows(self, grad: Tensor, var: Any, indices: Tensor) -> Any:
        """The means of all rows decay, the given rows add their gradients, and the whole variable is updated."""
        beta1_power, beta2_power, rate, beta1, beta2, epsilon = self._scalars(var)
        rate = rate * sqrt(1 - beta2_power) / (1 - beta1_power)
        m_after = self._decayed(self.get_slot(var, "m"), beta1, grad * (1 - beta1), indices)
        v_after = self._decayed(self.get_slot(var, "v"), beta2, grad * grad * (1 - beta2), indices)
        m, v = convert_to_tensor(m_after), convert_to_tensor(v_after)
        moved = assign_sub(var, rate * m / (sqrt(v) + epsilon), use_locking=self._use_locking)
        return group(moved.op, m_after.op, v_after.op)

    def _decayed(self, slot: Any, beta: Tensor, addend: Tensor, indices: Tensor) -> Any:
        """A running mean after a step in which only some rows have gradients."""
        less = assign(slot, slot.value() * beta, use_locking=self._use_locking)
        with get_default_graph().control_dependencies([less.op]):
            return scatter_add(slot, indices, addend, use_locking=self._use_locking)

    def _finish(self, update_ops: Sequence[Any], name_scope: str) -> Operation:
        """Multiply the powers of the betas by the betas, after the updates."""
        graph = get_default_graph()
        with graph.control_dependencies(
            [update if isinstance(update, Operation) else update.op for update in update_ops]
        ):
            powers = self._get_beta_accumulators()
            with graph.colocate_with(powers[0].op):
                updates = [
                    power.assign(before * self._tensors[name], self._use_locking, read_value=False)
                    for power, before, name in zip(powers, self._powers(), ("beta1", "beta2"), strict=True)
                ]
        return group(*update_ops, *updates, name=name_scope)
