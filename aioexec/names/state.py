"""Variables, queues, tables, files and other state that outlives a step."""

from aioexec.ops.containers.accumulator_classes import (
    ConditionalAccumulator as ConditionalAccumulator,
    ConditionalAccumulatorBase as ConditionalAccumulatorBase,
    SparseConditionalAccumulator as SparseConditionalAccumulator,
)
from aioexec.ops.containers.queue_class import (
    FIFOQueue as FIFOQueue,
    PaddingFIFOQueue as PaddingFIFOQueue,
    PriorityQueue as PriorityQueue,
    QueueBase as QueueBase,
    RandomShuffleQueue as RandomShuffleQueue,
)
from aioexec.ops.io.files import (
    matching_files as matching_files,
    read_file as read_file,
    write_file as write_file,
)
from aioexec.ops.io.reader_classes import (
    FixedLengthRecordReader as FixedLengthRecordReader,
    IdentityReader as IdentityReader,
    ReaderBase as ReaderBase,
    TextLineReader as TextLineReader,
    TFRecordReader as TFRecordReader,
    WholeFileReader as WholeFileReader,
)
from aioexec.ops.lookup.lookup_tables import (
    initialize_all_tables as initialize_all_tables,
    tables_initializer as tables_initializer,
)
from aioexec.ops.state import scatter_nd_updates as _updates
from aioexec.ops.state.assignments import (
    assign as assign,
    assign_add as assign_add,
    assign_sub as assign_sub,
    is_variable_initialized as is_variable_initialized,
)
from aioexec.ops.state.initialization import (
    all_variables as all_variables,
    assert_variables_initialized as assert_variables_initialized,
    global_variables as global_variables,
    global_variables_initializer as global_variables_initializer,
    initialize_all_variables as initialize_all_variables,
    initialize_local_variables as initialize_local_variables,
    initialize_variables as initialize_variables,
    local_variables as local_variables,
    local_variables_initializer as local_variables_initializer,
    model_variables as model_variables,
    moving_average_variables as moving_average_variables,
    report_uninitialized_variables as report_uninitialized_variables,
    trainable_variables as trainable_variables,
    variables_initializer as variables_initializer,
)
from aioexec.ops.state.initializers import (
    constant_initializer as constant_initializer,
    glorot_normal_initializer as glorot_normal_initializer,
    glorot_uniform_initializer as glorot_uniform_initializer,
    identity_initializer as identity_initializer,
    ones_initializer as ones_initializer,
    orthogonal_initializer as orthogonal_initializer,
    random_normal_initializer as random_normal_initializer,
    random_uniform_initializer as random_uniform_initializer,
    truncated_normal_initializer as truncated_normal_initializer,
    uniform_unit_scaling_initializer as uniform_unit_scaling_initializer,
    variance_scaling_initializer as variance_scaling_initializer,
    zeros_initializer as zeros_initializer,
)
from aioexec.ops.state.partitioned_variables import (
    PartitionedVariable as PartitionedVariable,
    fixed_size_partitioner as fixed_size_partitioner,
    min_max_variable_partitioner as min_max_variable_partitioner,
    variable_axis_size_partitioner as variable_axis_size_partitioner,
)
from aioexec.ops.state.scatter_nd_updates import (
    scatter_nd_add as scatter_nd_add,
    scatter_nd_sub as scatter_nd_sub,
    scatter_nd_update as scatter_nd_update,
    tensor_scatter_add as tensor_scatter_add,
    tensor_scatter_max as tensor_scatter_max,
    tensor_scatter_min as tensor_scatter_min,
    tensor_scatter_sub as tensor_scatter_sub,
    tensor_scatter_update as tensor_scatter_update,
)
from aioexec.ops.state.scatter_updates import (
    scatter_add as scatter_add,
    scatter_div as scatter_div,
    scatter_max as scatter_max,
    scatter_min as scatter_min,
    scatter_mul as scatter_mul,
    scatter_sub as scatter_sub,
    scatter_update as scatter_update,
)
from aioexec.ops.state.session_handles import (
    delete_session_tensor as delete_session_tensor,
    get_session_handle as get_session_handle,
    get_session_tensor as get_session_tensor,
)
from aioexec.ops.state.template import make_template as make_template
from aioexec.ops.state.variable import (
    Variable as Variable,
    disable_resource_variables as disable_resource_variables,
    enable_resource_variables as enable_resource_variables,
    resource_variables_enabled as resource_variables_enabled,
)
from aioexec.ops.state.variable_options import (
    VariableAggregation as VariableAggregation,
    VariableSynchronization as VariableSynchronization,
)
from aioexec.ops.state.variable_scope import (
    VariableScope as VariableScope,
    create_partitioned_variables as create_partitioned_variables,
    get_local_variable as get_local_variable,
    get_variable as get_variable,
    get_variable_scope as get_variable_scope,
    no_regularizer as no_regularizer,
    variable_op_scope as variable_op_scope,
    variable_scope as variable_scope,
)
from aioexec.ops.state.variable_store import AUTO_REUSE as AUTO_REUSE

tensor_scatter_nd_add = _updates.tensor_scatter_add
tensor_scatter_nd_max = _updates.tensor_scatter_max
tensor_scatter_nd_min = _updates.tensor_scatter_min
tensor_scatter_nd_sub = _updates.tensor_scatter_sub
tensor_scatter_nd_update = _updates.tensor_scatter_update
