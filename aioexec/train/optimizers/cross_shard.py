"""CrossShardOptimizer: adds up the gradients of all shards. On the CPU there is one, so that it is its inner optimizer."""

from __future__ import annotations

import logging
from typing import Any

from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.node import Tensor
from aioexec.ops.array.identity import identity
from aioexec.ops.training.losses import Reduction
from aioexec.train.optimizers.optimizer import Optimizer

logger = logging.getLogger(__name__)


class CrossShardOptimizer(Optimizer):
    """An optimizer that averages the gradients of all shards, or adds them up; here there is one shard.

    Args:
        opt: the optimizer that applies the gradients.
        reduction: `losses.Reduction.MEAN` or `SUM`.
        group_assignment: has no effect on the CPU.

    Raises:
        GraphValueError: another reduction.
        GraphTypeError: `opt` is no optimizer.
    """

    def __init__(
        self,
        opt: Optimizer,
        reduction: str = Reduction.MEAN,
        name: str = "CrossShardOptimizer",
        group_assignment: Any = None,
    ) -> None:
        if reduction not in (Reduction.SUM, Reduction.MEAN):
            raise GraphValueError(f"Unsupported reduction: {reduction}.")
        if not isinstance(opt, Optimizer):
            raise GraphTypeError(
                f"CrossShardOptimizer only works with tf.training.Optimizer and not Optimizer_v2. Got {opt!r}"
            )
        super().__init__(False, name)
        self._opt = opt

    def compute_gradients(self, loss: Any, var_list: Any = None, *args: Any, **kwargs: Any) -> Any:
        """The gradients of the loss; see `Optimizer.compute_gradients`."""
        logger.warning(
            "CrossShardOptimizer should be used within a tpu_shard_context, but got unset number_of_shards. Assuming 1."
        )
        return self._opt.compute_gradients(loss, var_list, *args, **kwargs)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Apply the gradients by the inner optimizer."""
        return self._opt.apply_gradients(grads_and_vars, global_step, name)

    def get_slot(self, var: Any, name: str) -> Any:
        """A slot of the inner optimizer."""
        return self._opt.get_slot(var, name)

    def get_slot_names(self) -> Any:
        """The names of the slots of the inner optimizer."""
        return self._opt.get_slot_names()

    def variables(self) -> Any:
        """The variables of the inner optimizer."""
        return self._opt.variables()


def cross_replica_sum(x: Any, group_assignment: Any = None, name: str | None = None) -> Tensor:
    """Return the sum over all replicas: with one replica, the tensor itself."""
    same: Tensor = identity(x, name=name)
    return same
