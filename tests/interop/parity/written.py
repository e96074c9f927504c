"""Writes a case as a GraphDef that both engines import.

Written from TensorFlow's signatures, not by either engine's graph: attributes that follow from the inputs (types, lengths of
lists) are filled in, all others are left to the defaults.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from aioexec import dtypes as dt
from aioexec.dtypes import DType
from aioexec.formats.protos import AttrValue, GraphDef
from aioexec.formats.tensor_codec import encode_tensor, shape_to_proto
from tests.interop.parity.table import AS_VALUE, Back, Case, Feed, Function, Node, Output, dtype_of

PRODUCER = 2474
"""GraphDef version of TensorFlow 2.21."""


@cache
def signature(op_type: str) -> Any:
    """TensorFlow's OpDef."""
    from tensorflow.python.framework import op_def_registry

    found = op_def_registry.get(op_type)
    if found is None:
        raise KeyError(f"TensorFlow has no op {op_type!r}")
    return found


@dataclass
class Written:
    """A case as a GraphDef.

    Attributes:
        node: the name of the node the case is about.
        outputs: names of its outputs; `output_dtypes` beside them.
        feeds: values by the name of their placeholder.
        init: targets of the step before the first.
        steps: names of tensors and operations to run together.
        variables: tensors of the reference variables and handles.
        reads: tensors to fetch after the last step: what the variables hold.
    """

    graph_def: Any
    node: str = "op"
    outputs: list[str] = field(default_factory=list)
    output_dtypes: list[DType] = field(default_factory=list)
    feeds: dict[str, Any] = field(default_factory=dict)
    init: list[str] = field(default_factory=list)
    steps: list[list[str]] = field(default_factory=list)
    variables: list[str] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)


def written(case: Case) -> Written:
    """Write a case as a graph."""
    return Writer().write(case)


class Writer:
    """Writes one case. `_placed` has the name and the output dtypes of each node written so far."""

    def __init__(self) -> None:
        self.result = Written(GraphDef())
        self.result.graph_def.versions.producer = PRODUCER
        self._placed: dict[int, tuple[str, list[DType]]] = {}
        self._back: list[tuple[str, Back]] = []  # edges to nodes that are not written yet
        self._kept: list[Any] = []  # what `_placed` knows by id

    def write(self, case: Case) -> Written:
        result = self.result
        result.node, dtypes = self._node(case.node, "op")
        result.outputs = [f"{result.node}:{k}" for k in range(len(dtypes))]
        result.output_dtypes = dtypes
        if case.steps is None:
            result.steps = [fetched(result.node, dtypes)]
        else:
            result.steps = [
                [name for each in step for name in self._asked(each)] for step in case.steps(case.node)
            ]
        for name, back in self._back:
            assert back.node is not None
            found, _ = self._node(back.node, name)
            self._rename(f"{name}:0", f"{found}:0")
        return result

    def _rename(self, reference: str, found: str) -> None:
        for node in self.result.graph_def.node:
            for k, each in enumerate(node.input):
                if each == reference:
                    node.input[k] = found

    def _asked(self, wanted: Node | Output) -> list[str]:
        if isinstance(wanted, Output):
            return [f"{self._node(wanted.node)[0]}:{wanted.index}"]
        return fetched(*self._node(wanted))

    def _node(self, node: Node, name: str | None = None) -> tuple[str, list[DType]]:
        """The name of a node and the dtypes of its outputs; written when first met."""
        if id(node) not in self._placed:
            name = name or f"n{len(self._kept)}"  # inner nodes are placed before this one
            self._kept.append(node)
            self._placed[id(node)] = (name, self._write_node(node, name))
            if node.initial is not None:
                self._initialise(node, name)
        return self._placed[id(node)]

    def _write_node(self, node: Node, name: str) -> list[DType]:
        definition = signature(node.op_type)
        attrs = {
            attr.name: plain_attr(attr, node.attrs[attr.name])
            for attr in definition.attr
            if attr.name in node.attrs
        }
        if node.op_type == "VarHandleOp":
            attrs.setdefault("shared_name", name)  # TensorFlow knows a variable by that alone
        if len(node.inputs) != len(definition.input_arg):
            wanted = [arg.name for arg in definition.input_arg]
            raise TypeError(f"{node!r}: expected a value for each of {wanted}, got {len(node.inputs)}")
        references = []
        for arg, value in zip(definition.input_arg, node.inputs, strict=True):
            references.extend(self._argument(arg, value, attrs))
        control = [f"^{self._node(each)[0]}" for each in node.after]
        made = self.result.graph_def.node.add(name=name, op=node.op_type, input=[*references, *control])
        for each in definition.attr:
            if each.name in attrs:
                self._define(attrs[each.name])
                made.attr[each.name].CopyFrom(encoded(each.type, attrs[each.name]))
            elif each.HasField("default_value"):
                attrs[each.name] = default(each)
        for extra in node.attrs.keys() - attrs.keys():
            raise TypeError(f"{node!r}: {node.op_type} has no attribute {extra!r}")
        return [dtype for arg in definition.output_arg for dtype in dtypes_of(arg, attrs)]

    def _define(self, value: Any) -> None:
        """Put functions among the values of an attribute into the library."""
        for each in value if isinstance(value, list | tuple) else [value]:
            known = [held.signature.name for held in self.result.graph_def.library.function]
            if isinstance(each, Function) and each.name not in known:
                self.result.graph_def.library.function.add().ParseFromString(definition_of(each))

    def _argument(self, arg: Any, value: Any, attrs: dict[str, Any]) -> list[str]:
        """References to what one argument of the signature takes; its attributes become known."""
        is_list = bool(arg.number_attr or arg.type_list_attr)
        if is_list and not isinstance(value, list | tuple):
            raise TypeError(f"{arg.name}: expected a list of inputs, got {value!r}")
        listed = list(value) if is_list else [value]
        kinds = attrs.get(arg.type_list_attr)
        found = []
        for k, each in enumerate(listed):
            wanted = dt.as_dtype(arg.type) if arg.type else attrs.get(arg.type_attr)
            wanted = kinds[k] if kinds is not None and k < len(kinds) else wanted
            reference, dtype = self._input(each, wanted)
            if arg.type_attr:
                attrs.setdefault(arg.type_attr, dtype)
            found.append((reference, dtype))
        if arg.number_attr:
            attrs.setdefault(arg.number_attr, len(listed))
        if arg.type_list_attr:
            attrs.setdefault(arg.type_list_attr, [dtype for _, dtype in found])
        return [reference for reference, _ in found]

    def _input(self, value: Any, wanted: DType | None) -> tuple[str, DType]:
        if isinstance(value, Back):
            assert wanted is not None, "the other edge comes first, so that the dtype is known"
            self._back.append((f"back{len(self._back)}", value))
            return f"{self._back[-1][0]}:0", wanted
        if isinstance(value, Node):
            value = Output(value, 0)
        if isinstance(value, Output):
            name, dtypes = self._node(value.node)
            return f"{name}:{value.index}", dtypes[value.index]
        feed = value if isinstance(value, Feed) else Feed(value)
        if id(feed) not in self._placed:
            self._kept.append(feed)
            self._placed[id(feed)] = self._placeholder(feed, wanted)
        name, (dtype,) = self._placed[id(feed)]
        return name, dtype

    def _placeholder(self, feed: Feed, wanted: DType | None) -> tuple[str, list[DType]]:
        array = (
            feed.value if isinstance(feed.value, np.ndarray | np.generic) else dt.to_array(feed.value, wanted)
        )
        array = np.asarray(array)
        dtype = dtype_of(array)
        name = f"x{len(self.result.feeds)}"
        made = self.result.graph_def.node.add(name=name, op="Placeholder")
        made.attr["dtype"].type = int(dtype)
        made.attr["shape"].shape.CopyFrom(
            shape_to_proto(array.shape if feed.shape is AS_VALUE else feed.shape)
        )
        self.result.feeds[f"{name}:0"] = array
        return name, [dtype]

    def _initialise(self, node: Node, name: str) -> None:
        value = Node("Const", (), {"value": node.initial, "dtype": dtype_of(node.initial)})
        is_ref = node.op_type == "VariableV2"
        self.result.variables.append(f"{name}:0")
        assign = Node("Assign" if is_ref else "AssignVariableOp", (Output(node, 0), value))
        self.result.init.append(self._node(assign, f"{name}_init")[0])
        if is_ref:
            self.result.reads.append(f"{name}:0")
        else:
            read = Node("ReadVariableOp", (Output(node, 0),), {"dtype": dtype_of(node.initial)})
            self.result.reads.append(f"{self._node(read, f'{name}_read')[0]}:0")


