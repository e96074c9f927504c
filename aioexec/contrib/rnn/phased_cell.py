"""`PhasedLSTMCell`: an LSTM cell whose units are open in a part of their own period only."""

from __future__ import annotations

from typing import Any

from aioexec import dtypes
from aioexec.contrib.rnn.linear import Linear
from aioexec.graph.node import Tensor
from aioexec.ops.array.identity import stop_gradient
from aioexec.ops.array.joining import split
from aioexec.ops.math.arithmetic import mod
from aioexec.ops.math.cast import cast
from aioexec.ops.math.comparison import where_v2
from aioexec.ops.math.math_functions import exp, log, sigmoid, tanh
from aioexec.ops.random.random_ops import random_uniform
from aioexec.ops.state.initializers import constant_initializer
from aioexec.ops.state.variable_scope import get_variable, variable_scope
from aioexec.recurrent.cell import RNNCell
from aioexec.recurrent.lstm_cells import LSTMStateTuple


class PhasedLSTMCell(RNNCell):
    """An LSTM cell with inputs `(time, features)`; each unit changes its state while its phase of the time is open.

    Variables: `mask_gates/kernel` and `bias` of the input and forget gates, `new_input/kernel` and `bias`, `output_gate/kernel`
    and `bias`; `period`, `phase` and `ratio_on`, `[num_units]`. At first the logarithm of the period is uniform, and the phase
    is uniform in the period.

    Args:
        num_units: size of output, `c` and `h`.
        use_peepholes: the gates see the memory.
        leak: how much of a change passes while a phase is closed, times the share of the period.
        ratio_on: `ratio_on` at first, the share of the period in which a phase is open.
        trainable_ratio_on: whether `ratio_on` is trainable.
        period_init_min, period_init_max: bounds of the period at first.
        reuse: whether the variables must exist already.
    """

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        leak: Any = 0.001,
        ratio_on: Any = 0.1,
        trainable_ratio_on: bool = True,
        period_init_min: float = 1.0,
        period_init_max: float = 1000.0,
        reuse: Any = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        self._num_units = num_units
        self._use_peepholes = use_peepholes
        self._leak = leak
        self._ratio_on = ratio_on
        self._trainable_ratio_on = trainable_ratio_on
        self._period_bounds = period_init_min, period_init_max
        self._linears: dict[str, Linear] = {}

    @property
    def state_size(self) -> Any:
        return LSTMStateTuple(self._num_units, self._num_units)

    @property
    def output_size(self) -> int:
        return self._num_units

    def call(self, inputs: Any, state: Any) -> tuple[Tensor, LSTMStateTuple]:
        """Run one step.

        Args:
            inputs: a tuple of the time, floats `[batch, 1]`, and the features, `[batch, depth]`.
        """
        time, x = inputs
        c, h = state
        gates = self._linear("mask_gates", [x, h] + [c] * self._use_peepholes, 2 * self._num_units)
        i, f = split(sigmoid(gates), 2, axis=1)
        candidate = c * f + i * tanh(self._linear("new_input", [x, h], self._num_units))
        seen = [x, h] + [candidate] * self._use_peepholes
        output = tanh(candidate) * sigmoid(self._linear("output_gate", seen, self._num_units))
        k = self._openness(time)
        new_c, new_h = k * candidate + (1 - k) * c, k * output + (1 - k) * h
        return new_h, LSTMStateTuple(new_c, new_h)

    def _linear(self, name: str, arguments: list[Any], width: int) -> Tensor:
        with variable_scope(name):
            if name not in self._linears:
                self._linears[name] = Linear(arguments, width, True)
            return self._linears[name](arguments)

    def _openness(self, time: Any) -> Any:
        """Return how far each unit is open at a time, `[batch, num_units]`."""
        period, phase = self._clock()
        ratio_on = get_variable(
            "ratio_on",
            [self._num_units],
            None,
            constant_initializer(self._ratio_on),
            trainable=self._trainable_ratio_on,
        )
        length = cast(period, time.dtype)
        since = time - cast(phase, time.dtype)
        # The modulo has the gradient of its argument.
        in_period = stop_gradient(mod(since, length) - since) + since
        share = cast(in_period / length, dtypes.float32)
        rising = 2 * share / ratio_on
        k = where_v2(share < ratio_on, 2 - rising, self._leak * share)
        return where_v2(share < 0.5 * ratio_on, rising, k)

    def _clock(self) -> tuple[Any, Any]:
        """Return the variables `period` and `phase`."""

        def period_at_first(shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
            low, high = (log(float(bound)) for bound in self._period_bounds)
            return exp(random_uniform(shape, low, high, dtype or dtypes.float32))

        period = get_variable("period", [self._num_units], None, period_at_first)

        def phase_at_first(shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
            return random_uniform(shape, 0.0, period.initial_value, dtype or dtypes.float32)

        return period, get_variable("phase", [self._num_units], None, phase_at_first)
