"""Weight decay apart from the gradient (Loshchilov and Hutter, 2017), as an extension of any optimizer.

The variables are decayed before the update, so that it suits optimizers whose update does not depend on the variable.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aioexec.graph.apply import apply_no_output_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.node import Operation, Tensor
from aioexec.ops.array.gathering import gather
from aioexec.ops.control_flow.dependencies import no_op
from aioexec.ops.state.assignments import assign_sub
from aioexec.ops.state.scatter_updates import scatter_add
from aioexec.ops.state.variable import ResourceVariable
from aioexec.train.optimizers.gradient_descent import AdamOptimizer, MomentumOptimizer
from aioexec.train.optimizers.optimizer import Optimizer, cast_to


class DecoupledWeightDecayExtension:
    """A base class that comes before an optimizer's: it subtracts `weight_decay` times the variable before each update.

    Args:
        weight_decay: a float, a tensor or a function that returns one.
        kwargs: the arguments of the optimizer.

    State: `_decay_vars` are the variables to decay, None for all; it is set by `minimize` and `apply_gradients`.
    """

    _use_locking: bool

    def __init__(self, weight_decay: Any, **kwargs: Any) -> None:
        self._weight_decay = weight_decay
        self._decay_vars: list[Any] | None = None
        self._decay_tensor: Any = None
        super().__init__(**kwargs)

    def minimize(
        self,
        loss: Any,
        global_step: Any = None,
        var_list: Any = None,
        gate_gradients: int = Optimizer.GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Any = None,
        decay_var_list: Any = None,
    ) -> Operation:
        """As `Optimizer.minimize`; `decay_var_list`: the variables to decay, by default all that are updated."""
        optimizer: Any = self
        pairs = optimizer.compute_gradients(
            loss, var_list, gate_gradients, aggregation_method, colocate_gradients_with_ops, grad_loss
        )
        return self.apply_gradients(pairs, global_step, name, decay_var_list)

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, Any]],
        global_step: Any = None,
        name: str | None = None,
        decay_var_list: Any = None,
    ) -> Operation:
        """As `Optimizer.apply_gradients`; `decay_var_list`: the variables to decay, by default all."""
        self._decay_vars = list(decay_var_list) if decay_var_list else None
        base: Any = super()
        applied: Operation = base.apply_gradients(grads_and_vars, global_step=global_step, name=name)
        return applied

    def _prepare(self) -> None:
        decay = self._weight_decay() if callable(self._weight_decay) else self._weight_decay
        self._decay_tensor = convert_to_tensor(decay, name="weight_decay")
        base: Any = super()
        base._prepare()

    def _decays(self, var: Any) -> bool:
        return self._decay_vars is None or any(var is each for each in self._decay_vars)

    def _decay_node(self, var: Any) -> Any:
        """The node that decays a variable."""
        if not self._decays(var):
            return no_op()
        less = convert_to_tensor(var) * cast_to(self._decay_tensor, var)
        return assign_sub(var, less, use_locking=self._use_locking).op

    def _decay_rows(self, var: Any, indices: Tensor) -> Any:
        """The node that decays rows of a variable."""
        if not self._decays(var):
            return no_op()
        less = gather(var, indices) * -cast_to(self._decay_tensor, var)
        if isinstance(var, ResourceVariable):
            return apply_no_output_op("ResourceScatterAdd", var.handle, indices, less)
        return scatter_add(var, indices, less, use_locking=self._use_locking).op

    def _apply_dense(self, grad: Tensor, var: Any) -> Any:
        base: Any = super()
        with get_default_graph().control_dependencies([self._decay_node(var)]):
            return base._apply_dense(grad, var)

    def _resource_apply_dense(self, grad: Tensor, handle: ResourceVariable) -> Any:
        base: Any = super()
        with get_default_graph().control_dependencies([self._decay_node(handle)]):
            return base._resource_apply_dense(grad, handle)

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Any:
        base: Any = super()
        with get_default_graph().control_dependencies([self._decay_rows(var, grad.indices)]):
            return base._apply_sparse(grad, var)

    def _resource_apply_sparse(self, grad: Tensor, handle: ResourceVariable, indices: Tensor) -> Any:
        base: Any = super()
        with get_default_graph().control_dependencies([self._decay_rows(handle, indices)]):
            return base._resource_apply_sparse(grad, handle, indices)


def extend_with_decoupled_weight_decay(base_optimizer: type[Optimizer]) -> Any:
    """Return a subclass of an optimizer with weight decay; its first argument is `weight_decay`."""

    class OptimizerWithDecoupledWeightDecay(DecoupledWeightDecayExtension, base_optimizer):  # type: ignore[misc, valid-type]
        """The optimizer with decoupled weight decay."""

    return OptimizerWithDecoupledWeightDecay


class MomentumWOptimizer(DecoupledWeightDecayExtension, MomentumOptimizer):
    """Momentum with decoupled weight decay."""

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "MomentumW",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(
            weight_decay,
            learning_rate=learning_rate,
            momentum=momentum,
            use_locking=use_locking,
            name=name,
            use_nesterov=use_nesterov,
        )


class AdamWOptimizer(DecoupledWeightDecayExtension, AdamOptimizer):
    """Adam with decoupled weight decay."""

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "AdamW",
    ) -> None:
        super().__init__(
            weight_decay,
            learning_rate=learning_rate,
            beta1=beta1,
            beta2=beta2,
            epsilon=epsilon,
            use_locking=use_locking,
            name=name,
        )
