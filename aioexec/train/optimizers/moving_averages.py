"""Exponential moving averages: variables that move towards values by a fraction of the difference in each step.

`ExponentialMovingAverage` keeps one for each variable, to evaluate (or restore) a model with averaged parameters.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aioexec import dtypes
from aioexec.errors import GraphTypeError
from aioexec.graph.apply import apply_op, graph_of
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Operation, Tensor
from aioexec.ops.control_flow.cond import cond
from aioexec.ops.control_flow.dependencies import group
from aioexec.ops.math.cast import cast
from aioexec.ops.state.assignments import assign, assign_sub, is_variable_initialized
from aioexec.ops.state.initialization import global_variables, moving_average_variables, trainable_variables
from aioexec.ops.state.initializers import Zeros
from aioexec.ops.state.variable import Variable
from aioexec.ops.state.variable_scope import get_variable, get_variable_scope, variable_scope
from aioexec.train.optimizers import slots


def assign_moving_average(
    variable: Any, value: Any, decay: Any, zero_debias: bool = True, name: str | None = None
) -> Any:
    """Update a variable: variable * decay + value * (1 - decay).

    Args:
        zero_debias: correct for the initial value zero, with two more variables (`biased`: the uncorrected average,
            `local_step`: the number of steps).

    Returns:
        The variable after the update.
    """
    arguments = [variable, value, decay]
    with graph_of(arguments).as_default() as graph, graph.name_scope(name or "AssignMovingAvg") as scope:
        part = cast(convert_to_tensor(1.0 - decay, name="decay"), variable.dtype.base_dtype)
        if zero_debias:
            return _without_bias(variable, value, part)
        return assign_sub(variable, (_read_late(variable) - _read_late(value)) * part, name=scope)


def _read_late(value: Any) -> Any:
    """Read a variable when the update runs: it may have control edges from the training step, whose result it then sees."""
    return value.read_value() if isinstance(value, Variable) else value


def _without_bias(variable: Any, value: Any, part: Tensor) -> Any:
    scope_name = get_default_graph().get_name_scope()
    with variable_scope(variable.op.name, values=[variable, value, part]):
        with get_default_graph().control_dependencies(None), get_default_graph().colocate_with(variable.op):
            biased, steps = (
                _debias_variable(variable, "biased", variable.shape),
                _debias_variable(variable, "local_step", []),
            )
        after = assign_sub(biased, (_read_late(biased) - _read_late(value)) * part)
        correction = 1 - apply_op("Pow", 1.0 - part, steps.assign_add(1))
        return assign(variable, after / correction, name=f"{scope_name}/")


def _debias_variable(variable: Any, name: str, shape: Any) -> Any:
    """A zero-initialized variable in the current scope; its name is made unique, unless the scope reuses variables."""
    scope = get_variable_scope()
    taken = {held.op.name for held in scope.global_variables()}
    unique, number = name, 0
    while not scope.reuse and f"{scope.name}/{unique}" in taken:
        number += 1
        unique = f"{name}_{number}"
    dtype = variable.dtype.base_dtype
    return get_variable(unique, shape=shape, dtype=dtype, initializer=Zeros(), trainable=False)


def weighted_moving_average(
    value: Any,
    decay: Any,
    weight: Any,
    truediv: bool = True,
    collections: Any = None,
    name: str | None = None,
) -> Tensor:
    """The weighted moving average of a value: average of value * weight / average of weight.

    Args:
        truediv: divide integers as real numbers.
        collections: of the two variables; global ones by default.
    """
    listed = [GraphKeys.GLOBAL_VARIABLES] if collections is None else collections
    with variable_scope(name, "WeightedMovingAvg", [value, weight, decay]) as scope:
        kept = [
            get_variable(
                called,
                shape=of.shape,
                dtype=of.dtype.base_dtype,
                initializer=Zeros(),
                trainable=False,
                collections=listed,
            )
            for called, of in (("value_x_weight", value), ("weight", weight))
        ]
        numerator = assign_moving_average(kept[0], value * weight, decay, zero_debias=False)
        denominator = assign_moving_average(kept[1], weight, decay, zero_debias=False)
        above, below = convert_to_tensor(numerator), convert_to_tensor(denominator)
        is_whole = above.dtype.base_dtype.is_integer and not truediv
        return apply_op("FloorDiv" if is_whole else "RealDiv", above, below, name=scope.name)


class ExponentialMovingAverage:
    """Moving averages of variables and tensors, all with one decay.

    Args:
        decay: the fraction of the average that is kept in each step, near 1.
        num_updates: a step count; with it the decay is min(decay, (1 + num_updates) / (10 + num_updates)), so that averages
            follow faster in the beginning.
        zero_debias: correct averages of tensors for their initial value zero.
        name: of the averages, below their variables: `<variable>/<name>`.

    State: `_averages` maps averaged variables and tensors to their averages.
    """

    def __init__(
        self,
        decay: Any,
        num_updates: Any = None,
        zero_debias: bool = False,
        name: str = "ExponentialMovingAverage",
    ) -> None:
        self._decay = decay
        self._num_updates = num_updates
        self._zero_debias = zero_debias
        self._name = name
        self._averages: dict[Any, Any] = {}

    @property
    def name(self) -> str:
        return self._name

    def apply(self, var_list: Iterable[Any] | None = None) -> Operation:
        """An operation that updates the averages; makes those that do not exist yet.

        Averaged variables are added to the collection `moving_average_variables`; their averages start at their initial values.

        Args:
            var_list: variables or tensors; the trainable variables by default.

        Raises:
            GraphTypeError: a value is not of floating dtype.
        """
        followed = trainable_variables() if var_list is None else list(var_list)
        from_zero: list[Any] = []
        for var in followed:
            if not var.dtype.base_dtype.is_floating:
                raise GraphTypeError(f"The variables must be half, float, or double: {var.name}")
            if var not in self._averages:
                self._averages[var] = self._new_average(var)
                if self._zero_debias and not isinstance(var, Variable):
                    from_zero.append(var)
        with get_default_graph().name_scope(self._name) as scope:
            decay = self._current_decay()
            updates = [
                assign_moving_average(self._averages[var], var, decay, zero_debias=var in from_zero)
                for var in followed
            ]
            return group(*updates, name=scope)

    def _new_average(self, var: Any) -> Any:
        graph = get_default_graph()
        with graph.control_dependencies(None):
            if not isinstance(var, Variable):
                return slots.create_zeros_slot(var, self._name, colocate_with_primary=False)
            with graph.device(var.device):
                start = cond(is_variable_initialized(var), var.read_value, lambda: var.initial_value)
            average = slots.create_slot(var, start, self._name)
            graph.add_to_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, var)
            return average

    def _current_decay(self) -> Tensor:
        decay = convert_to_tensor(self._decay, dtypes.float32, "decay")
        if self._num_updates is None:
            return decay
        steps = cast(self._num_updates, dtypes.float32, name="num_updates")
        return apply_op("Minimum", decay, (1.0 + steps) / (10.0 + steps))

    def average(self, var: Any) -> Any:
        """The variable with the average of `var`, None if there is none."""
        return self._averages.get(var)

    def average_name(self, var: Any) -> str:
        """The name of the average of `var`, existing or not, for lookup in a checkpoint."""
        average = self._averages.get(var)
        if average is not None:
            return str(average.op.name)
        return get_default_graph().unique_name(f"{var.op.name}/{self._name}", mark_as_used=False)

    def variables_to_restore(self, moving_avg_variables: Iterable[Any] | None = None) -> dict[str, Any]:
        """From names in a checkpoint to variables, such that averaged ones are restored from their averages.

        Args:
            moving_avg_variables: the trainable ones and those averaged so far, by default.
        """
        if moving_avg_variables is None:
            moving_avg_variables = trainable_variables() + moving_average_variables()
        followed = list(dict.fromkeys(moving_avg_variables))
        by_name = {self.average_name(var): var for var in followed}
        names = {var.name for var in followed}
        for var in global_variables():
            if var.name not in names:
                by_name.setdefault(var.op.name, var)
        return by_name
