"""Functions on nested structures under the names of `tf.nest`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.ops.control_flow.nest_functions import (
        assert_same_structure as assert_same_structure,
        flatten as flatten,
        is_nested as is_nested,
        map_structure as map_structure,
        pack_sequence_as as pack_sequence_as,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
