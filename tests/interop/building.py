"""A graph of the interop suite, built by TensorFlow, with its feeds, fetches and variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Built:
    """What to run of a graph.

    Attributes:
        fetches: the tensors to compare after each run.
        feeds: one feed_dict (tensor to value) for each run, in this order in one session.
        init: initialises the variables, run once before.
        train: runs beside the fetches.
        tolerance: factor on what a dtype allows, for graphs that amplify differences.
    """

    fetches: Sequence[Any]
    feeds: Sequence[dict[Any, Any]] = field(default_factory=lambda: [{}])
    init: Any = None
    train: Any = None
    tolerance: float = 1.0


Builder = Callable[[Any], Built]
"""Builds in TensorFlow's default graph; gets the module `tensorflow.compat.v1`."""


def values(seed: int, *shape: int, dtype: str = "float32", low: float = -1.0, high: float = 1.0) -> Any:
    """The same values each time, spread evenly over a range."""
    drawn = np.random.default_rng(seed).uniform(low, high, shape)
    return drawn.astype(dtype)


def whole(seed: int, *shape: int, low: int = -5, high: int = 6, dtype: str = "int32") -> Any:
    """The same whole numbers each time, `high` excluded."""
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def labels(seed: int, batch: int, classes: int) -> Any:
    """One-hot rows."""
    return np.eye(classes, dtype=np.float32)[whole(seed, batch, low=0, high=classes)]


def batches(tf: Any, count: int, *placeholders: tuple[Any, Callable[[int], Any]]) -> list[dict[Any, Any]]:
    """A feed for each step: each placeholder gets what its function makes of the step's number."""
    return [{tensor: make(step) for tensor, make in placeholders} for step in range(count)]
