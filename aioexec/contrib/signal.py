"""Fourier transforms, frames and windows under the names of `tf.contrib.signal`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.signal import *  # noqa: F403
else:
    __getattr__, __dir__ = public_names(__name__)
