"""Kullback-Leibler divergences, registered for pairs of classes of distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import control_dependencies, name_scope
from aioexec.ops.array.identity import identity
from aioexec.ops.control_flow.printing import Assert
from aioexec.ops.reduction.reductions import reduce_any

Divergence = Callable[..., Tensor]
"""`(distribution_a, distribution_b, name)` to KL(a || b)."""

_DIVERGENCES: dict[tuple[type, type], Divergence] = {}


class RegisterKL:
    """A decorator that registers a function `(distribution_a, distribution_b, name=None)` for two classes.

    Raises:
        GraphTypeError: what is decorated is not callable.
        GraphValueError: there is one already.
    """

    def __init__(self, dist_cls_a: type, dist_cls_b: type) -> None:
        self._key = dist_cls_a, dist_cls_b

    def __call__(self, kl_fn: Divergence) -> Divergence:
        if not callable(kl_fn):
            raise GraphTypeError(f"kl_fn must be callable, received: {kl_fn!r}")
        if self._key in _DIVERGENCES:
            names = " || ".join(kind.__name__ for kind in self._key)
            raise GraphValueError(f"KL({names}) has already been registered to: {_DIVERGENCES[self._key]}")
        _DIVERGENCES[self._key] = kl_fn
        return kl_fn


def _registered(first: type, second: type) -> Divergence | None:
    """Return the function of the classes, or of those of their bases that are nearest."""
    pairs = [
        (place_a + place_b, _DIVERGENCES[base_a, base_b])
        for place_a, base_a in enumerate(first.__mro__)
        for place_b, base_b in enumerate(second.__mro__)
        if (base_a, base_b) in _DIVERGENCES
    ]
    return min(pairs, key=lambda pair: pair[0])[1] if pairs else None


def kl_divergence(
    distribution_a: Any, distribution_b: Any, allow_nan_stats: bool = True, name: str | None = None
) -> Tensor:
    """Return the Kullback-Leibler divergence KL(a || b) = E_a[log a(x) - log b(x)] for each element of the batch.

    Args:
        allow_nan_stats: False for an error in the run that gives NaN.

    Raises:
        NotImplementedError: none is registered for the classes of the distributions.
    """
    found = _registered(type(distribution_a), type(distribution_b))
    if found is None:
        kinds = [type(each).__name__ for each in (distribution_a, distribution_b)]
        raise NotImplementedError(
            "No KL(distribution_a || distribution_b) registered for distribution_a type "
            f"{kinds[0]} and distribution_b type {kinds[1]}"
        )
    with name_scope("KullbackLeibler"):
        divergence = found(distribution_a, distribution_b, name=name)
        if allow_nan_stats:
            return divergence
        divergence = identity(divergence, name="kl")
        is_number = apply_op("LogicalNot", reduce_any(apply_op("IsNan", divergence)))
        message = (
            f"KL calculation between {distribution_a.name} and {distribution_b.name} returned NaN values "
            "(and was called with allow_nan_stats=False). Values:"
        )
        with control_dependencies([Assert(is_number, [message, divergence])]):
            checked: Tensor = identity(divergence, name="checked_kl")
            return checked


def cross_entropy(ref: Any, other: Any, allow_nan_stats: bool = True, name: str | None = None) -> Tensor:
    """Return the cross entropy -E_ref[log other(x)] for each element of the batch."""
    with name_scope(name, "cross_entropy"):
        total: Tensor = ref.entropy() + kl_divergence(ref, other, allow_nan_stats=allow_nan_stats)
        return total
