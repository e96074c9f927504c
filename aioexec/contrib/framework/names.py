"""The public names of `aioexec.contrib.framework`, which TensorFlow has in several modules."""

from aioexec.contrib.framework.arg_scopes import (
    add_arg_scope as add_arg_scope,
    arg_scope as arg_scope,
    arg_scoped_arguments as arg_scoped_arguments,
    current_arg_scope as current_arg_scope,
    has_arg_scope as has_arg_scope,
)
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
from aioexec.contrib.framework.tensors import (
    assert_or_get_global_step as assert_or_get_global_step,
    assert_scalar as assert_scalar,
    assert_scalar_int as assert_scalar_int,
    get_graph_from_inputs as get_graph_from_inputs,
    get_name_scope as get_name_scope,
    get_placeholders as get_placeholders,
    is_tensor as is_tensor,
    reduce_sum_n as reduce_sum_n,
    with_same_shape as with_same_shape,
    with_shape as with_shape,
)
from aioexec.contrib.framework.variables import (
    add_model_variable as add_model_variable,
    global_variable as global_variable,
    local_variable as local_variable,
    model_variable as model_variable,
    variable as variable,
)
from aioexec.graph.scope_names import (
    prepend_name_scope as prepend_name_scope,
    strip_name_scope as strip_name_scope,
)
from aioexec.graph.sparse_tensor import (
    convert_to_tensor_or_sparse_tensor as convert_to_tensor_or_sparse_tensor,
)
from aioexec.ops.array.arrays import broadcast_to as broadcast_to
from aioexec.ops.control_flow.checks import assert_same_float_dtype as assert_same_float_dtype
from aioexec.ops.control_flow.smart_cond import (
    smart_case as smart_case,
    smart_cond as smart_cond,
    smart_constant_value as smart_constant_value,
)
from aioexec.ops.functions.python import py_func as py_func
from aioexec.ops.training.weights import remove_squeezable_dimensions as remove_squeezable_dimensions
from aioexec.train.checkpoints.checkpoint_reader import (
    list_variables as list_variables,
    load_checkpoint as load_checkpoint,
    load_variable as load_variable,
)
from aioexec.train.checkpoints.initialization import init_from_checkpoint as init_from_checkpoint
from aioexec.train.global_steps import (
    assert_global_step as assert_global_step,
    create_global_step as create_global_step,
    get_global_step as get_global_step,
    get_or_create_global_step as get_or_create_global_step,
)
