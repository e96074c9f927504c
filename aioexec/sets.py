"""Operations on sets under the names of `tf.sets`: the rows along the last dimension of tensors are sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.ops.sparse.sets import (
        difference as difference,
        difference as set_difference,
        intersection as intersection,
        intersection as set_intersection,
        size as set_size,
        size as size,
        union as set_union,
        union as union,
    )

    __all__ = [
        "difference", "intersection", "set_difference", "set_intersection", "set_size", "set_union", "size", "union",
    ]  # fmt: skip
else:
    __getattr__, __dir__ = public_names(__name__)
