"""A SavedModel with an object graph, written here: a module with a variable, a list, and the function x * w + more.

`written` makes the MetaGraphDef, which tests damage before they write it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import aioexec as ax
from aioexec.formats.bundle_writer import BundleWriter
from aioexec.formats.protos import (
    DataType,
    FunctionDef,
    MetaGraphDef,
    SavedModel,
    SavedObjectGraph,
    StructuredValue,
    TrackableObjectGraph,
)
from aioexec.train.off_loop import off_loop

W = np.array([1.0, 2.0], np.float32)
RESTORE = "__inference__traced_restore_9"
SCALE = "__inference_scale_3"
FLOAT, STRING, RESOURCE = DataType.DT_FLOAT, DataType.DT_STRING, DataType.DT_RESOURCE


def node(function: FunctionDef, name: str, op: str, *inputs: str, **attrs: Any) -> None:
    """Add a node to a function; an attribute is a dtype, a dict of fields, or a list of dtypes."""
    made = function.node_def.add(name=name, op=op, input=inputs)
    for key, value in attrs.items():
        if isinstance(value, list):
            made.attr[key].list.type.extend(value)
        elif isinstance(value, np.ndarray):
            made.attr[key].tensor.CopyFrom(ax.make_tensor_proto(value))
        else:
            made.attr[key].type = value


def scale_function() -> FunctionDef:
    function = FunctionDef()
    function.signature.name = SCALE
    function.signature.is_stateful = True
    function.signature.input_arg.add(name="x", type=FLOAT)
    function.signature.input_arg.add(name="more", type=FLOAT)
    function.signature.input_arg.add(name="w", type=RESOURCE)
    function.signature.output_arg.add(name="y", type=FLOAT)
    node(function, "read", "ReadVariableOp", "w", dtype=FLOAT)
    node(function, "product", "Mul", "x", "read:value:0", T=FLOAT)
    node(function, "sum", "AddV2", "product:z:0", "more", T=FLOAT)
    function.ret["y"] = "sum:z:0"
    return function


def restore_function() -> FunctionDef:
    function = FunctionDef()
    function.signature.name = RESTORE
    function.signature.is_stateful = True
    function.signature.input_arg.add(name="prefix", type=STRING)
    function.signature.input_arg.add(name="handle", type=RESOURCE)
    function.signature.output_arg.add(name="done", type=STRING)
    node(function, "names", "Const", dtype=STRING, value=np.array([b"w/value"], object))
    node(function, "slices", "Const", dtype=STRING, value=np.array([b""], object))
    inputs = ("prefix", "names:output:0", "slices:output:0")
    node(function, "restored", "RestoreV2", *inputs, dtypes=[FLOAT])
    node(function, "copy", "Identity", "restored:tensors:0", T=FLOAT)
    node(function, "assign", "AssignVariableOp", "handle", "copy:output:0", dtype=FLOAT)
    node(function, "result", "Identity", "prefix", "^assign", T=STRING)
    function.ret["done"] = "result:output:0"
    function.control_ret["assign"] = "assign"
    return function


def tensor_spec(name: str) -> StructuredValue:
    value = StructuredValue()
    value.tensor_spec_value.name = name
    value.tensor_spec_value.dtype = FLOAT
    value.tensor_spec_value.shape.dim.add(size=2)
    return value


def objects() -> SavedObjectGraph:
    """0 the module, 1 its variable, 2 its function, 3 a list that has the variable."""
    graph = SavedObjectGraph()
    root = graph.nodes.add()
    root.user_object.identifier = "_generic_user_object"
    variable = graph.nodes.add().variable
    variable.dtype = FLOAT
    variable.shape.dim.add(size=2)
    variable.name = "w"
    function = graph.nodes.add().function
    function.concrete_functions.append(SCALE)
    spec = function.function_spec.fullargspec.named_tuple_value
    spec.name = "FullArgSpec"
    names = spec.values.add(key="args").value.list_value
    names.values.add(string_value="x")
    names.values.add(string_value="more")
    spec.values.add(key="defaults").value.tuple_value.values.add(float64_value=10.0)
    items = graph.nodes.add()
    items.user_object.identifier = "trackable_list_wrapper"
    items.children.add(node_id=1, local_name="0")
    for number, name in ((1, "w"), (2, "scale"), (3, "items"), (0, "itself")):
        root.children.add(node_id=number, local_name=name)
    trace = graph.concrete_functions[SCALE]
    trace.bound_inputs.append(1)
    given = trace.canonicalized_input_signature.tuple_value
    given.values.add().tuple_value.values.extend([tensor_spec("x"), tensor_spec("more")])
    given.values.add().dict_value.SetInParent()
    trace.output_signature.CopyFrom(tensor_spec("y"))
    return graph


def meta_graph() -> MetaGraphDef:
    with ax.Graph().as_default() as graph:
        ax.raw_ops.VarHandleOp(dtype=ax.float32, shape=[2], name="handle", shared_name="w")
        ax.placeholder(ax.string, [], name="prefix")
    made = MetaGraphDef(graph_def=graph.as_graph_def(), object_graph_def=objects())
    made.meta_info_def.tags.append("serve")
    made.graph_def.library.function.extend([scale_function(), restore_function()])
    call = made.graph_def.node.add(name="restore", op="StatefulPartitionedCall", input=["prefix", "handle"])
    call.attr["f"].func.name = RESTORE
    call.attr["Tin"].list.type.extend([STRING, RESOURCE])
    call.attr["Tout"].list.type.append(STRING)
    made.saver_def.filename_tensor_name = "prefix:0"
    made.saver_def.save_tensor_name = "prefix:0"
    made.saver_def.restore_op_name = "restore"
    made.saver_def.version = made.saver_def.V2
    return made


def checkpoint_objects() -> TrackableObjectGraph:
    graph = TrackableObjectGraph()
    graph.nodes.add().children.add(node_id=1, local_name="w")
    graph.nodes.add().attributes.add(name="VARIABLE_VALUE", checkpoint_key="w/value")
    return graph


async def write(folder: Path, made: MetaGraphDef, value: Any = W, tracked: bytes | None = None) -> Path:
    """Write a SavedModel; its variable has this value in the checkpoint."""
    data = checkpoint_objects().SerializeToString() if tracked is None else tracked
    await off_loop(_write, folder, made, value, data)
    return folder


def _write(folder: Path, made: MetaGraphDef, value: Any, tracked: bytes) -> None:
    (folder / "variables").mkdir(parents=True)
    model = SavedModel(saved_model_schema_version=1, meta_graphs=[made])
    (folder / "saved_model.pb").write_bytes(model.SerializeToString())
    with BundleWriter(str(folder / "variables" / "variables")) as writer:
        writer.add("_CHECKPOINTABLE_OBJECT_GRAPH", np.array(tracked, object), ax.string)
        writer.add("w/value", value, ax.as_dtype(value.dtype))
        writer.finish()
