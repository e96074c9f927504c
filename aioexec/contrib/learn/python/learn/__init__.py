"""The modules of `tf.contrib.learn` at the place of their sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib.learn import preprocessing as preprocessing
    from aioexec.contrib.learn.python.learn import datasets as datasets
else:
    __getattr__, __dir__ = public_names(__name__)
