"""The optimizer that a constructor's argument stands for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from aioexec.errors import GraphValueError
from aioexec.train.optimizers.gradient_descent import AdamOptimizer, GradientDescentOptimizer
from aioexec.train.optimizers.optimizer import Optimizer
from aioexec.train.optimizers.update_optimizers import AdagradOptimizer, FtrlOptimizer, RMSPropOptimizer

_BY_NAME: Final[Mapping[str, Callable[..., Optimizer]]] = {
    "Adagrad": AdagradOptimizer,
    "Adam": AdamOptimizer,
    "Ftrl": FtrlOptimizer,
    "RMSProp": RMSPropOptimizer,
    "SGD": GradientDescentOptimizer,
}


def optimizer_of(given: Any, learning_rate: float) -> Optimizer:
    """The optimizer: one, the result of a function, or the one of this name with the learning rate.

    Raises:
        GraphValueError: an unknown name, or the value is no optimizer.
    """
    if isinstance(given, str):
        if given not in _BY_NAME:
            raise GraphValueError(
                f"Unsupported optimizer name: {given}. Supported names are: {tuple(_BY_NAME)}"
            )
        return _BY_NAME[given](learning_rate=learning_rate)
    found = given() if callable(given) else given
    if not isinstance(found, Optimizer):
        raise GraphValueError(f"The given object is not an Optimizer instance. Given: {found!r}")
    return found
