"""Staging areas under the names of `tf.contrib.staging`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.ops.containers.staging_class import StagingArea as StagingArea
else:
    __getattr__, __dir__ = public_names(__name__)
