"""Optimizer update ops: one step of an optimizer on a parameter, dense or on rows.

Each optimizer is given by its signature, its formula in NumPy, and its formula in the language of native kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from aioexec.graph.kernels.kernel import Attrs
from aioexec.ops.common.elementwise import Array
from aioexec.ops.state import row_loops
from aioexec.ops.state.sparse_updates import sparse_update
from aioexec.ops.state.update_rows import FLOATS, NUMBERS, Formula, Limit, update


def optimizer(
    signature: str,
    *,
    numpy: Formula,
    native: str | Callable[[Attrs], str],
    dtypes: frozenset[str] = FLOATS,
    sparse: bool = True,
    loop: Callable[..., int] | None = None,
    limits: Mapping[str, Limit] | None = None,
    sparse_limits: Mapping[str, Limit] | None = None,
    references: bool = True,
) -> None:
    """Register an optimizer's dense and (if given) sparse update, also on resources; see `update`, `sparse_update`."""
    update(signature, numpy=numpy, native=native, dtypes=dtypes, limits=limits, references=references)
    if sparse:
        sparse_update(
            signature, numpy=numpy, loop=loop, limits=sparse_limits or limits, references=references
        )


def _descend(attrs: Attrs, var: Array, alpha: Array, delta: Array) -> Sequence[Array]:
    return (var - alpha * delta,)


optimizer(
    "ApplyGradientDescent(var:Ref(T), alpha:T, delta:T) -> (out:Ref(T)) [T:type@6; use_locking:bool=false]",
    numpy=_descend,
    native="var, alpha, delta -> var: var = var - alpha * delta",
    dtypes=NUMBERS,
    sparse=False,
)

# Momentum


def _accumulate(
    attrs: Attrs, var: Array, accum: Array, lr: Array, grad: Array, momentum: Array
) -> Sequence[Array]:
    accum = accum * momentum + grad
    step = grad * lr + accum * momentum * lr if attrs["use_nesterov"] else lr * accum
    return var - step, accum


def _momentum_text(attrs: Attrs) -> str:
    step = "grad * lr + accum * momentum * lr" if attrs["use_nesterov"] else "lr * accum"
    return (
        f"var, accum, lr, grad, momentum -> var, accum: accum = accum * momentum + grad; var = var - ({step})"
    )


optimizer(
    "ApplyMomentum(var:Ref(T), accum:Ref(T), lr:T, grad:T, momentum:T) -> (out:Ref(T))"
    " [T:type@6; use_locking:bool=false; use_nesterov:bool=false]",
    numpy=_accumulate,
    native=_momentum_text,
    loop=row_loops.momentum_rows,
)


def _accumulate_steps(
    attrs: Attrs, var: Array, accum: Array, lr: Array, grad: Array, momentum: Array
) -> Sequence[Array]:
    accum = accum * momentum - grad * lr
    return var + (accum * momentum - grad * lr if attrs["use_nesterov"] else accum), accum


def _keras_momentum_text(attrs: Attrs) -> str:
    step = "accum * momentum - grad * lr" if attrs["use_nesterov"] else "accum"
    return (
        "var, accum, lr, grad, momentum -> var, accum:"
        f" accum = accum * momentum - grad * lr; var = var + ({step})"
    )


optimizer(
    "ApplyKerasMomentum(var:Ref(T), accum:Ref(T), lr:T, grad:T, momentum:T) -> (out:Ref(T))"
    " [T:type@6; use_locking:bool=false; use_nesterov:bool=false]",
    numpy=_accumulate_steps,
    native=_keras_momentum_text,
    loop=row_loops.keras_momentum_rows,
    references=False,
)

# Adagrad and its successors


def _adagrad(attrs: Attrs, var: Array, accum: Array, lr: Array, grad: Array) -> Sequence[Array]:
    accum = accum + grad * grad if attrs["update_slots"] else accum.copy()
    return var - lr * grad / np.sqrt(accum), accum


def _adagrad_v2(
    attrs: Attrs, var: Array, accum: Array, lr: Array, epsilon: Array, grad: Array
) -> Sequence[Array]:
    accum = accum + grad * grad if attrs["update_slots"] else accum.copy()
    return var - lr * grad / (np.sqrt(accum) + epsilon), accum


