"""An optimizer that keeps moving averages of the variables, and a saver that writes these in their place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Operation
from aioexec.ops.control_flow.dependencies import group
from aioexec.ops.state.initialization import global_variables
from aioexec.train.checkpoints.saver import Saver
from aioexec.train.errors import TrainingStateError
from aioexec.train.optimizers.moving_averages import ExponentialMovingAverage
from aioexec.train.optimizers.optimizer import Optimizer


class MovingAverageOptimizer(Optimizer):
    """Applies the gradients by another optimizer, then moves the averages of the variables.

    Args:
        opt: the optimizer.
        average_decay, num_updates: see `aioexec.train.ExponentialMovingAverage`.
        sequential_update: whether the averages are moved after the step, else at the same time.

    State: `_swaps` has the average of a variable by the name of the variable, and the other way round; None before the first
    `apply_gradients`.
    """

    def __init__(
        self,
        opt: Optimizer,
        average_decay: Any = 0.9999,
        num_updates: Any = None,
        sequential_update: bool = True,
    ) -> None:
        super().__init__(False, "MovingAverage")
        self._optimizer = opt
        self._averages = ExponentialMovingAverage(average_decay, num_updates=num_updates)
        self._is_sequential = sequential_update
        self._swaps: dict[str, Any] | None = None

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """As that of the optimizer."""
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], global_step: Any = None, name: str | None = None
    ) -> Operation:
        """Apply gradients by the optimizer, and move the averages of the variables that have one."""
        pairs = list(grads_and_vars)
        step = self._optimizer.apply_gradients(pairs, global_step=global_step, name=name)
        moved = [variable for gradient, variable in pairs if gradient is not None]
        with get_default_graph().control_dependencies([step] if self._is_sequential else []):
            update = self._averages.apply(moved)
        self._swaps = {}
        for variable in moved:
            average = self._averages.average(variable)
            self._swaps[variable.op.name] = average
            self._swaps[average.op.name] = variable
        return group(step, update, name="train_with_avg")

    def swapping_saver(self, var_list: Any = None, name: str = "swapping_saver", **kwargs: Any) -> Saver:
        """Return a saver that writes the averages under the names of the variables, and the variables under theirs.

        Args:
            var_list: variables, in a list or by name in the checkpoint; by default all global ones.
            kwargs: arguments of `Saver`.

        Raises:
            TrainingStateError: no gradients have been applied.
        """
        if self._swaps is None:
            raise TrainingStateError(
                "Must call apply_gradients or minimize before creating the swapping_saver"
            )
        listed = global_variables() if var_list is None else var_list
        if not isinstance(listed, Mapping):
            listed = {variable.op.name: variable for variable in listed}
        swapped = {key: self._swaps.get(variable.op.name, variable) for key, variable in listed.items()}
        return Saver(swapped, name=name, **kwargs)
