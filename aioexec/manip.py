"""Ops that rearrange tensors under the names of `tf.manip`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.ops.array.arrays import (
        reshape as reshape,
        tile as tile,
    )
    from aioexec.ops.array.gathering import (
        gather_nd as gather_nd,
        scatter_nd as scatter_nd,
    )
    from aioexec.ops.array.ordering import (
        roll as roll,
    )
    from aioexec.ops.array.reverse import (
        reverse as reverse,
    )
    from aioexec.ops.array.space_and_batch import (
        batch_to_space_nd as batch_to_space_nd,
        space_to_batch_nd as space_to_batch_nd,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
