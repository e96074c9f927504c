"""The modules of `tf.keras` that programs use beside `tf.layers`: initializers and regularizers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.keras import initializers as initializers, regularizers as regularizers
else:
    __getattr__, __dir__ = public_names(__name__)
