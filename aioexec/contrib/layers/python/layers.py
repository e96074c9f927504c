"""The names of `tf.contrib.layers` where programs import them from its source files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib.layers import (
        initializers as initializers,
        regularizers as regularizers,
        utils as utils,
    )
    from aioexec.contrib.layers.names import *  # noqa: F403
    from aioexec.contrib.layers.python import layers as layers  # noqa: PLW0406 - programs import it from itself
else:
    __getattr__, __dir__ = public_names(__name__)