def _adagrad_text(scalars: str, root: str) -> Callable[[Attrs], str]:
    def text(attrs: Attrs) -> str:
        moved = "accum + grad * grad" if attrs["update_slots"] else "accum"
        return f"var, accum, {scalars}, grad -> var, accum: accum = {moved}; var = var - lr * grad / ({root})"

    return text


optimizer(
    "ApplyAdagrad(var:Ref(T), accum:Ref(T), lr:T, grad:T) -> (out:Ref(T))"
    " [T:type@6; use_locking:bool=false; update_slots:bool=true]",
    numpy=_adagrad,
    native=_adagrad_text("lr", "sqrt(accum)"),
    loop=row_loops.adagrad_rows,
)
optimizer(
    "ApplyAdagradV2(var:Ref(T), accum:Ref(T), lr:T, epsilon:T, grad:T) -> (out:Ref(T))"
    " [T:type@6; use_locking:bool=false; update_slots:bool=true]",
    numpy=_adagrad_v2,
    native=_adagrad_text("lr, epsilon", "sqrt(accum) + epsilon"),
    loop=row_loops.adagrad_v2_rows,
)


def _dual_average(
    attrs: Attrs,
    var: Array,
    total: Array,
    squares: Array,
    grad: Array,
    lr: Array,
    l1: Array,
    l2: Array,
    global_step: Array,
) -> Sequence[Array]:
    total, squares = total + grad, squares + grad * grad
    steps = global_step.astype(var.dtype)
    kept = np.sign(total) * np.maximum(np.abs(total) - l1 * steps, 0) if l1 > 0 else total
    return -lr * kept / (l2 * steps * lr + np.sqrt(squares)), total, squares


def _dual_average_text(attrs: Attrs) -> str:
    dtype = attrs["T"].name
    return (
        "var, total, squares, grad, lr, l1, l2, global_step -> var, total, squares:"
        " total = total + grad; squares = squares + grad * grad;"
        f" steps = cast(global_step, '{dtype}');"
        " kept = where(l1 > 0, sign(total) * maximum(abs(total) - l1 * steps, 0), total);"
        " var = -lr * kept / (l2 * steps * lr + sqrt(squares))"
    )


optimizer(
    "ApplyAdagradDA(var:Ref(T), gradient_accumulator:Ref(T), gradient_squared_accumulator:Ref(T), grad:T, lr:T, l1:T, l2:T,"
    " global_step:int64) -> (out:Ref(T)) [T:type@6; use_locking:bool=false]",
    numpy=_dual_average,
    native=_dual_average_text,
)


def _adadelta(
    attrs: Attrs,
    var: Array,
    accum: Array,
    accum_update: Array,
    lr: Array,
    rho: Array,
    epsilon: Array,
    grad: Array,
) -> Sequence[Array]:
    accum = accum * rho + grad * grad * (1 - rho)
    step = np.sqrt(accum_update + epsilon) / np.sqrt(accum + epsilon) * grad
    return var - step * lr, accum, accum_update * rho + step * step * (1 - rho)


optimizer(
    "ApplyAdadelta(var:Ref(T), accum:Ref(T), accum_update:Ref(T), lr:T, rho:T, epsilon:T, grad:T) -> (out:Ref(T))"
    " [T:type@6; use_locking:bool=false]",
    numpy=_adadelta,
    native="var, accum, accum_update, lr, rho, epsilon, grad -> var, accum, accum_update:"
    " accum = accum * rho + grad * grad * (1.0 - rho);"
    " step = sqrt(accum_update + epsilon) / sqrt(accum + epsilon) * grad;"
    " var = var - step * lr;"
    " accum_update = accum_update * rho + step * step * (1.0 - rho)",
)


def _rms(
    attrs: Attrs,
    var: Array,
    ms: Array,
    mom: Array,
    lr: Array,
    rho: Array,
    momentum: Array,
    epsilon: Array,
    grad: Array,
) -> Sequence[Array]:
    ms = ms + (grad * grad - ms) * (1 - rho)
    mom = mom * momentum + lr * grad / np.sqrt(ms + epsilon)
    return var - mom, ms, mom


