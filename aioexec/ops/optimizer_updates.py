"""Optimizer updates: one step of gradient descent, momentum or Adam on the variables of a parameter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aioexec.graph.kernel import Attrs
from aioexec.ops.elementwise import Array
from aioexec.ops.update_rows import NUMBERS, changed, update


def _descend(attrs: Attrs, var: Array, alpha: Array, delta: Array) -> Sequence[Array]:
    return (changed(var - alpha * delta, var),)


update(
    "ApplyGradientDescent(var:Ref(T), alpha:T, delta:T) -> (out:Ref(T)) [T:type@6; use_locking:bool=false]",
    numpy=_descend,
    native="var, alpha, delta -> var: var = var - alpha * delta",
    scalars=["alpha"],
    dtypes=NUMBERS,
)


def _accumulate(
    attrs: Attrs, var: Array, accum: Array, lr: Array, grad: Array, momentum: Array
) -> Sequence[Array]:
    accum = accum * momentum + grad
    step = grad * lr + accum * momentum * lr if attrs["use_nesterov"] else lr * accum
    return changed(var - step, var), changed(accum, var)


def _momentum_text(attrs: Attrs) -> str:
    step = "grad * lr + accum * momentum * lr" if attrs["use_nesterov"] else "lr * accum"
    return (
        f"var, accum, lr, grad, momentum -> var, accum: accum = accum * momentum + grad; var = var - ({step})"
    )


update(
    "ApplyMomentum(var:Ref(T), accum:Ref(T), lr:T, grad:T, momentum:T) -> (out:Ref(T))"
    " [T:type@6; use_locking:bool=false; use_nesterov:bool=false]",
    numpy=_accumulate,
    native=_momentum_text,
    scalars=["lr", "momentum"],
)


def _adapt(
    attrs: Attrs,
    var: Array,
    m: Array,
    v: Array,
    beta1_power: Array,
    beta2_power: Array,
    lr: Array,
    beta1: Array,
    beta2: Array,
    epsilon: Array,
    grad: Array,
) -> Sequence[Array]:
    one = np.ones((), var.dtype)
    alpha = lr * np.sqrt(one - beta2_power) / (one - beta1_power)
    m = m + (grad - m) * (one - beta1)
    v = v + (grad * grad - v) * (one - beta2)
    direction = m * beta1 + grad * (one - beta1) if attrs["use_nesterov"] else m
    return (
        changed(var - alpha * direction / (np.sqrt(v) + epsilon), var),
        changed(m, var),
        changed(v, var),
    )


def _adam_text(attrs: Attrs) -> str:
    direction = "(m * beta1 + grad * (1.0 - beta1))" if attrs["use_nesterov"] else "m"
    return (
        "var, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad -> var, m, v:"
        " alpha = lr * sqrt(1.0 - beta2_power) / (1.0 - beta1_power);"
        " m = m + (grad - m) * (1.0 - beta1);"
        " v = v + (grad * grad - v) * (1.0 - beta2);"
        f" var = var - alpha * {direction} / (sqrt(v) + epsilon)"
    )


update(
    "ApplyAdam(var:Ref(T), m:Ref(T), v:Ref(T), beta1_power:T, beta2_power:T, lr:T, beta1:T, beta2:T, epsilon:T, grad:T)"
    " -> (out:Ref(T)) [T:type@6; use_locking:bool=false; use_nesterov:bool=false]",
    numpy=_adapt,
    native=_adam_text,
    scalars=["beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon"],
)
