"""The names of `tf.contrib.framework` where programs import them from its source files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib.framework.names import *  # noqa: F403
    from aioexec.contrib.framework.python import variables as variables
else:
    __getattr__, __dir__ = public_names(__name__)
