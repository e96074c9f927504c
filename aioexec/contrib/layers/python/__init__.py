"""The place of `tf.contrib.layers.python.layers`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib.layers.python import layers as layers
else:
    __getattr__, __dir__ = public_names(__name__)
