"""The parts of data sets."""

from __future__ import annotations

from typing import Any, NamedTuple


class Dataset(NamedTuple):
    """Examples and their labels."""

    data: Any
    target: Any


class Datasets(NamedTuple):
    """A data set for training, one to choose settings by, and one to test with."""

    train: Any
    validation: Any
    test: Any
