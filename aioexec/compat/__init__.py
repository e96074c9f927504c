"""Compatibility between versions, under the names of `tf.compat`.

`v1` is this package itself; `v0` has the names of TensorFlow 0.x as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.compat import v0 as v0, v1 as v1
    from aioexec.compat.text import (
        as_bytes as as_bytes,
        as_str as as_str,
        as_str_any as as_str_any,
        as_text as as_text,
        bytes_or_text_types as bytes_or_text_types,
        complex_types as complex_types,
        dimension_at_index as dimension_at_index,
        dimension_value as dimension_value,
        integral_types as integral_types,
        path_to_str as path_to_str,
        real_types as real_types,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
