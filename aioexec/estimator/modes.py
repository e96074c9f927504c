"""ModeKeys: what a model function is called for."""

from __future__ import annotations

from typing import Final


class ModeKeys:
    """The modes of a model function."""

    TRAIN: Final = "train"
    EVAL: Final = "eval"
    PREDICT: Final = "infer"