optimizer(
    "ApplyRMSProp(var:Ref(T), ms:Ref(T), mom:Ref(T), lr:T, rho:T, momentum:T, epsilon:T, grad:T) -> (out:Ref(T))"
    " [T:type@6; use_locking:bool=false]",
    numpy=_rms,
    native="var, ms, mom, lr, rho, momentum, epsilon, grad -> var, ms, mom:"
    " ms = ms + (grad * grad - ms) * (1.0 - rho);"
    " mom = mom * momentum + lr * grad / sqrt(ms + epsilon);"
    " var = var - mom",
)


def _centered_rms(
    attrs: Attrs,
    var: Array,
    mg: Array,
    ms: Array,
    mom: Array,
    lr: Array,
    rho: Array,
    momentum: Array,
    epsilon: Array,
    grad: Array,
) -> Sequence[Array]:
    ms = ms + (grad * grad - ms) * (1 - rho)
    mg = mg + (grad - mg) * (1 - rho)
    mom = mom * momentum + lr * grad / np.sqrt(ms - mg * mg + epsilon)
    return var - mom, mg, ms, mom


optimizer(
    "ApplyCenteredRMSProp(var:Ref(T), mg:Ref(T), ms:Ref(T), mom:Ref(T), lr:T, rho:T, momentum:T, epsilon:T, grad:T)"
    " -> (out:Ref(T)) [T:type@6; use_locking:bool=false]",
    numpy=_centered_rms,
    native="var, mg, ms, mom, lr, rho, momentum, epsilon, grad -> var, mg, ms, mom:"
    " ms = ms + (grad * grad - ms) * (1.0 - rho);"
    " mg = mg + (grad - mg) * (1.0 - rho);"
    " mom = mom * momentum + lr * grad / sqrt(ms - mg * mg + epsilon);"
    " var = var - mom",
)

# Adam


