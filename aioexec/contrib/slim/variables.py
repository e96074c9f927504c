"""Variables under the names of `tf.contrib.slim.variables`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib.framework.assignments import (
        assign_from_checkpoint as assign_from_checkpoint,
        assign_from_checkpoint_fn as assign_from_checkpoint_fn,
        assign_from_values as assign_from_values,
        assign_from_values_fn as assign_from_values_fn,
    )
    from aioexec.contrib.framework.selection import (
        filter_variables as filter_variables,
        get_local_variables as get_local_variables,
        get_model_variables as get_model_variables,
        get_trainable_variables as get_trainable_variables,
        get_unique_variable as get_unique_variable,
        get_variable_full_name as get_variable_full_name,
        get_variables as get_variables,
        get_variables_by_name as get_variables_by_name,
        get_variables_by_suffix as get_variables_by_suffix,
        get_variables_to_restore as get_variables_to_restore,
    )
    from aioexec.contrib.framework.variables import (
        add_model_variable as add_model_variable,
        global_variable as global_variable,
        local_variable as local_variable,
        model_variable as model_variable,
        variable as variable,
    )
    from aioexec.train.global_steps import (
        assert_global_step as assert_global_step,
        create_global_step as create_global_step,
        get_global_step as get_global_step,
        get_or_create_global_step as get_or_create_global_step,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
