"""Regularizers of `tf.contrib.layers`: functions of weights that return a scalar loss, or None for none."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import Any

from aioexec.errors import GraphValueError
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import name_scope
from aioexec.ops.math import math_functions
from aioexec.ops.math.arithmetic import add_n, multiply
from aioexec.ops.nn.nn_ops import l2_loss
from aioexec.ops.reduction.reductions import reduce_sum

Regularizer = Callable[[Any], Tensor | None]


def l1_regularizer(scale: Any, scope: str | None = None) -> Regularizer:
    """Return a function of weights that returns `scale` times the sum of their absolute values.

    Args:
        scale: a float of at least 0, or a scalar tensor; with 0.0 the function returns None.

    Raises:
        GraphValueError: it is an integer or negative.
    """
    return _scaled(scale, scope, "l1_regularizer", lambda weights: reduce_sum(math_functions.abs(weights)))


def l2_regularizer(scale: Any, scope: str | None = None) -> Regularizer:
    """Return a function of weights that returns `scale` times half the sum of their squares; see `l1_regularizer`."""
    return _scaled(scale, scope, "l2_regularizer", l2_loss)


def _scaled(scale: Any, scope: str | None, default_name: str, penalty: Callable[[Any], Any]) -> Regularizer:
    _check_scale(scale)
    if isinstance(scale, numbers.Real) and scale == 0.0:
        return lambda _: None

    def regularize(weights: Any) -> Tensor:
        with name_scope(scope, default_name, [weights]) as name:
            factor = convert_to_tensor(scale, weights.dtype.base_dtype, name="scale")
            return multiply(factor, penalty(weights), name=name)

    return regularize


def _check_scale(scale: Any) -> None:
    if isinstance(scale, numbers.Integral):
        raise GraphValueError(f"scale cannot be an integer: {scale}")
    if isinstance(scale, numbers.Real) and scale < 0.0:
        raise GraphValueError(f"Setting a scale less than 0 on a regularizer: {scale}")


def l1_l2_regularizer(scale_l1: Any = 1.0, scale_l2: Any = 1.0, scope: str | None = None) -> Any:
    """Return the sum of both regularizers; a part with scale 0.0 is left out.

    Raises:
        GraphValueError: a scale is an integer or negative.
    """
    _check_scale(scale_l1)
    _check_scale(scale_l2)
    scope = scope or "l1_l2_regularizer"
    if isinstance(scale_l1, numbers.Real) and scale_l1 == 0.0:
        return l2_regularizer(scale_l2, scope)
    if isinstance(scale_l2, numbers.Real) and scale_l2 == 0.0:
        return l1_regularizer(scale_l1, scope)
    return sum_regularizer([l1_regularizer(scale_l1), l2_regularizer(scale_l2)], scope=scope)


def sum_regularizer(regularizer_list: Sequence[Any], scope: str | None = None) -> Any:
    """Return a function of weights that returns the sum of several regularizers; None if all in the list are None."""
    present = [each for each in regularizer_list if each is not None]
    if not present:
        return None

    def regularize(weights: Any) -> Tensor | None:
        with name_scope(scope, "sum_regularizer", [weights]) as name:
            losses = [loss for loss in (each(weights) for each in present) if loss is not None]
            return add_n(losses, name=name) if losses else None

    return regularize


def apply_regularization(regularizer: Any, weights_list: Sequence[Any] | None = None) -> Tensor:
    """Return the sum of a regularizer over weights, and add it to REGULARIZATION_LOSSES.

    Args:
        weights_list: the weights, by default the collection WEIGHTS.

    Raises:
        GraphValueError: there are no weights, or the regularizer returns something that is no scalar.
    """
    graph = get_default_graph()
    weights = weights_list or graph.get_collection(GraphKeys.WEIGHTS)
    if not weights:
        raise GraphValueError("No weights to regularize.")
    with name_scope("get_regularization_penalty", values=weights) as scope:
        losses = [loss if loss is not None else constant(0.0) for loss in map(regularizer, weights)]
        for loss in losses:
            if loss.shape.ndims != 0:
                raise GraphValueError(
                    f"regularizer must return a scalar Tensor instead of a Tensor with rank {loss.shape.ndims}."
                )
        total: Tensor = add_n(losses, name=scope)
        graph.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, total)
        return total
