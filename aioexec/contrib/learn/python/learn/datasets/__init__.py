"""The data sets of `tf.contrib.learn` at the place of their sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib.learn.datasets import base as base
    from aioexec.contrib.learn.python.learn.datasets import mnist as mnist
else:
    __getattr__, __dir__ = public_names(__name__)
