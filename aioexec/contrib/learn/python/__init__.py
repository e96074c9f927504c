"""The folder of `tf.contrib.learn`'s sources, through which some programs import."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib.learn.python import learn as learn
else:
    __getattr__, __dir__ = public_names(__name__)
