"""Variables, argument scopes and checkpoints under the names of `tf.contrib.framework`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib.framework import nest as nest, python as python
    from aioexec.contrib.framework.names import *  # noqa: F403
else:
    __getattr__, __dir__ = public_names(__name__)
