"""The place of `tf.contrib.framework.python.ops`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib.framework.python import ops as ops
else:
    __getattr__, __dir__ = public_names(__name__)
