"""Learning rates that change with the global step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op, graph_of
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor


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
    if global_step is None:
        raise GraphValueError("global_step is required for exponential_decay")
    arguments = [learning_rate, global_step, decay_steps, decay_rate]
    with graph_of(arguments).as_default() as graph, graph.name_scope(name or "ExponentialDecay") as scope:
        rate = convert_to_tensor(learning_rate, name="learning_rate")
        exponent = _as(global_step, rate) / _as(decay_steps, rate)
        if staircase:
            exponent = apply_op("Floor", exponent)
        decayed: Tensor = apply_op("Mul", rate, apply_op("Pow", _as(decay_rate, rate), exponent), name=scope)
    return decayed


def polynomial_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    end_learning_rate: Any = 0.0001,
    power: Any = 1.0,
    name: str | None = None,
) -> Tensor:
    """From learning_rate to end_learning_rate within decay_steps, along (1 - global_step / decay_steps) ** power.

    Raises:
        GraphValueError: there is no global step.
    """
    if global_step is None:
        raise GraphValueError("global_step is required for polynomial_decay")
    arguments = [learning_rate, global_step, decay_steps]
    with graph_of(arguments).as_default() as graph, graph.name_scope(name or "PolynomialDecay") as scope:
        rate = convert_to_tensor(learning_rate, name="learning_rate")
        steps, end = _as(decay_steps, rate), _as(end_learning_rate, rate)
        done = apply_op("Minimum", _as(global_step, rate), steps) / steps
        left = apply_op("Pow", 1 - done, _as(power, rate))
        decayed: Tensor = apply_op("AddV2", (rate - end) * left, end, name=scope)
    return decayed


def piecewise_constant(
    x: Any, boundaries: Sequence[Any], values: Sequence[Any], name: str | None = None
) -> Tensor:
    """values[0] while x <= boundaries[0], then values[1] while x <= boundaries[1], and so on.

    Raises:
        GraphValueError: there is not one value more than boundaries.
    """
    if len(boundaries) != len(values) - 1:
        raise GraphValueError(
            f"piecewise_constant: expected one value more than boundaries, got {len(values)} values "
            f"and {len(boundaries)} boundaries"
        )
    with graph_of([x]).as_default() as graph, graph.name_scope(name or "PiecewiseConstant"):
        place = convert_to_tensor(x)
        rate = convert_to_tensor(values[0])
        for boundary, value in zip(boundaries, values[1:], strict=True):
            rate = apply_op("Select", apply_op("Greater", place, boundary), _as(value, rate), rate)
    return rate


def _as(value: Any, like: Tensor) -> Tensor:
    """A tensor of the dtype of `like`."""
    dtype = like.dtype.base_dtype
    symbolic = getattr(value, "dtype", None)
    tensor = convert_to_tensor(value) if symbolic is not None else convert_to_tensor(value, dtype)
    if tensor.dtype.base_dtype == dtype:
        return tensor
    cast: Tensor = apply_op("Cast", tensor, DstT=dtype)
    return cast
