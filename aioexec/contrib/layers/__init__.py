"""Layers, initializers, regularizers and `optimize_loss` under the names of `tf.contrib.layers`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib.layers import python as python, utils as utils
    from aioexec.contrib.layers.names import *  # noqa: F403
else:
    __getattr__, __dir__ = public_names(__name__)
