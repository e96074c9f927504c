"""`optimize_loss`: a training step with learning rate decay, clipping, noise and summaries of gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from aioexec import dtypes
from aioexec.contrib.framework.tensors import assert_scalar
from aioexec.errors import GraphValueError
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Tensor
from aioexec.ops.array.filling import ones_like
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.control_flow.dependencies import with_dependencies
from aioexec.ops.io.summary_functions import histogram, scalar
from aioexec.ops.math.cast import cast
from aioexec.ops.math.comparison import where
from aioexec.ops.math.extremes import maximum, minimum
from aioexec.ops.math.math_functions import exp, log, sqrt, square
from aioexec.ops.random.random_ops import truncated_normal
from aioexec.ops.reduction.norms import clip_by_global_norm, global_norm
from aioexec.ops.state.initialization import trainable_variables
from aioexec.ops.state.initializers import Constant, Zeros
from aioexec.ops.state.variable_scope import get_variable, variable_scope
from aioexec.train.global_steps import assert_global_step, get_global_step
from aioexec.train.optimizers.gradient_descent import (
    AdamOptimizer,
    GradientDescentOptimizer,
    MomentumOptimizer,
)
from aioexec.train.optimizers.moving_averages import assign_moving_average
from aioexec.train.optimizers.optimizer import Optimizer
from aioexec.train.optimizers.update_optimizers import AdagradOptimizer, FtrlOptimizer, RMSPropOptimizer

OPTIMIZER_CLS_NAMES: Final[Mapping[str, Callable[..., Optimizer]]] = {
    "Adagrad": AdagradOptimizer,
    "Adam": AdamOptimizer,
    "Ftrl": FtrlOptimizer,
    "Momentum": lambda learning_rate: MomentumOptimizer(learning_rate, momentum=0.9),
    "RMSProp": RMSPropOptimizer,
    "SGD": GradientDescentOptimizer,
}
"""The optimizers that `optimize_loss` knows by name."""

OPTIMIZER_SUMMARIES: Final = ("learning_rate", "loss", "gradients", "gradient_norm", "global_gradient_norm")
"""The summaries that `optimize_loss` can add."""

_DEFAULT_SUMMARIES: Final = ("loss", "learning_rate", "global_gradient_norm")

Pairs = list[tuple[Any, Any]]
"""Gradients with their variables."""


def optimize_loss(
    loss: Any,
    global_step: Any,
    learning_rate: Any,
    optimizer: Any,
    gradient_noise_scale: float | None = None,
    gradient_multipliers: Mapping[Any, Any] | None = None,
    clip_gradients: Any = None,
    learning_rate_decay_fn: Callable[[Any, Any], Any] | None = None,
    update_ops: Any = None,
    variables: Any = None,
    name: str | None = None,
    summaries: Sequence[str] | None = None,
    colocate_gradients_with_ops: bool = False,
    increment_global_step: bool = True,
) -> Tensor:
    """Return the loss, a scalar, after a training step.

    Args:
        global_step: the variable that counts steps; None: that of the graph, if there is one.
        learning_rate: a float, which becomes the variable `learning_rate`; a scalar tensor; or None.
        optimizer: the name of one of OPTIMIZER_CLS_NAMES, a class, a function of the learning rate, or an optimizer.
        gradient_noise_scale: factor of normal noise that is added to the gradients.
        gradient_multipliers: factors of the gradients by variable or by its name.
        clip_gradients: the global norm to which larger gradients are scaled, or a function of the pairs
            (gradient, variable).
        learning_rate_decay_fn: function of the learning rate and the global step that returns the learning rate.
        update_ops: nodes to run before the loss is computed; by default UPDATE_OPS.
        variables: the variables to train; by default all trainable ones.
        summaries: names of OPTIMIZER_SUMMARIES; by default loss, learning_rate, global_gradient_norm.
        increment_global_step: whether the step adds 1 to the global step.

    Raises:
        GraphValueError: the loss is no scalar; the learning rate, optimizer, clipping or a summary is unknown; or the
            learning rate or global step is missing where it is needed.
    """
    loss = assert_scalar(convert_to_tensor(loss))
    if global_step is None:
        global_step = get_global_step()
    else:
        assert_global_step(global_step)
    with variable_scope(name, "OptimizeLoss", [loss, global_step]):
        if update_ops is None:
            update_ops = get_default_graph().get_collection(GraphKeys.UPDATE_OPS)
        if update_ops:
            loss = with_dependencies(list(dict.fromkeys(update_ops)), loss)
        wanted = _wanted(summaries)
        rate = _decayed(_rate(learning_rate), global_step, learning_rate_decay_fn, wanted)
        chosen = _optimizer(optimizer, rate)
        trained = trainable_variables() if variables is None else variables
        pairs = chosen.compute_gradients(
            loss, trained, colocate_gradients_with_ops=colocate_gradients_with_ops
        )
        pairs = _changed(pairs, gradient_noise_scale, gradient_multipliers)
        pairs = _clipped(pairs, clip_gradients, wanted)
        if "loss" in wanted:
            scalar("loss", loss)
        _summarize(pairs, wanted, clip_gradients is not None)
        counted = global_step if increment_global_step else None
        step = chosen.apply_gradients(pairs, global_step=counted, name="train")
        return with_dependencies([step], loss)  # type: ignore[no-any-return]


def _wanted(summaries: Sequence[str] | None) -> Sequence[str]:
    for each in summaries or ():
        if each not in OPTIMIZER_SUMMARIES:
            raise GraphValueError(
                f"Summaries should be one of [{', '.join(OPTIMIZER_SUMMARIES)}], you provided {each}."
            )
    return _DEFAULT_SUMMARIES if summaries is None else summaries


def _rate(learning_rate: Any) -> Any:
    """The learning rate as a tensor or variable; None if there is none."""
    if learning_rate is None or (isinstance(learning_rate, Tensor) and learning_rate.shape.ndims == 0):
        return learning_rate
    if not isinstance(learning_rate, float):
        raise GraphValueError(
            f"Learning rate should be 0d Tensor or float. Got {learning_rate} of type {type(learning_rate)}"
        )
    if learning_rate < 0.0:
        raise GraphValueError(f"Invalid learning_rate {learning_rate}.")
    return get_variable("learning_rate", [], trainable=False, initializer=Constant(learning_rate))


def _decayed(rate: Any, global_step: Any, decay: Any, wanted: Sequence[str]) -> Any:
    if rate is not None and decay is not None:
        if global_step is None:
            raise GraphValueError("global_step is required for learning_rate_decay_fn.")
        rate = decay(rate, global_step)
        if "learning_rate" in wanted:
            scalar("learning_rate", rate)
    return rate


def _optimizer(optimizer: Any, rate: Any) -> Optimizer:
    if isinstance(optimizer, Optimizer):
        return optimizer
    if isinstance(optimizer, str):
        if optimizer not in OPTIMIZER_CLS_NAMES:
            raise GraphValueError(
                f"Optimizer name should be one of [{', '.join(OPTIMIZER_CLS_NAMES)}], you provided {optimizer}."
            )
        made: Any = OPTIMIZER_CLS_NAMES[optimizer]
    else:
        made = optimizer
    is_class = isinstance(optimizer, type) and issubclass(optimizer, Optimizer)
    if isinstance(optimizer, str) or is_class:
        if rate is None:
            raise GraphValueError(
                f"Learning rate is None, but should be specified for the optimizer {optimizer}."
            )
        return made(learning_rate=rate)  # type: ignore[no-any-return]
    if not callable(optimizer):
        raise GraphValueError(
            "Unrecognized optimizer: should be string, subclass of Optimizer, instance of subclass of Optimizer or "
            f"function with one argument. Got {optimizer!r}."
        )
    found = optimizer() if rate is None else optimizer(rate)
    if not isinstance(found, Optimizer):
        raise GraphValueError(
            f"Unrecognized optimizer: function should return subclass of Optimizer. Got {found!r}."
        )
    return found


def _times(gradient: Any, factor: Any) -> Any:
    if gradient is None:
        return None
    if isinstance(gradient, IndexedSlices):
        return IndexedSlices(gradient.values * factor, gradient.indices, gradient.dense_shape)
    return gradient * factor


def _changed(pairs: Pairs, noise: float | None, multipliers: Mapping[Any, Any] | None) -> Pairs:
    """The gradients with noise, and times the factors of their variables."""
    if noise is not None:
        pairs = [(_noisy(gradient, noise), variable) for gradient, variable in pairs]
    if multipliers is None:
        return pairs
    multiplied = []
    for gradient, variable in pairs:
        factor = multipliers.get(variable, multipliers.get(variable.name))
        if gradient is not None and factor is not None:
            gradient = _times(gradient, constant(factor, gradient.dtype.base_dtype))
        multiplied.append((gradient, variable))
    if not multiplied:
        raise GraphValueError(
            "Empty list of (gradient, var) pairs encountered. This is most likely to be caused by an improper value "
            "of gradient_multipliers."
        )
    return multiplied


def _noisy(gradient: Any, scale: float) -> Any:
    if gradient is None:
        return None
    values = gradient.values if isinstance(gradient, IndexedSlices) else gradient
    dims = gradient.dense_shape if isinstance(gradient, IndexedSlices) else shape(values)
    return convert_to_tensor(gradient) + truncated_normal(dims, dtype=values.dtype.base_dtype) * scale


def _norm_summary(name: str, pairs: Pairs) -> None:
    scalar(f"global_norm/{name}", global_norm([gradient for gradient, _ in pairs]))


def _clipped(pairs: Pairs, clip_gradients: Any, wanted: Sequence[str]) -> Pairs:
    if _has_norms(wanted):
        _norm_summary("gradient_norm", pairs)
    if clip_gradients is None:
        return pairs
    if isinstance(clip_gradients, float):
        gradients, variables = zip(*pairs, strict=True)
        clipped, _ = clip_by_global_norm(gradients, clip_gradients)
        return list(zip(clipped, variables, strict=True))
    if callable(clip_gradients):
        return list(clip_gradients(pairs))
    raise GraphValueError(f"Unknown type {type(clip_gradients)} for clip_gradients")


def _has_norms(wanted: Sequence[str]) -> bool:
    return "global_gradient_norm" in wanted or "gradient_norm" in wanted


def _summarize(pairs: Pairs, wanted: Sequence[str], is_clipped: bool) -> None:
    """Add the summaries of gradients."""
    for gradient, variable in pairs:
        values = gradient.values if isinstance(gradient, IndexedSlices) else gradient
        if values is None:
            continue
        name = variable.name.replace(":", "_")
        if "gradients" in wanted:
            histogram(f"gradients/{name}", values)
        if "gradient_norm" in wanted:
            scalar(f"gradient_norm/{name}", global_norm([values]))
    if is_clipped and _has_norms(wanted):
        _norm_summary("clipped_gradient_norm", pairs)


def adaptive_clipping_fn(
    std_factor: float = 2.0,
    decay: float = 0.95,
    static_max_norm: float | None = None,
    global_step: Any = None,
    report_summary: bool = False,
    epsilon: float = 1e-8,
    name: str | None = None,
) -> Callable[[Pairs], Pairs]:
    """Return a function for `clip_gradients` that scales down gradients of unusual norm.

    The logarithm of the norm is usual up to `std_factor` standard deviations above its moving average; larger norms become the
    average one.

    Args:
        decay: share of the old value in the moving averages; smaller in the first steps if `global_step` is given.
        static_max_norm: a norm that is never exceeded.
        report_summary: whether to add a summary of the largest usual norm.
    """

    def clip(grads_and_vars: Pairs) -> Pairs:
        gradients, variables = zip(*grads_and_vars, strict=True)
        norm = global_norm(gradients)
        largest, usual = _usual_norms(norm, std_factor, decay, global_step, epsilon, name)
        if report_summary:
            scalar("global_norm/adaptive_max_gradient_norm", largest)
        factor = where(norm < largest, ones_like(norm), exp(usual) / norm)
        if static_max_norm is not None:
            factor = minimum(static_max_norm / norm, factor)
        return [(_times(each, factor), variable) for each, variable in zip(gradients, variables, strict=True)]

    return clip


def _usual_norms(
    norm: Any, std_factor: float, decay: Any, global_step: Any, epsilon: float, name: str | None
) -> tuple[Any, Any]:
    """The largest usual norm, and the moving average of its logarithm."""
    with variable_scope(name, "AdaptiveMaxNorm", [norm]):
        log_norm = log(norm + epsilon)
        if global_step is not None:
            steps = cast(global_step, dtypes.float32)
            decay = minimum(decay, steps / (steps + 1.0))
        mean, square_mean = (
            convert_to_tensor(
                assign_moving_average(
                    get_variable(
                        called, shape=value.shape, dtype=value.dtype, initializer=Zeros(), trainable=False
                    ),
                    value,
                    decay,
                    zero_debias=False,
                )
            )
            for called, value in (("mean", log_norm), ("sq_mean", square(log_norm)))
        )
        deviation = sqrt(maximum(epsilon, square_mean - square(mean)))
        return exp(mean + std_factor * deviation), mean
