"""Data sets under the names of `tf.keras.datasets`, read from files that Keras keeps; nothing is downloaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.keras.datasets import cifar10 as cifar10, mnist as mnist
else:
    __getattr__, __dir__ = public_names(__name__)
