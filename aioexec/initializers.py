"""Initializers under the names of `tf.initializers`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.ops.lookup.lookup_tables import tables_initializer as tables_initializer
    from aioexec.ops.state.initialization import (
        global_variables_initializer as global_variables,
        local_variables_initializer as local_variables,
        variables_initializer as variables,
    )
    from aioexec.ops.state.initializers import (
        Constant as constant,
        GlorotNormal as glorot_normal,
        GlorotUniform as glorot_uniform,
        Identity as identity,
        Ones as ones,
        Orthogonal as orthogonal,
        RandomNormal as random_normal,
        RandomUniform as random_uniform,
        TruncatedNormal as truncated_normal,
        UniformUnitScaling as uniform_unit_scaling,
        VarianceScaling as variance_scaling,
        Zeros as zeros,
        he_normal as he_normal,
        he_uniform as he_uniform,
        lecun_normal as lecun_normal,
        lecun_uniform as lecun_uniform,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
