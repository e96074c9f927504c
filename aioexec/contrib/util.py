"""Protos and constants of tensors under the names of `tf.contrib.util`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.formats.tensor_codec import (
        MakeNdarray as make_ndarray,
        make_tensor_proto as make_tensor_proto,
    )
    from aioexec.graph.static_values import constant_value as constant_value
else:
    __getattr__, __dir__ = public_names(__name__)
