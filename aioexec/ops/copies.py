"""Copies of values that state keeps longer than their step: nobody else holds what comes out of it later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

LARGE = 128 * 1024
"""Bytes whose copying would hold the event loop: it is left to a worker."""


def copied(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([value.copy() if isinstance(value, np.ndarray) else value for value in values])


def nbytes_of(values: Sequence[Any]) -> int:
    return sum([getattr(value, "nbytes", 0) for value in values])


def are_large(values: Sequence[Any]) -> bool:
    """Whether to copy these on a worker."""
    return nbytes_of(values) > LARGE
