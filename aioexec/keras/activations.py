"""Activations under the names of `tf.keras.activations`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.layers.arguments import activation_of
from aioexec.ops.math import math_functions
from aioexec.ops.math.comparison import where
from aioexec.ops.math.extremes import clip_by_value, minimum
from aioexec.ops.nn import activations, softmax as softmaxes


def linear(x: Any) -> Any:
    """Return the inputs."""
    return x


def relu(x: Any, alpha: float = 0.0, max_value: float | None = None, threshold: float = 0.0) -> Tensor:
    """Return elements from `threshold` on, at most `max_value`, and `alpha * (element - threshold)` of the others."""
    x = convert_to_tensor(x)
    if threshold == 0:
        positive = activations.relu(x) if alpha == 0 else activations.leaky_relu(x, alpha)
    else:
        positive = where(x >= threshold, x, (x - threshold) * alpha)
    limited: Tensor = positive if max_value is None else minimum(positive, max_value)
    return limited


def elu(x: Any, alpha: float = 1.0) -> Tensor:
    """Return x above 0, else `alpha * (exp(x) - 1)`."""
    x = convert_to_tensor(x)
    exponential_part = activations.elu(x)
    return exponential_part if alpha == 1 else where(x > 0, exponential_part, exponential_part * alpha)


def selu(x: Any) -> Tensor:
    """Return `elu` with the scales of self-normalizing networks."""
    return activations.selu(x)


def softplus(x: Any) -> Tensor:
    """Return log(exp(x) + 1)."""
    return activations.softplus(x)


def softsign(x: Any) -> Tensor:
    """Return x / (|x| + 1)."""
    return activations.softsign(x)


def softmax(x: Any, axis: int = -1) -> Tensor:
    """Return exponentials, divided by their sums along an axis."""
    return softmaxes.softmax(x, axis)


def sigmoid(x: Any) -> Tensor:
    """Return 1 / (1 + exp(-x))."""
    return math_functions.sigmoid(x)


def tanh(x: Any) -> Tensor:
    """Return the hyperbolic tangent."""
    return math_functions.tanh(x)


def exponential(x: Any) -> Tensor:
    """Return exp(x)."""
    return math_functions.exp(x)


def hard_sigmoid(x: Any) -> Tensor:
    """Return 0.2 x + 0.5 within [0, 1]."""
    clipped: Tensor = clip_by_value(convert_to_tensor(x) * 0.2 + 0.5, 0.0, 1.0)
    return clipped


_BY_NAME = {
    each.__name__: each
    for each in (
        elu,
        exponential,
        hard_sigmoid,
        linear,
        relu,
        selu,
        sigmoid,
        softmax,
        softplus,
        softsign,
        tanh,
    )
}


def get(identifier: Any) -> Callable[..., Any]:
    """Return an activation by its name; functions as they are, and `linear` for None.

    Raises:
        GraphValueError: the name is unknown.
    """
    if isinstance(identifier, str) and identifier in _BY_NAME:
        return _BY_NAME[identifier]
    return activation_of(identifier) or linear
