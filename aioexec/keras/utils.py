"""Functions of arrays under the names of `tf.keras.utils`."""

from __future__ import annotations

from typing import Any

import numpy as np


def to_categorical(y: Any, num_classes: int | None = None, dtype: Any = "float32") -> np.ndarray[Any, Any]:
    """Return classes [...] as rows [..., num_classes] with a 1 at the class.

    Args:
        y: integers from 0; a last axis of size 1 is left out.
        num_classes: by default the largest class and 1.
    """
    classes = np.array(y, dtype="int")
    outer = classes.shape[:-1] if classes.ndim > 1 and classes.shape[-1] == 1 else classes.shape
    flat = classes.reshape(-1)
    count = int(flat.max()) + 1 if num_classes is None else num_classes
    rows = np.zeros((flat.size, count), dtype=dtype)
    rows[np.arange(flat.size), flat] = 1
    return rows.reshape((*outer, count))


def normalize(x: Any, axis: int = -1, order: int = 2) -> np.ndarray[Any, Any]:
    """Return an array divided by its norms along an axis; those of norm 0 stay."""
    norms = np.atleast_1d(np.linalg.norm(x, order, axis))
    norms[norms == 0] = 1
    quotient: np.ndarray[Any, Any] = x / np.expand_dims(norms, axis)
    return quotient
