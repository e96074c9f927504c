"""The names of `tf.contrib.learn` that programs use besides its estimators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib.learn import datasets as datasets, preprocessing as preprocessing, python as python
    from aioexec.contrib.learn.settings import ModeKeys as ModeKeys, RunConfig as RunConfig
else:
    __getattr__, __dir__ = public_names(__name__)
