"""AddSign and PowerSign (Bello et al., 2017): larger steps where the gradient has the sign of its running mean."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from aioexec.graph.apply import apply_no_output_op, apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.node import Operation, Tensor
from aioexec.ops.state.variable import ResourceVariable
from aioexec.train.optimizers.optimizer import Optimizer, cast_to

SignDecay = Callable[[Any], Any]
"""A function of the global step that returns a factor of the product of signs."""


class _SignOptimizer(Optimizer):
    """The base of both; `factor` is the constant of the formula: alpha, or the logarithm of the base."""

    op_type: str

    def __init__(
        self,
        learning_rate: Any,
        factor: Any,
        beta: Any,
        sign_decay_fn: SignDecay | None,
        use_locking: bool,
        name: str,
    ) -> None:
        super().__init__(use_locking, name)
        self._given = {"learning_rate": learning_rate, "factor": factor, "beta": beta}
        self._sign_decay_fn = sign_decay_fn
        self._tensors: dict[str, Tensor] = {}
        self._decay: Any = 1.0

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], global_step: Any = None, name: str | None = None
    ) -> Operation:
        if self._sign_decay_fn is not None:
            self._decay = self._sign_decay_fn(global_step)
        return super().apply_gradients(grads_and_vars, global_step=global_step, name=name)

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            self._zeros_slot(var, "m", self._name)

    def _prepare(self) -> None:
        self._tensors = {name: convert_to_tensor(value, name=name) for name, value in self._given.items()}
        self._tensors["sign_decay"] = convert_to_tensor(self._decay, name="sign_decay")

    def _scalars(self, var: Any) -> list[Tensor]:
        names = ("learning_rate", "factor", "sign_decay", "beta")
        return [cast_to(self._tensors[name], var) for name in names]

    def _apply_dense(self, grad: Tensor, var: Any) -> Any:
        slot = self.get_slot(var, "m")
        return apply_op(self.op_type, var, slot, *self._scalars(var), grad, use_locking=self._use_locking)

    def _resource_apply_dense(self, grad: Tensor, handle: ResourceVariable) -> Any:
        slot = self.get_slot(handle, "m").handle
        return apply_no_output_op(
            f"Resource{self.op_type}",
            handle.handle,
            slot,
            *self._scalars(handle),
            grad,
            use_locking=self._use_locking,
        )

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Any:
        return self._apply_dense(convert_to_tensor(grad), var)


class AddSignOptimizer(_SignOptimizer):
    """var -= learning_rate * (alpha + sign_decay * sign(g) * sign(m)) * g, with the running mean m of the gradient g."""

    op_type = "ApplyAddSign"

    def __init__(
        self,
        learning_rate: Any = 0.1,
        alpha: Any = 1.0,
        beta: Any = 0.9,
        sign_decay_fn: SignDecay | None = None,
        use_locking: bool = False,
        name: str = "AddSignOptimizer",
    ) -> None:
        super().__init__(learning_rate, alpha, beta, sign_decay_fn, use_locking, name)


class PowerSignOptimizer(_SignOptimizer):
    """var -= learning_rate * base ** (sign_decay * sign(g) * sign(m)) * g, with the running mean m of the gradient g."""

    op_type = "ApplyPowerSign"

    def __init__(
        self,
        learning_rate: Any = 0.1,
        base: float = math.e,
        beta: Any = 0.9,
        sign_decay_fn: SignDecay | None = None,
        use_locking: bool = False,
        name: str = "PowerSignOptimizer",
    ) -> None:
        super().__init__(learning_rate, math.log(base), beta, sign_decay_fn, use_locking, name)
