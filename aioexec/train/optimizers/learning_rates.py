"""Learning rates that depend on the global step.

All compute in the dtype of the learning rate, whatever that of the global step.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op, graph_of
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.static_values import constant_value
from aioexec.ops.control_flow.cond import cond
from aioexec.ops.control_flow.nesting import flatten
from aioexec.ops.random.random_ops import random_normal


class _Decay:
    """A decay under construction: its scope, the initial rate and the step, both of the dtype of the rate."""

    def __init__(self, scope: str, learning_rate: Any, global_step: Any) -> None:
        self.scope = scope
        self.rate = convert_to_tensor(learning_rate, name="learning_rate")
        self.step = self.like(global_step)

    def like(self, value: Any) -> Tensor:
        """A tensor of the dtype of the rate."""
        return _as(value, self.rate.dtype.base_dtype)

    def part(self, decay_steps: Any, staircase: bool = False) -> Tensor:
        """step / decay_steps, with `staircase` rounded down."""
        passed: Tensor = self.step / self.like(decay_steps)
        return apply_op("Floor", passed) if staircase else passed

    def capped(self, decay_steps: Any) -> tuple[Tensor, Tensor]:
        """The step, but at most decay_steps; and decay_steps."""
        steps = self.like(decay_steps)
        return apply_op("Minimum", self.step, steps), steps

    def scaled(self, factor: Tensor) -> Tensor:
        """The rate times `factor`: the result of the decay function."""
        return apply_op("Mul", self.rate, factor, name=self.scope)


@contextlib.contextmanager
def _decay(
    function: str, name: str | None, learning_rate: Any, global_step: Any, *others: Any
) -> Iterator[_Decay]:
    if global_step is None:
        raise GraphValueError(f"global_step is required for {function}")
    camel_case = function.replace("_", " ").title().replace(" ", "")
    values = [learning_rate, global_step, *others]
    with graph_of(values).as_default() as graph, graph.name_scope(name or camel_case) as scope:
        yield _Decay(scope, learning_rate, global_step)


def _as(value: Any, dtype: dtypes.DType) -> Tensor:
    symbolic = getattr(value, "dtype", None)
    tensor = convert_to_tensor(value) if symbolic is not None else convert_to_tensor(value, dtype)
    return tensor if tensor.dtype.base_dtype == dtype else apply_op("Cast", tensor, DstT=dtype)


def _wave(angle: Tensor) -> Tensor:
    """(1 + cos(angle)) / 2: 1 at 0, 0 at pi."""
    return 0.5 * (1.0 + apply_op("Cos", angle))


def exponential_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """learning_rate * decay_rate ** (global_step / decay_steps); with `staircase` the exponent is rounded down.

    Raises:
        GraphValueError: there is no global step.
    """
    with _decay("exponential_decay", name, learning_rate, global_step, decay_steps) as decay:
        passed = decay.part(decay_steps, staircase)
        return decay.scaled(apply_op("Pow", decay.like(decay_rate), passed))


def natural_exp_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """learning_rate * exp(-decay_rate * global_step / decay_steps); see `exponential_decay`."""
    base = apply_op("Exp", apply_op("Neg", decay_rate))
    return exponential_decay(learning_rate, global_step, decay_steps, base, staircase, name)


def inverse_time_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """learning_rate / (1 + decay_rate * global_step / decay_steps); with `staircase` the quotient is rounded down.

    Raises:
        GraphValueError: there is no global step.
    """
    with _decay("inverse_time_decay", name, learning_rate, global_step, decay_steps) as decay:
        divisor = 1 + decay.like(decay_rate) * decay.part(decay_steps, staircase)
        return apply_op("RealDiv", decay.rate, divisor, name=decay.scope)


def polynomial_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    end_learning_rate: Any = 0.0001,
    power: Any = 1.0,
    cycle: bool = False,
    name: str | None = None,
) -> Tensor:
    """(learning_rate - end_learning_rate) * (1 - global_step / decay_steps) ** power + end_learning_rate.

    Args:
        cycle: after decay_steps, replace decay_steps by its next multiple that is not less than global_step.

    Raises:
        GraphValueError: there is no global step.
    """
    with _decay("polynomial_decay", name, learning_rate, global_step, decay_steps) as decay:
        step, steps = (decay.step, decay.like(decay_steps)) if cycle else decay.capped(decay_steps)
        if cycle:
            rounds = apply_op("Ceil", step / steps)
            begins = apply_op("Equal", step, apply_op("ZerosLike", step))
            steps = steps * apply_op("Select", begins, apply_op("OnesLike", rounds), rounds)
        end = decay.like(end_learning_rate)
        left = apply_op("Pow", 1 - step / steps, decay.like(power))
        return apply_op("AddV2", (decay.rate - end) * left, end, name=decay.scope)


def cosine_decay(
    learning_rate: Any, global_step: Any, decay_steps: Any, alpha: Any = 0.0, name: str | None = None
) -> Tensor:
    """From learning_rate to alpha * learning_rate within decay_steps, along half a cosine (Loshchilov and Hutter, 2016).

    Raises:
        GraphValueError: there is no global step.
    """
    with _decay("cosine_decay", name, learning_rate, global_step, decay_steps) as decay:
        step, steps = decay.capped(decay_steps)
        least = decay.like(alpha)
        return decay.scaled((1 - least) * _wave(math.pi * (step / steps)) + least)


def cosine_decay_restarts(
    learning_rate: Any,
    global_step: Any,
    first_decay_steps: Any,
    t_mul: Any = 2.0,
    m_mul: Any = 1.0,
    alpha: Any = 0.0,
    name: str | None = None,
) -> Tensor:
    """Successive cosine decays, each `t_mul` times as long as the previous one and starting at `m_mul` times its rate.

    Raises:
        GraphValueError: there is no global step.
    """
    with _decay(
        "cosine_decay_restarts", name or "SGDRDecay", learning_rate, global_step, first_decay_steps
    ) as decay:
        restarts, part = _restarted(decay.part(first_decay_steps), decay.like(t_mul))
        least = decay.like(alpha)
        height = apply_op("Pow", decay.like(m_mul), restarts)
        return decay.scaled((1 - least) * (height * _wave(math.pi * part)) + least)


def _restarted(passed: Tensor, growth: Tensor) -> tuple[Tensor, Tensor]:
    """The number of finished decays, and the fraction of the current one; all have the same length if `growth` is 1."""

    def alike() -> tuple[Tensor, Tensor]:
        restarts = apply_op("Floor", passed)
        return restarts, passed - restarts

    def growing() -> tuple[Tensor, Tensor]:
        restarts = apply_op("Floor", apply_op("Log", 1.0 - passed * (1.0 - growth)) / apply_op("Log", growth))
        length = apply_op("Pow", growth, restarts)
        before = (1.0 - length) / (1.0 - growth)
        return restarts, (passed - before) / length

    known = constant_value(growth)
    if known is not None:
        return alike() if known == 1 else growing()
    chosen: tuple[Tensor, Tensor] = cond(apply_op("Equal", growth, 1.0), alike, growing)
    return chosen


def linear_cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    num_periods: Any = 0.5,
    alpha: Any = 0.0,
    beta: Any = 0.001,
    name: str | None = None,
) -> Tensor:
    """learning_rate * ((alpha + linear) * cosine + beta) with `num_periods` periods of the cosine in decay_steps.

    Raises:
        GraphValueError: there is no global step.
    """
    with _decay("linear_cosine_decay", name, learning_rate, global_step, decay_steps) as decay:
        step, steps = decay.capped(decay_steps)
        return _lowered(decay, step / steps, (steps - step) / steps, num_periods, alpha, beta)


def noisy_linear_cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    initial_variance: Any = 1.0,
    variance_decay: Any = 0.55,
    num_periods: Any = 0.5,
    alpha: Any = 0.0,
    beta: Any = 0.001,
    name: str | None = None,
) -> Tensor:
    """As `linear_cosine_decay`, with noise of variance initial_variance / (1 + global_step) ** variance_decay.

    Raises:
        GraphValueError: there is no global step.
    """
    with _decay("noisy_linear_cosine_decay", name, learning_rate, global_step, decay_steps) as decay:
        step, steps = decay.capped(decay_steps)
        linear = (steps - step) / steps
        variance = decay.like(initial_variance) / apply_op("Pow", 1.0 + step, decay.like(variance_decay))
        noise = random_normal(linear.shape, stddev=apply_op("Sqrt", variance), dtype=linear.dtype)
        return _lowered(decay, step / steps, linear + noise, num_periods, alpha, beta)


def _lowered(decay: _Decay, part: Tensor, linear: Tensor, num_periods: Any, alpha: Any, beta: Any) -> Tensor:
    cosine = _wave(math.pi * (2.0 * decay.like(num_periods) * part))
    return decay.scaled((decay.like(alpha) + linear) * cosine + decay.like(beta))


def piecewise_constant(
    x: Any, boundaries: Sequence[Any], values: Sequence[Any], name: str | None = None
) -> Tensor:
    """values[0] while x <= boundaries[0], then values[1] while x <= boundaries[1], and so on.

    Raises:
        GraphValueError: there is not one value more than boundaries, or they are not of one dtype.
    """
    limits, rates = flatten(boundaries), flatten(values)
    if len(limits) != len(rates) - 1:
        raise GraphValueError(
            f"The length of boundaries should be 1 less than the length of values, got {len(limits)} boundaries "
            f"and {len(rates)} values"
        )
    with graph_of([x]).as_default() as graph, graph.name_scope(name or "PiecewiseConstant"):
        place = convert_to_tensor(x)
        limits = [_limit(convert_to_tensor(boundary), place) for boundary in limits]
        rates = [convert_to_tensor(value) for value in rates]
        rate: Tensor = rates[0]
        for limit, value in zip(limits, rates[1:], strict=True):
            if value.dtype.base_dtype != rate.dtype.base_dtype:
                raise GraphValueError(
                    "Values must have elements all with the same dtype "
                    f"({rate.dtype.base_dtype.name} vs {value.dtype.base_dtype.name})"
                )
            rate = apply_op("Select", apply_op("Greater", place, limit), value, rate)
    return rate


def _limit(boundary: Tensor, place: Tensor) -> Tensor:
    own, wanted = boundary.dtype.base_dtype, place.dtype.base_dtype
    if own == wanted:
        return boundary
    if (own, wanted) != (dtypes.int32, dtypes.int64):
        raise GraphValueError(f"Boundaries ({own.name}) must have the same dtype as x ({wanted.name})")
    return apply_op("Cast", boundary, DstT=wanted)


piecewise_constant_decay = piecewise_constant
