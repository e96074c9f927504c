"""Aliases of tensors, data formats and static values under the names of `tf.contrib.layers.utils`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib.layers.collecting import (
        append_tensor_alias as append_tensor_alias,
        collect_named_outputs as collect_named_outputs,
        convert_collection_to_dict as convert_collection_to_dict,
        gather_tensors_aliases as gather_tensors_aliases,
        get_tensor_aliases as get_tensor_aliases,
        get_variable_collections as get_variable_collections,
    )
    from aioexec.contrib.layers.formats import (
        channel_dimension as channel_dimension,
        last_dimension as last_dimension,
        n_positive_integers as n_positive_integers,
        two_element_tuple as two_element_tuple,
    )
    from aioexec.ops.control_flow.smart_cond import smart_cond as smart_cond
else:
    __getattr__, __dir__ = public_names(__name__)
