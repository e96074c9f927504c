"""Regularizers under the names of `tf.keras.regularizers`: losses of a variable, to pass to layers and `get_variable`."""

from __future__ import annotations

from typing import Any

from aioexec.errors import GraphTypeError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant
from aioexec.graph.node import Tensor
from aioexec.ops.reduction.reductions import reduce_sum


class Regularizer:
    """The base of regularizers: `regularizer(variable)` returns a scalar loss of the variable's dtype.

    The arguments of the constructor are the configuration: `type(r).from_config(r.get_config())` is an equal regularizer.
    """

    def __call__(self, x: Any) -> Tensor:
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        raise NotImplementedError

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Regularizer:
        return cls(**config)


class L1L2(Regularizer):
    """l1 * sum(|x|) + l2 * sum(x²)."""

    def __init__(self, l1: float = 0.0, l2: float = 0.0) -> None:
        self.l1 = float(l1 or 0.0)
        self.l2 = float(l2 or 0.0)

    def __call__(self, x: Any) -> Tensor:
        loss = constant(0.0, x.dtype.base_dtype)
        if self.l1:
            loss = apply_op("AddV2", loss, absolute(self.l1, x), name="add")
        if self.l2:
            loss = apply_op("AddV2", loss, squared(self.l2, x), name="add")
        return loss

    def get_config(self) -> dict[str, Any]:
        return {"l1": self.l1, "l2": self.l2}


class L1(Regularizer):
    """l1 * sum(|x|); `l` is the older name of the argument."""

    def __init__(self, l1: float = 0.01, **kwargs: Any) -> None:
        self.l1 = _older("L1", l1, kwargs)

    def __call__(self, x: Any) -> Tensor:
        return absolute(self.l1, x)

    def get_config(self) -> dict[str, Any]:
        return {"l1": self.l1}


class L2(Regularizer):
    """l2 * sum(x²); `l` is the older name of the argument."""

    def __init__(self, l2: float = 0.01, **kwargs: Any) -> None:
        self.l2 = _older("L2", l2, kwargs)

    def __call__(self, x: Any) -> Tensor:
        return squared(self.l2, x)

    def get_config(self) -> dict[str, Any]:
        return {"l2": self.l2}


def absolute(factor: float, x: Any) -> Tensor:
    """Return factor * sum(|x|)."""
    return apply_op("Mul", factor, reduce_sum(apply_op("Abs", x)), name="mul")


def squared(factor: float, x: Any) -> Tensor:
    """Return factor * sum(x²)."""
    return apply_op("Mul", factor, reduce_sum(apply_op("Square", x)), name="mul")


def _older(name: str, value: float, kwargs: dict[str, Any]) -> float:
    """The factor, perhaps given by its older name `l`.

    Raises:
        GraphTypeError: there are other keyword arguments.
    """
    factor = float(kwargs.pop("l", value))
    if kwargs:
        raise GraphTypeError(f"{name}: Argument(s) not recognized: {sorted(kwargs)}")
    return factor


def l1_l2(l1: float = 0.01, l2: float = 0.01) -> L1L2:
    """Return the regularizer l1 * sum(|x|) + l2 * sum(x²)."""
    return L1L2(l1, l2)


l1 = L1
l2 = L2
