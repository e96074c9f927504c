"""Functions on nested structures under the names of `tf.contrib.framework.nest`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.nest import *  # noqa: F403
    from aioexec.ops.control_flow.nesting import is_sequence as is_sequence
else:
    __getattr__, __dir__ = public_names(__name__)