def _adam(
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
    alpha = lr * np.sqrt(1 - beta2_power) / (1 - beta1_power)
    m = m + (grad - m) * (1 - beta1)
    v = v + (grad * grad - v) * (1 - beta2)
    direction = m * beta1 + grad * (1 - beta1) if attrs["use_nesterov"] else m
    return var - alpha * direction / (np.sqrt(v) + epsilon), m, v


def _adam_text(attrs: Attrs) -> str:
    direction = "(m * beta1 + grad * (1.0 - beta1))" if attrs["use_nesterov"] else "m"
    return (
        "var, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad -> var, m, v:"
        " alpha = lr * sqrt(1.0 - beta2_power) / (1.0 - beta1_power);"
        " m = m + (grad - m) * (1.0 - beta1);"
        " v = v + (grad * grad - v) * (1.0 - beta2);"
        f" var = var - alpha * {direction} / (sqrt(v) + epsilon)"
    )


optimizer(
    "ApplyAdam(var:Ref(T), m:Ref(T), v:Ref(T), beta1_power:T, beta2_power:T, lr:T, beta1:T, beta2:T, epsilon:T, grad:T)"
    " -> (out:Ref(T)) [T:type@6; use_locking:bool=false; use_nesterov:bool=false]",
    numpy=_adam,
    native=_adam_text,
    sparse=False,
)


def _amsgrad(attrs: Attrs, var: Array, m: Array, v: Array, vhat: Array, *others: Any) -> Sequence[Array]:
    beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad = others
    alpha = lr * np.sqrt(1 - beta2_power) / (1 - beta1_power)
    m = m + (grad - m) * (1 - beta1)
    v = v + (grad * grad - v) * (1 - beta2)
    vhat = np.maximum(vhat, v)
    return var - alpha * m / (np.sqrt(vhat) + epsilon), m, v, vhat


optimizer(
    "ApplyAdamWithAmsgrad(var:Ref(T), m:Ref(T), v:Ref(T), vhat:Ref(T), beta1_power:T, beta2_power:T, lr:T, beta1:T, beta2:T,"
    " epsilon:T, grad:T) -> (out:Ref(T)) [T:type@6; use_locking:bool=false]",
    numpy=_amsgrad,
    native="var, m, v, vhat, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad -> var, m, v, vhat:"
    " alpha = lr * sqrt(1.0 - beta2_power) / (1.0 - beta1_power);"
    " m = m + (grad - m) * (1.0 - beta1);"
    " v = v + (grad * grad - v) * (1.0 - beta2);"
    " vhat = maximum(vhat, v);"
    " var = var - alpha * m / (sqrt(vhat) + epsilon)",
    sparse=False,
    references=False,
)


def _adamax(attrs: Attrs, var: Array, m: Array, v: Array, *others: Any) -> Sequence[Array]:
    beta1_power, lr, beta1, beta2, epsilon, grad = others
    m = m + (grad - m) * (1 - beta1)
    v = np.maximum(beta2 * v, np.abs(grad))
    return var - lr / (1 - beta1_power) * m / (v + epsilon), m, v


optimizer(
    "ApplyAdaMax(var:Ref(T), m:Ref(T), v:Ref(T), beta1_power:T, lr:T, beta1:T, beta2:T, epsilon:T, grad:T)"
    " -> (out:Ref(T)) [T:type@6; use_locking:bool=false]",
    numpy=_adamax,
    native="var, m, v, beta1_power, lr, beta1, beta2, epsilon, grad -> var, m, v:"
    " m = m + (grad - m) * (1.0 - beta1);"
    " v = maximum(beta2 * v, abs(grad));"
    " var = var - lr / (1.0 - beta1_power) * m / (v + epsilon)",
    sparse=False,
)

# Updates by sign


def _add_sign(attrs: Attrs, var: Array, m: Array, *others: Any) -> Sequence[Array]:
    lr, alpha, sign_decay, beta, grad = others
    m = m * beta + grad * (1 - beta)
    return var - lr * (alpha + sign_decay * np.sign(grad) * np.sign(m)) * grad, m


optimizer(
    "ApplyAddSign(var:Ref(T), m:Ref(T), lr:T, alpha:T, sign_decay:T, beta:T, grad:T) -> (out:Ref(T))"
    " [T:type@6; use_locking:bool=false]",
    numpy=_add_sign,
    native="var, m, lr, alpha, sign_decay, beta, grad -> var, m:"
    " m = m * beta + grad * (1.0 - beta);"
    " var = var - lr * (alpha + sign_decay * sign(grad) * sign(m)) * grad",
    sparse=False,
)


def _power_sign(attrs: Attrs, var: Array, m: Array, *others: Any) -> Sequence[Array]:
    lr, logbase, sign_decay, beta, grad = others
    m = m * beta + grad * (1 - beta)
    return var - lr * np.exp(logbase * sign_decay * np.sign(grad) * np.sign(m)) * grad, m


optimizer(
    "ApplyPowerSign(var:Ref(T), m:Ref(T), lr:T, logbase:T, sign_decay:T, beta:T, grad:T) -> (out:Ref(T))"
    " [T:type@6; use_locking:bool=false]",
    numpy=_power_sign,
    native="var, m, lr, logbase, sign_decay, beta, grad -> var, m:"
    " m = m * beta + grad * (1.0 - beta);"
    " var = var - lr * exp(logbase * sign_decay * sign(grad) * sign(m)) * grad",
    sparse=False,
)

# With regularization


def _proximal_point(wanted: Array, rate: Array, l1: Array, l2: Array) -> Array:
    """Return the proximal point of `wanted`: argmin over x of (x - wanted)² / 2 + rate (l1 |x| + l2 x² / 2)."""
    kept = np.sign(wanted) * np.maximum(np.abs(wanted) - rate * l1, 0) if l1 > 0 else wanted
    shrunk: Array = kept / (1 + l2 * rate)
    return shrunk


_SHRUNK = "where(l1 > 0, sign(wanted) * maximum(abs(wanted) - rate * l1, 0), wanted) / (1 + l2 * rate)"


def _proximal_descend(
    attrs: Attrs, var: Array, alpha: Array, l1: Array, l2: Array, delta: Array
) -> Sequence[Array]:
    return (_proximal_point(var - delta * alpha, alpha, l1, l2),)


optimizer(
    "ApplyProximalGradientDescent(var:Ref(T), alpha:T, l1:T, l2:T, delta:T) -> (out:Ref(T))"
    " [T:type@6; use_locking:bool=false]",
    numpy=_proximal_descend,
    native=f"var, alpha, l1, l2, delta -> var: rate = alpha; wanted = var - delta * rate; var = {_SHRUNK}",
)


def _proximal_adagrad(
    attrs: Attrs, var: Array, accum: Array, lr: Array, l1: Array, l2: Array, grad: Array
) -> Sequence[Array]:
    accum = accum + grad * grad
    rate = lr / np.sqrt(accum)
    return _proximal_point(var - grad * rate, rate, l1, l2), accum


optimizer(
    "ApplyProximalAdagrad(var:Ref(T), accum:Ref(T), lr:T, l1:T, l2:T, grad:T) -> (out:Ref(T))"
    " [T:type@6; use_locking:bool=false]",
    numpy=_proximal_adagrad,
    native="var, accum, lr, l1, l2, grad -> var, accum:"
    " accum = accum + grad * grad; rate = lr / sqrt(accum);"
    f" wanted = var - grad * rate; var = {_SHRUNK}",
    limits={"lr": "positive", "l1": "non-negative", "l2": "non-negative"},
)


def _follow_regularized(
    attrs: Attrs,
    var: Array,
    accum: Array,
    linear: Array,
    grad: Array,
    lr: Array,
    l1: Array,
    l2: Array,
    *others: Array,
) -> Sequence[Array]:
    """FTRL (McMahan et al., 2013); the V2 ops have a shrinkage parameter before the power."""
    moved = grad + 2 * others[0] * var if len(others) == 2 else grad
    new_accum = accum + grad * grad
    root, new_root = (np.power(each, -others[-1]) for each in (accum, new_accum))
    sigma = new_root - root
    if attrs["multiply_linear_by_lr"]:
        linear = linear + lr * moved - sigma * var
        threshold, curvature = l1 * lr, new_root + 2 * l2 * lr
    else:
        linear = linear + moved - sigma / lr * var
        threshold, curvature = l1, new_root / lr + 2 * l2
    nearest = (threshold * np.sign(linear) - linear) / curvature
    return np.where(np.abs(linear) > threshold, nearest, np.zeros_like(nearest)), new_accum, linear


def _ftrl_text(shrinks: bool) -> Callable[[Attrs], str]:
    scalars = "l2_shrinkage, lr_power" if shrinks else "lr_power"
    moved = "grad + 2 * l2_shrinkage * var" if shrinks else "grad"
    head = (
        f"var, accum, linear, grad, lr, l1, l2, {scalars} -> var, accum, linear: moved = {moved};"
        " root = pow(accum, -lr_power); accum = accum + grad * grad; new_root = pow(accum, -lr_power);"
    )

    def text(attrs: Attrs) -> str:
        if attrs["multiply_linear_by_lr"]:
            middle = (
                "linear = linear + lr * moved - (new_root - root) * var;"
                " threshold = l1 * lr; curvature = new_root + 2 * l2 * lr;"
            )
        else:
            middle = (
                "linear = linear + moved - (new_root - root) / lr * var;"
                " threshold = l1; curvature = new_root / lr + 2 * l2;"
            )
        return (
            f"{head} {middle}"
            " var = where(abs(linear) > threshold, (threshold * sign(linear) - linear) / curvature, 0)"
        )

    return text


_FTRL_LIMITS: Mapping[str, Limit] = {
    "lr": "positive",
    "l1": "non-negative",
    "l2": "non-negative",
    "l2_shrinkage": "non-negative",
    "lr_power": "non-positive",
}

for _version, _shrinkage in (("", ""), ("V2", "l2_shrinkage:T, ")):
    optimizer(
        f"ApplyFtrl{_version}(var:Ref(T), accum:Ref(T), linear:Ref(T), grad:T, lr:T, l1:T, l2:T, {_shrinkage}lr_power:T)"
        " -> (out:Ref(T)) [T:type@6; use_locking:bool=false; multiply_linear_by_lr:bool=false]",
        numpy=_follow_regularized,
        native=_ftrl_text(bool(_shrinkage)),
        sparse_limits=_FTRL_LIMITS,
    )
