"""Functions under the names of `tf.keras.backend` that programs of graphs use."""

from __future__ import annotations

from typing import Any

from aioexec.errors import GraphValueError
from aioexec.graph.sparse_tensor import SparseTensor
from aioexec.keras.learning_phase import (
    learning_phase as learning_phase,
    set_learning_phase as set_learning_phase,
)
from aioexec.ops.array.identity import identity
from aioexec.ops.control_flow.smart_cond import smart_cond

_FLOATX = "float32"
_EPSILON = 1e-7


def epsilon() -> float:
    """Return the small number that functions add to divisors."""
    return _EPSILON


def floatx() -> str:
    """Return the name of the dtype of floats."""
    return _FLOATX


def image_data_format() -> str:
    """Return the layout of images, `channels_last`."""
    return "channels_last"


def int_shape(x: Any) -> tuple[int | None, ...] | None:
    """Return the static shape of a tensor or variable; None if not even its rank is known."""
    known = x.shape
    return None if known.ndims is None else tuple(known.as_list())


def ndim(x: Any) -> int | None:
    """Return the number of axes of a tensor or variable; None if it is not known."""
    rank: int | None = x.shape.ndims
    return rank


def is_sparse(tensor: Any) -> bool:
    """Whether a value is a SparseTensor."""
    return isinstance(tensor, SparseTensor)


def in_train_phase(x: Any, alt: Any, training: Any = None) -> Any:
    """Return `x` in training, else `alt`; both are tensors or functions that return one.

    Args:
        training: a bool, 0 or 1, or a boolean scalar tensor; by default the learning phase.

    Raises:
        GraphValueError: another number.
    """
    phase = learning_phase() if training is None else training
    if isinstance(phase, int) and phase not in (0, 1):
        raise GraphValueError(f"Expected a learning phase of 0 or 1, got {phase}")
    return smart_cond(
        bool(phase) if isinstance(phase, int) else phase, lambda: _value(x), lambda: _value(alt)
    )


def in_test_phase(x: Any, alt: Any, training: Any = None) -> Any:
    """Return `alt` in training, else `x`; see `in_train_phase`."""
    return in_train_phase(alt, x, training)


def _value(given: Any) -> Any:
    return identity(given() if callable(given) else given)
