"""aioexec: TensorFlow 1.x's session runtime for asyncio.

The names are TensorFlow 1.x's; a program is ported by changing the import and awaiting `session.run`. This file is the wiring:
it says which parts are public, and plugs operators, `eval` and protos into the graph, which knows none of them.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

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
)
from aioexec.devices.builtin import register_builtin_factories
from aioexec.distributed.grpc_factory import register_grpc_sessions
from aioexec.gradients.calls import gradient_of_call, symbolic_gradient_bodies
from aioexec.gradients.functional import gradient_of_bodies
from aioexec.graph import node, registry
from aioexec.graph.functions import Function
from aioexec.names.flow import *
from aioexec.names.graphs import *
from aioexec.names.state import *
from aioexec.names.tensors import *
from aioexec.ops import (  # noqa: F401  (some for their rows only)
    barrier as _barrier,
    checkpoint_remapping as _checkpoint_remapping,
    checkpoints as _checkpoints,
    control,
    datasets as _datasets,
    defun as _defun,
    filling,
    functional_control_flow as _functional_control_flow,
    functional_ops as _functional_ops,
    functions as _functions,
    list_uses as _list_uses,
    optimizer_updates as _optimizer_updates,
    optional as _optional,
    queue_verbs as _queue_verbs,
    retired as _retired,
    slicing,
    sparse_protos as _sparse_protos,
    sparse_tensors_maps as _sparse_tensors_maps,
    stacks as _stacks,
    staging_class as _staging_class,
    strided_updates as _strided_updates,
    structured as _structured,
    summaries as _summaries,
    temporary_variable as _temporary_variable,
    tensor_list_joins as _tensor_list_joins,
    transfer as _transfer,
)
from aioexec.ops.operators import OPERATORS_TABLE
from aioexec.sessions import session as sessions_session
from aioexec.sessions.conversions import (
    register_session_run_conversion_functions as register_session_run_conversion_functions,
)
from aioexec.sessions.direct_factory import register_direct_sessions
from aioexec.sessions.interactive import InteractiveSession as InteractiveSession
from aioexec.sessions.session import Session as Session
from aioexec.shapes import Dimension as Dimension, TensorShape as TensorShape

__version__ = "0.1.0"

if TYPE_CHECKING:
    from aioexec import (
        distribute as distribute,
        graph_util as graph_util,
        losses as losses,
        metrics as metrics,
        summary as summary,
        train as train,
    )

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
register_grpc_sessions()
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
        "Event",
        "GPUOptions",
        "GraphDef",
        "GraphOptions",
        "HistogramProto",
        "LogMessage",
        "MetaGraphDef",
        "NameAttrList",
        "NodeDef",
        "OptimizerOptions",
        "RPCOptions",
        "RunMetadata",
        "RunOptions",
        "SessionLog",
        "Summary",
        "SummaryMetadata",
        "TensorProto",
    }
)

_MODULES = frozenset({"distribute", "graph_util", "losses", "metrics", "summary", "train"})


def __getattr__(name: str) -> Any:
    """Messages and the training stack are loaded when they are used: a program that only runs graphs needs none."""
    if name in _PROTOS:
        from aioexec.formats import protos

        return getattr(protos, name)
    if name in _MODULES:
        return import_module(f"aioexec.{name}")
    raise AttributeError(f"module 'aioexec' has no attribute {name!r}")
