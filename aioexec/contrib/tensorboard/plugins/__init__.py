"""Plugins of TensorBoard under the names of `tf.contrib.tensorboard.plugins`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib.tensorboard.plugins import projector as projector
else:
    __getattr__, __dir__ = public_names(__name__)
