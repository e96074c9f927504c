"""Windows: weights of the samples of a frame."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.convert import constant
from aioexec.graph.node import Tensor
from aioexec.graph.static_values import constant_value


def hann_window(
    window_length: Any, periodic: bool = True, dtype: Any = dtypes.float32, name: str | None = None
) -> Tensor:
    """Return 0.5 - 0.5 cos(2 pi k / n) for each sample k of a frame.

    Args:
        window_length: the number of samples, known at graph construction.
        periodic: whether n is the length, if that is even; else n is the length - 1.

    Raises:
        GraphValueError: the dtype is not floating, or the length is not known.
    """
    return _raised_cosine(window_length, periodic, dtype, name or "hann_window", 0.5, 0.5)


def hamming_window(
    window_length: Any, periodic: bool = True, dtype: Any = dtypes.float32, name: str | None = None
) -> Tensor:
    """Return 0.54 - 0.46 cos(2 pi k / n) for each sample k of a frame; see `hann_window`."""
    return _raised_cosine(window_length, periodic, dtype, name or "hamming_window", 0.54, 0.46)


def _raised_cosine(length: Any, periodic: bool, dtype: Any, name: str, a: float, b: float) -> Tensor:
    kind = dtypes.as_dtype(dtype)
    if not kind.is_floating:
        raise GraphValueError(f"dtype must be a floating point type. Found {kind.name}")
    known = constant_value(length) if isinstance(length, Tensor) else length
    if known is None:
        raise GraphValueError(f"{name}: the length must be known at graph construction, got {length!r}")
    count = int(known)
    period = max(count - count % 2 if periodic else count - 1, 1)
    values = np.ones(1) if count == 1 else a - b * np.cos(2 * np.pi * np.arange(count) / period)
    return constant(values, kind, name=name)