@cache
def definition_of(function: Function) -> bytes:
    """The FunctionDef that TensorFlow makes of a function."""
    import tensorflow
    from tensorflow.python.framework.function import Defun

    tf = tensorflow.compat.v1
    with tf.Graph().as_default():
        made = Defun(*map(tf.as_dtype, function.dtypes), func_name=function.name)(
            lambda *arguments: function.body(tf, *arguments)
        )
        content: bytes = made.definition.SerializeToString()
    return content


def fetched(name: str, dtypes: list[DType]) -> list[str]:
    """The fetches for a node: the outputs with values, or the operation if there are none."""
    opaque = (dt.resource, dt.variant)
    tensors = [f"{name}:{k}" for k, dtype in enumerate(dtypes) if dtype.base_dtype not in opaque]
    return tensors or [name]


def dtypes_of(arg: Any, attrs: dict[str, Any]) -> list[DType]:
    """The dtypes of one output argument."""
    if arg.type_list_attr:
        return list(attrs.get(arg.type_list_attr, ()))
    dtype = dt.as_dtype(arg.type) if arg.type else attrs.get(arg.type_attr, dt.float32)
    return [dtype] * (attrs.get(arg.number_attr, 0) if arg.number_attr else 1)


def plain_attr(attr: Any, value: Any) -> Any:
    if attr.type == "type":
        return dt.as_dtype(value)
    if attr.type == "list(type)":
        return [dt.as_dtype(each) for each in value]
    return value


def default(attr: Any) -> Any:
    """The default of an attribute, where the dtypes and number of outputs may depend on it."""
    value = attr.default_value
    if attr.type == "type":
        return dt.as_dtype(value.type)
    if attr.type == "list(type)":
        return [dt.as_dtype(each) for each in value.list.type]
    return value.i if attr.type == "int" else None


def encoded(kind: str, value: Any) -> AttrValue:
    """An attribute as its proto."""
    made = AttrValue()
    if kind.startswith("list("):
        made.list.SetInParent()
        for each in value:
            one = encoded(kind[5:-1], each)
            field_name = one.WhichOneof("value")
            stored = getattr(one, str(field_name))
            getattr(made.list, str(field_name)).append(stored)
    elif kind == "type":
        made.type = int(dt.as_dtype(value))  # type: ignore[assignment]  # enum numbers are ints here
    elif kind == "shape":
        made.shape.CopyFrom(shape_to_proto(None if value is None else tuple(value)))
    elif kind == "tensor":
        made.tensor.CopyFrom(encode_tensor(value))
    elif kind == "string":
        made.s = value.encode() if isinstance(value, str) else value
    elif kind == "func":
        made.func.name = value.name
    else:
        setattr(made, {"int": "i", "float": "f", "bool": "b"}[kind], value)
    return made
