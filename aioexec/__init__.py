"""aioexec: TensorFlow 1.x's session runtime for asyncio.

The names are TensorFlow 1.x's; a program is ported by changing the import and awaiting `session.run`. This file is the wiring:
it says which parts are public, and plugs operators, `eval` and protos into the graph, which knows none of them.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import Any

from aioexec import (
    bitwise as bitwise,
    dtypes as dtypes,
    errors as errors,
    image as image,
    linalg as linalg,
    lookup as lookup,
    math as math,
    nn as nn,
    random as random,
    signal as signal,
    strings as strings,
    train as train,
)
from aioexec.devices.builtin import register_builtin_factories
from aioexec.dtypes import (
    DType as DType,
    as_dtype as as_dtype,
    bfloat16 as bfloat16,
    bool as bool,
    complex64 as complex64,
    complex128 as complex128,
    double as double,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    half as half,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    qint8 as qint8,
    qint16 as qint16,
    qint32 as qint32,
    quint8 as quint8,
    quint16 as quint16,
    resource as resource,
    string as string,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
    variant as variant,
)
from aioexec.errors import OpError as OpError
from aioexec.gradients.aggregation import (
    AggregationMethod as AggregationMethod,
    UnconnectedGradients as UnconnectedGradients,
)
from aioexec.gradients.backprop import (
    gradients as gradients,
)
from aioexec.gradients.calls import gradient_of_call, symbolic_gradient_bodies
from aioexec.gradients.functional import gradient_of_bodies
from aioexec.gradients.hessian import hessians as hessians
from aioexec.gradients.registration import (
    NoGradient as NoGradient,
    NotDifferentiable as NotDifferentiable,
    RegisterGradient as RegisterGradient,
    custom_gradient as custom_gradient,
    no_gradient as no_gradient,
)
from aioexec.graph import node, registry
from aioexec.graph.convert import (
    constant as constant,
    convert_to_tensor as convert_to_tensor,
    convert_to_tensor_or_indexed_slices as convert_to_tensor_or_indexed_slices,
    register_tensor_conversion_function as register_tensor_conversion_function,
)
from aioexec.graph.defaults import get_default_session as get_default_session
from aioexec.graph.device_spec import DeviceSpec as DeviceSpec
from aioexec.graph.functions import Function
from aioexec.graph.graph import (
    Graph as Graph,
    get_default_graph as get_default_graph,
    reset_default_graph as reset_default_graph,
)
from aioexec.graph.indexed_slices import (
    IndexedSlices as IndexedSlices,
    IndexedSlicesValue as IndexedSlicesValue,
)
from aioexec.graph.keys import GraphKeys as GraphKeys
from aioexec.graph.node import Operation as Operation, Tensor as Tensor
from aioexec.graph.scopes import (
    add_to_collection as add_to_collection,
    add_to_collections as add_to_collections,
    colocate_with as colocate_with,
    container as container,
    control_dependencies as control_dependencies,
    device as device,
    get_collection as get_collection,
    get_collection_ref as get_collection_ref,
    init_scope as init_scope,
    name_scope as name_scope,
    op_scope as op_scope,
)
from aioexec.graph.sparse_tensor import (
    SparseTensor as SparseTensor,
    SparseTensorValue as SparseTensorValue,
    convert_to_tensor_or_sparse_tensor as convert_to_tensor_or_sparse_tensor,
    sparse_placeholder as sparse_placeholder,
)
from aioexec.ops import (  # noqa: F401  (some for their rows only)
    barrier as _barrier,
    checkpoints as _checkpoints,
    control,
    defun as _defun,
    filling,
    functional_control_flow as _functional_control_flow,
    functional_ops as _functional_ops,
    functions as _functions,
    list_uses as _list_uses,
    optional as _optional,
    queue_verbs as _queue_verbs,
    retired as _retired,
    slicing,
    stacks as _stacks,
    staging_class as _staging_class,
    strided_updates as _strided_updates,
    structured as _structured,
    summaries as _summaries,
    temporary_variable as _temporary_variable,
    tensor_list_joins as _tensor_list_joins,
    transfer as _transfer,
)
from aioexec.ops.accumulator_classes import (
    ConditionalAccumulator as ConditionalAccumulator,
    ConditionalAccumulatorBase as ConditionalAccumulatorBase,
    SparseConditionalAccumulator as SparseConditionalAccumulator,
)
from aioexec.ops.arg_reduction import (
    argmax as argmax,
    argmin as argmin,
)
from aioexec.ops.arithmetic import (
    accumulate_n as accumulate_n,
    add as add,
    add_n as add_n,
    div as div,
    divide as divide,
    floor_div as floor_div,
    floordiv as floordiv,
    floormod as floormod,
    mod as mod,
    multiply as multiply,
    pow as pow,
    realdiv as realdiv,
    scalar_mul as scalar_mul,
    squared_difference as squared_difference,
    subtract as subtract,
    truediv as truediv,
    truncatediv as truncatediv,
    truncatemod as truncatemod,
)
from aioexec.ops.array import (
    broadcast_to as broadcast_to,
    expand_dims as expand_dims,
    matrix_transpose as matrix_transpose,
    reshape as reshape,
    reverse as reverse,
    reverse_v2 as reverse_v2,
    squeeze as squeeze,
    tile as tile,
    transpose as transpose,
)
from aioexec.ops.binary_functions import (
    atan2 as atan2,
    div_no_nan as div_no_nan,
)
from aioexec.ops.bitcast import (
    bitcast as bitcast,
)
from aioexec.ops.case import (
    case as case,
    switch_case as switch_case,
)
from aioexec.ops.cast import (
    cast as cast,
    saturate_cast as saturate_cast,
    to_bfloat16 as to_bfloat16,
    to_complex64 as to_complex64,
    to_complex128 as to_complex128,
    to_double as to_double,
    to_float as to_float,
    to_int32 as to_int32,
    to_int64 as to_int64,
)
from aioexec.ops.checks import (
    assert_equal as assert_equal,
    assert_greater as assert_greater,
    assert_greater_equal as assert_greater_equal,
    assert_integer as assert_integer,
    assert_less as assert_less,
    assert_less_equal as assert_less_equal,
    assert_near as assert_near,
    assert_negative as assert_negative,
    assert_non_negative as assert_non_negative,
    assert_non_positive as assert_non_positive,
    assert_none_equal as assert_none_equal,
    assert_positive as assert_positive,
    assert_proper_iterable as assert_proper_iterable,
    assert_rank as assert_rank,
    assert_rank_at_least as assert_rank_at_least,
    assert_rank_in as assert_rank_in,
    assert_same_float_dtype as assert_same_float_dtype,
    assert_scalar as assert_scalar,
    assert_type as assert_type,
    is_non_decreasing as is_non_decreasing,
    is_strictly_increasing as is_strictly_increasing,
)
from aioexec.ops.comparison import (
    equal as equal,
    greater as greater,
    greater_equal as greater_equal,
    is_finite as is_finite,
    is_inf as is_inf,
    is_nan as is_nan,
    less as less,
    less_equal as less_equal,
    logical_and as logical_and,
    logical_not as logical_not,
    logical_or as logical_or,
    logical_xor as logical_xor,
    not_equal as not_equal,
    where as where,
    where_v2 as where_v2,
)
from aioexec.ops.complex_numbers import (
    angle as angle,
    complex as complex,
    conj as conj,
    imag as imag,
    real as real,
)
from aioexec.ops.cond import (
    cond as cond,
)
from aioexec.ops.control import (
    group as group,
    no_op as no_op,
    with_dependencies as with_dependencies,
)
from aioexec.ops.counting import (
    count_up_to as count_up_to,
)
from aioexec.ops.cumulative import (
    cumprod as cumprod,
    cumsum as cumsum,
)
from aioexec.ops.decoding import (
    decode_csv as decode_csv,
    decode_raw as decode_raw,
)
from aioexec.ops.decompositions import (
    cholesky as cholesky,
    qr as qr,
    self_adjoint_eig as self_adjoint_eig,
    self_adjoint_eigvals as self_adjoint_eigvals,
    svd as svd,
)
from aioexec.ops.edit_distance import (
    edit_distance as edit_distance,
)
from aioexec.ops.einsum import (
    einsum as einsum,
)
from aioexec.ops.extremes import (
    clip_by_value as clip_by_value,
    maximum as maximum,
    minimum as minimum,
)
from aioexec.ops.fake_quantization import (
    fake_quant_with_min_max_args as fake_quant_with_min_max_args,
    fake_quant_with_min_max_vars as fake_quant_with_min_max_vars,
    fake_quant_with_min_max_vars_per_channel as fake_quant_with_min_max_vars_per_channel,
)
from aioexec.ops.files import (
    matching_files as matching_files,
    read_file as read_file,
    write_file as write_file,
)
from aioexec.ops.filling import (
    fill as fill,
    lin_space as lin_space,
    linspace as linspace,
    one_hot as one_hot,
    ones as ones,
    ones_like as ones_like,
    zeros as zeros,
    zeros_like as zeros_like,
)
from aioexec.ops.fourier import (
    fft as fft,
    fft2d as fft2d,
    fft3d as fft3d,
    ifft as ifft,
    ifft2d as ifft2d,
    ifft3d as ifft3d,
)
from aioexec.ops.functional import (
    foldl as foldl,
    foldr as foldr,
    map_fn as map_fn,
    scan as scan,
)
from aioexec.ops.gathering import (
    boolean_mask as boolean_mask,
    gather as gather,
    gather_nd as gather_nd,
    scatter_nd as scatter_nd,
)
from aioexec.ops.histograms import (
    bincount as bincount,
    histogram_fixed_width as histogram_fixed_width,
)
from aioexec.ops.identity import (
    ensure_shape as ensure_shape,
    identity as identity,
    identity_n as identity_n,
    placeholder as placeholder,
    placeholder_with_default as placeholder_with_default,
    prevent_gradient as prevent_gradient,
    stop_gradient as stop_gradient,
)
from aioexec.ops.initialization import (
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
from aioexec.ops.initializers import (
    constant_initializer as constant_initializer,
    glorot_normal_initializer as glorot_normal_initializer,
    glorot_uniform_initializer as glorot_uniform_initializer,
    identity_initializer as identity_initializer,
    ones_initializer as ones_initializer,
    random_normal_initializer as random_normal_initializer,
    random_uniform_initializer as random_uniform_initializer,
    truncated_normal_initializer as truncated_normal_initializer,
    uniform_unit_scaling_initializer as uniform_unit_scaling_initializer,
    variance_scaling_initializer as variance_scaling_initializer,
    zeros_initializer as zeros_initializer,
)
from aioexec.ops.inplace import (
    parallel_stack as parallel_stack,
)
from aioexec.ops.joining import (
    concat as concat,
    meshgrid as meshgrid,
    split as split,
    stack as stack,
    unstack as unstack,
)
from aioexec.ops.linalg import (
    cross as cross,
    matmul as matmul,
)
from aioexec.ops.linear_equations import (
    cholesky_solve as cholesky_solve,
    matrix_determinant as matrix_determinant,
    matrix_inverse as matrix_inverse,
    matrix_solve as matrix_solve,
    matrix_solve_ls as matrix_solve_ls,
    matrix_triangular_solve as matrix_triangular_solve,
)
from aioexec.ops.lookup_tables import (
    initialize_all_tables as initialize_all_tables,
    tables_initializer as tables_initializer,
)
from aioexec.ops.math_functions import (
    abs as abs,
    acos as acos,
    acosh as acosh,
    asin as asin,
    asinh as asinh,
    atan as atan,
    atanh as atanh,
    ceil as ceil,
    cos as cos,
    cosh as cosh,
    erf as erf,
    erfc as erfc,
    exp as exp,
    expm1 as expm1,
    floor as floor,
    log as log,
    log1p as log1p,
    log_sigmoid as log_sigmoid,
    negative as negative,
    reciprocal as reciprocal,
    rint as rint,
    round as round,
    rsqrt as rsqrt,
    sigmoid as sigmoid,
    sign as sign,
    sin as sin,
    sinh as sinh,
    sqrt as sqrt,
    square as square,
    tan as tan,
    tanh as tanh,
)
from aioexec.ops.matrix_diagonals import (
    diag as diag,
    diag_part as diag_part,
    eye as eye,
    matrix_band_part as matrix_band_part,
    matrix_diag as matrix_diag,
    matrix_diag_part as matrix_diag_part,
    matrix_set_diag as matrix_set_diag,
    trace as trace,
)
from aioexec.ops.matrix_functions import (
    matrix_square_root as matrix_square_root,
)
from aioexec.ops.norms import (
    clip_by_average_norm as clip_by_average_norm,
    clip_by_global_norm as clip_by_global_norm,
    clip_by_norm as clip_by_norm,
    global_norm as global_norm,
    norm as norm,
)
from aioexec.ops.numerics import (
    add_check_numerics_ops as add_check_numerics_ops,
    check_numerics as check_numerics,
    verify_tensor_all_finite as verify_tensor_all_finite,
)
from aioexec.ops.operators import OPERATORS_TABLE
from aioexec.ops.ordering import (
    reverse_sequence as reverse_sequence,
    roll as roll,
)
from aioexec.ops.padding import (
    pad as pad,
)
from aioexec.ops.partitioned_variables import (
    PartitionedVariable as PartitionedVariable,
    fixed_size_partitioner as fixed_size_partitioner,
    min_max_variable_partitioner as min_max_variable_partitioner,
    variable_axis_size_partitioner as variable_axis_size_partitioner,
)
from aioexec.ops.partitioning import (
    dynamic_partition as dynamic_partition,
    dynamic_stitch as dynamic_stitch,
)
from aioexec.ops.printing import (
    Assert as Assert,
    Print as Print,
)
from aioexec.ops.python import (
    py_func as py_func,
)
from aioexec.ops.queue_class import (
    FIFOQueue as FIFOQueue,
    PaddingFIFOQueue as PaddingFIFOQueue,
    PriorityQueue as PriorityQueue,
    QueueBase as QueueBase,
    RandomShuffleQueue as RandomShuffleQueue,
)
from aioexec.ops.random import (
    get_seed as get_seed,
    multinomial as multinomial,
    random_normal as random_normal,
    random_shuffle as random_shuffle,
    random_uniform as random_uniform,
    set_random_seed as set_random_seed,
    truncated_normal as truncated_normal,
)
from aioexec.ops.random_distributions import (
    random_gamma as random_gamma,
    random_poisson as random_poisson,
)
from aioexec.ops.reader_classes import (
    FixedLengthRecordReader as FixedLengthRecordReader,
    IdentityReader as IdentityReader,
    ReaderBase as ReaderBase,
    TextLineReader as TextLineReader,
    TFRecordReader as TFRecordReader,
    WholeFileReader as WholeFileReader,
)
from aioexec.ops.reduction import (
    reduce_all as reduce_all,
    reduce_any as reduce_any,
    reduce_max as reduce_max,
    reduce_mean as reduce_mean,
    reduce_min as reduce_min,
    reduce_prod as reduce_prod,
    reduce_sum as reduce_sum,
)
from aioexec.ops.regular_expressions import (
    regex_replace as regex_replace,
)
from aioexec.ops.scatter_nd_updates import (
    scatter_nd_add as scatter_nd_add,
    scatter_nd_sub as scatter_nd_sub,
    scatter_nd_update as scatter_nd_update,
    tensor_scatter_add as tensor_scatter_add,
    tensor_scatter_max as tensor_scatter_max,
    tensor_scatter_min as tensor_scatter_min,
    tensor_scatter_sub as tensor_scatter_sub,
    tensor_scatter_update as tensor_scatter_update,
)
from aioexec.ops.scatter_updates import (
    scatter_add as scatter_add,
    scatter_div as scatter_div,
    scatter_max as scatter_max,
    scatter_min as scatter_min,
    scatter_mul as scatter_mul,
    scatter_sub as scatter_sub,
    scatter_update as scatter_update,
)
from aioexec.ops.searching import (
    searchsorted as searchsorted,
    unravel_index as unravel_index,
)
from aioexec.ops.segments import (
    segment_max as segment_max,
    segment_mean as segment_mean,
    segment_min as segment_min,
    segment_prod as segment_prod,
    segment_sum as segment_sum,
    unsorted_segment_max as unsorted_segment_max,
    unsorted_segment_mean as unsorted_segment_mean,
    unsorted_segment_min as unsorted_segment_min,
    unsorted_segment_prod as unsorted_segment_prod,
    unsorted_segment_sqrt_n as unsorted_segment_sqrt_n,
    unsorted_segment_sum as unsorted_segment_sum,
)
from aioexec.ops.session_handles import (
    delete_session_tensor as delete_session_tensor,
    get_session_handle as get_session_handle,
    get_session_tensor as get_session_tensor,
)
from aioexec.ops.set_difference import (
    setdiff1d as setdiff1d,
)
from aioexec.ops.shapes_of import (
    broadcast_dynamic_shape as broadcast_dynamic_shape,
    broadcast_static_shape as broadcast_static_shape,
    invert_permutation as invert_permutation,
    rank as rank,
    shape as shape,
    shape_n as shape_n,
    size as size,
)
from aioexec.ops.slicing import (
    strided_slice as strided_slice,
)
from aioexec.ops.smart_cond import (
    smart_cond as smart_cond,
)
from aioexec.ops.space_and_batch import (
    batch_to_space as batch_to_space,
    batch_to_space_nd as batch_to_space_nd,
    depth_to_space as depth_to_space,
    space_to_batch as space_to_batch,
    space_to_batch_nd as space_to_batch_nd,
    space_to_depth as space_to_depth,
)
from aioexec.ops.sparse_functions import (
    sparse_add as sparse_add,
    sparse_concat as sparse_concat,
    sparse_fill_empty_rows as sparse_fill_empty_rows,
    sparse_maximum as sparse_maximum,
    sparse_minimum as sparse_minimum,
    sparse_reduce_max as sparse_reduce_max,
    sparse_reduce_sum as sparse_reduce_sum,
    sparse_reorder as sparse_reorder,
    sparse_reshape as sparse_reshape,
    sparse_retain as sparse_retain,
    sparse_slice as sparse_slice,
    sparse_softmax as sparse_softmax,
    sparse_split as sparse_split,
    sparse_tensor_dense_matmul as sparse_tensor_dense_matmul,
    sparse_tensor_to_dense as sparse_tensor_to_dense,
    sparse_to_dense as sparse_to_dense,
    sparse_transpose as sparse_transpose,
)
from aioexec.ops.sparse_segments import (
    sparse_segment_mean as sparse_segment_mean,
    sparse_segment_sqrt_n as sparse_segment_sqrt_n,
    sparse_segment_sum as sparse_segment_sum,
)
from aioexec.ops.special_functions import (
    betainc as betainc,
    digamma as digamma,
    igamma as igamma,
    igammac as igammac,
    lbeta as lbeta,
    lgamma as lgamma,
    polygamma as polygamma,
    zeta as zeta,
)
from aioexec.ops.state import (
    assign as assign,
    assign_add as assign_add,
    assign_sub as assign_sub,
    is_variable_initialized as is_variable_initialized,
)
from aioexec.ops.statistics import (
    count_nonzero as count_nonzero,
    reduce_logsumexp as reduce_logsumexp,
    reduce_std as reduce_std,
    reduce_variance as reduce_variance,
)
from aioexec.ops.string_formats import (
    print as print,
)
from aioexec.ops.string_functions import (
    decode_base64 as decode_base64,
    encode_base64 as encode_base64,
    reduce_join as reduce_join,
    string_join as string_join,
    string_split as string_split,
    substr as substr,
)
from aioexec.ops.string_numbers import (
    as_string as as_string,
    string_to_hash_bucket as string_to_hash_bucket,
    string_to_hash_bucket_fast as string_to_hash_bucket_fast,
    string_to_hash_bucket_strong as string_to_hash_bucket_strong,
    string_to_number as string_to_number,
)
from aioexec.ops.tensor_array_class import TensorArray as TensorArray
from aioexec.ops.tensor_protos import (
    parse_tensor as parse_tensor,
    serialize_tensor as serialize_tensor,
)
from aioexec.ops.tensordot import (
    tensordot as tensordot,
)
from aioexec.ops.unique import (
    unique as unique,
    unique_with_counts as unique_with_counts,
)
from aioexec.ops.variable import (
    Variable as Variable,
    disable_resource_variables as disable_resource_variables,
    enable_resource_variables as enable_resource_variables,
    resource_variables_enabled as resource_variables_enabled,
)
from aioexec.ops.variable_scope import (
    VariableScope as VariableScope,
    create_partitioned_variables as create_partitioned_variables,
    get_local_variable as get_local_variable,
    get_variable as get_variable,
    get_variable_scope as get_variable_scope,
    no_regularizer as no_regularizer,
    variable_scope as variable_scope,
)
from aioexec.ops.variable_store import (
    AUTO_REUSE as AUTO_REUSE,
)
from aioexec.ops.while_loop import (
    while_loop as while_loop,
)
from aioexec.sessions import session as sessions_session
from aioexec.sessions.conversions import (
    register_session_run_conversion_functions as register_session_run_conversion_functions,
)
from aioexec.sessions.direct_factory import register_direct_sessions
from aioexec.sessions.interactive import InteractiveSession as InteractiveSession
from aioexec.sessions.session import Session as Session
from aioexec.shapes import Dimension as Dimension, TensorShape as TensorShape

__version__ = "0.1.0"

newaxis = None
range = filling.range_
slice = slicing.slice_
tuple = control.tuple_


def _node_def(op: Operation) -> Any:
    from aioexec.graph.graphdef_export import node_def

    return node_def(op)


def _graph_def(graph: Graph, from_version: int | None, add_shapes: builtins.bool) -> Any:
    from aioexec.graph.graphdef_export import graph_to_graph_def

    return graph_to_graph_def(graph, from_version, add_shapes)


def _equal_functions(one: Function, other: Function) -> builtins.bool:
    from aioexec.graph.function_def_export import functions_are_equal

    return functions_are_equal(one, other)


def import_graph_def(
    graph_def: Any,
    input_map: Mapping[str, Any] | None = None,
    return_elements: Sequence[str] | None = None,
    name: str | None = None,
    op_dict: Any = None,
    producer_op_list: Any = None,
) -> list[Any] | None:
    """Add the nodes of a GraphDef to the default graph; see `aioexec.graph.graphdef_import.import_graph_def`."""
    from aioexec.graph.graphdef_import import import_graph_def as load

    return load(graph_def, input_map, return_elements, name, op_dict, producer_op_list)


register_builtin_factories()
register_direct_sessions()
node.OPERATORS.update(OPERATORS_TABLE)
node.EVALUATORS.update(
    eval=sessions_session.eval_tensor,
    run=sessions_session.run_operation,
    node_def=_node_def,
    graph_def=_graph_def,
    equal_functions=_equal_functions,
    gradient_of_call=gradient_of_call,
)
registry.complete("SymbolicGradient", bodies=symbolic_gradient_bodies)
for _call in ("PartitionedCall", "StatefulPartitionedCall"):
    registry.complete(_call, gradient=gradient_of_call)
for _chosen in ("If", "StatelessIf", "Case", "StatelessCase", "While", "StatelessWhile"):
    registry.complete(_chosen, gradient=gradient_of_bodies)

_PROTOS = frozenset(
    {
        "AttrValue",
        "CallableOptions",
        "ConfigProto",
        "GPUOptions",
        "GraphDef",
        "GraphOptions",
        "MetaGraphDef",
        "NameAttrList",
        "NodeDef",
        "OptimizerOptions",
        "RPCOptions",
        "RunMetadata",
        "RunOptions",
        "Summary",
        "TensorProto",
    }
)


def __getattr__(name: str) -> Any:
    """Messages are loaded when they are used: a program that only runs graphs needs none."""
    if name in _PROTOS:
        from aioexec.formats import protos

        return getattr(protos, name)
    raise AttributeError(f"module 'aioexec' has no attribute {name!r}")
