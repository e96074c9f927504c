"""Variants of Adam: Nadam, AdaMax, and one that updates only the rows that have gradients."""

from __future__ import annotations

from typing import Any

from aioexec.graph.apply import apply_no_output_op, apply_op
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Tensor
from aioexec.ops.array.gathering import gather
from aioexec.ops.control_flow.dependencies import group
from aioexec.ops.math import math_functions
from aioexec.ops.math.extremes import maximum
from aioexec.ops.math.math_functions import sqrt, square
from aioexec.ops.state.scatter_updates import scatter_add, scatter_sub, scatter_update
from aioexec.ops.state.variable import ResourceVariable
from aioexec.train.optimizers.gradient_descent import AdamOptimizer


class LazyAdamOptimizer(AdamOptimizer):
    """Adam whose running means of rows without a gradient stay as they are, as do the rows themselves.

    Dense gradients are applied as Adam's.
    """

    def _apply_rows(self, grad: Tensor, var: Any, indices: Tensor) -> Any:
        beta1_power, beta2_power, rate, beta1, beta2, epsilon = self._scalars(var)
        rate = rate * sqrt(1 - beta2_power) / (1 - beta1_power)
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        m_rows = beta1 * gather(m, indices) + (1 - beta1) * grad
        v_rows = beta2 * gather(v, indices) + (1 - beta2) * square(grad)
        updates = [
            scatter_update(m, indices, m_rows, use_locking=self._use_locking),
            scatter_update(v, indices, v_rows, use_locking=self._use_locking),
            scatter_sub(
                var, indices, rate * m_rows / (sqrt(v_rows) + epsilon), use_locking=self._use_locking
            ),
        ]
        return group(*(update.op for update in updates))


class NadamOptimizer(AdamOptimizer):
    """Adam with Nesterov's momentum (Dozat, 2015)."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adam",
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, use_locking, name)

    def _apply_dense(self, grad: Tensor, var: Any) -> Any:
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        options: dict[str, Any] = {"use_locking": self._use_locking, "use_nesterov": True}
        return apply_op("ApplyAdam", var, m, v, *self._scalars(var), grad, **options)

    def _resource_apply_dense(self, grad: Tensor, handle: ResourceVariable) -> Any:
        handles = [var.handle for var in (handle, self.get_slot(handle, "m"), self.get_slot(handle, "v"))]
        options: dict[str, Any] = {"use_locking": self._use_locking, "use_nesterov": True}
        return apply_no_output_op("ResourceApplyAdam", *handles, *self._scalars(handle), grad, **options)

    def _apply_rows(self, grad: Tensor, var: Any, indices: Tensor) -> Any:
        """The means of all rows decay; the given rows add their gradients, and only these are moved."""
        beta1_power, beta2_power, rate, beta1, beta2, epsilon = self._scalars(var)
        rate = rate * sqrt(1 - beta2_power) / (1 - beta1_power)
        m = self._decayed(self.get_slot(var, "m"), beta1, grad * (1 - beta1), indices)
        v = self._decayed(self.get_slot(var, "v"), beta2, grad * grad * (1 - beta2), indices)
        ahead = grad * (1 - beta1) + beta1 * gather(m, indices)
        step = -rate * ahead / (sqrt(gather(v, indices)) + epsilon)
        moved = scatter_add(var, indices, step, use_locking=self._use_locking)
        return group(moved.op, m.op, v.op)


class AdaMaxOptimizer(AdamOptimizer):
    """AdaMax (Kingma and Ba, 2014): Adam with the largest gradient so far, decayed, in place of the mean square.

    Rows without a gradient and their means stay as they are.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "AdaMax",
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, use_locking, name)

    def _operands(self, var: Any) -> list[Tensor]:
        """The scalars without the power of the second beta, which the op does not need."""
        beta1_power, _, *others = self._scalars(var)
        return [beta1_power, *others]

    def _apply_dense(self, grad: Tensor, var: Any) -> Any:
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        return apply_op("ApplyAdaMax", var, m, v, *self._operands(var), grad, use_locking=self._use_locking)

    def _resource_apply_dense(self, grad: Tensor, handle: ResourceVariable) -> Any:
        handles = [var.handle for var in (handle, self.get_slot(handle, "m"), self.get_slot(handle, "v"))]
        return apply_no_output_op(
            "ResourceApplyAdaMax", *handles, *self._operands(handle), grad, use_locking=self._use_locking
        )

    def _apply_rows(self, grad: Tensor, var: Any, indices: Tensor) -> Any:
        beta1_power, rate, beta1, beta2, epsilon = self._operands(var)
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        m_rows = gather(m, indices) * beta1 + grad * (1 - beta1)
        v_rows = maximum(gather(v, indices) * beta2, math_functions.abs(grad))
        step = -rate / (1 - beta1_power) * (m_rows / (v_rows + epsilon))
        with get_default_graph().control_dependencies([m_rows, v_rows, step]):
            updates = [
                scatter_update(m, indices, m_rows, use_locking=self._use_locking),
                scatter_update(v, indices, v_rows, use_locking=self._use_locking),
                scatter_add(var, indices, step, use_locking=self._use_locking),
            ]
        return group(*(update.op for update in updates))
