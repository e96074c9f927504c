"""Graphs, dtypes, gradients, functions."""

from aioexec.api_switches import (
    control_flow_v2_enabled as control_flow_v2_enabled,
    disable_control_flow_v2 as disable_control_flow_v2,
    disable_eager_execution as disable_eager_execution,
    disable_tensor_equality as disable_tensor_equality,
    disable_v2_behavior as disable_v2_behavior,
    disable_v2_tensorshape as disable_v2_tensorshape,
    enable_control_flow_v2 as enable_control_flow_v2,
    enable_eager_execution as enable_eager_execution,
    enable_tensor_equality as enable_tensor_equality,
    enable_v2_behavior as enable_v2_behavior,
    enable_v2_tensorshape as enable_v2_tensorshape,
    executing_eagerly as executing_eagerly,
    executing_eagerly_outside_functions as executing_eagerly_outside_functions,
)
from aioexec.compat.text import dimension_at_index as dimension_at_index, dimension_value as dimension_value
from aioexec.dtypes import (
    QUANTIZED_DTYPES as QUANTIZED_DTYPES,
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
from aioexec.gradients.backprop import gradients as gradients
from aioexec.gradients.hessian import hessians as hessians
from aioexec.gradients.registration import (
    NoGradient as NoGradient,
    NotDifferentiable as NotDifferentiable,
    RegisterGradient as RegisterGradient,
    custom_gradient as custom_gradient,
    no_gradient as no_gradient,
)
from aioexec.graph.convert import (
    constant as constant,
    convert_to_tensor as convert_to_tensor,
    convert_to_tensor_or_indexed_slices as convert_to_tensor_or_indexed_slices,
    register_tensor_conversion_function as register_tensor_conversion_function,
)
from aioexec.graph.defaults import get_default_session as get_default_session
from aioexec.graph.device_spec import DeviceSpec as DeviceSpec
from aioexec.graph.graph import (
    Graph as Graph,
    get_default_graph as get_default_graph,
    reset_default_graph as reset_default_graph,
)
from aioexec.graph.indexed_slices import (
    IndexedSlices as IndexedSlices,
    IndexedSlicesValue as IndexedSlicesValue,
)
from aioexec.graph.io.graphdef_import import import_graph_def as import_graph_def
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
from aioexec.logging import get_logger as get_logger
from aioexec.version import (
    COMPILER_VERSION as COMPILER_VERSION,
    GIT_VERSION as GIT_VERSION,
    GRAPH_DEF_VERSION as GRAPH_DEF_VERSION,
    GRAPH_DEF_VERSION_MIN_CONSUMER as GRAPH_DEF_VERSION_MIN_CONSUMER,
    GRAPH_DEF_VERSION_MIN_PRODUCER as GRAPH_DEF_VERSION_MIN_PRODUCER,
    VERSION as VERSION,
)
