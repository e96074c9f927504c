"""Data sets in files, under the names of `tf.contrib.learn.datasets`; nothing is downloaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib.learn.datasets import mnist as mnist
    from aioexec.contrib.learn.datasets.base import Dataset as Dataset, Datasets as Datasets
else:
    __getattr__, __dir__ = public_names(__name__)
