"""What a model in files consists of, read from its messages: graphs whose ops are unknown here are summarised as well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.dtypes import as_dtype
from aioexec.graph import registry

Dims = tuple[int | None, ...] | None

_INPUTS = frozenset({"Placeholder", "PlaceholderV2", "PlaceholderWithDefault"})
_VARIABLES = frozenset({"VarHandleOp", "Variable", "VariableV2"})
_NO_RESULTS = frozenset(
    {"Assert", "Assign", "Const", "NoOp", "SaveV2", "MergeV2Checkpoints", *_INPUTS, *_VARIABLES}
)


@dataclass(frozen=True, slots=True)
class TensorSummary:
    """A tensor: its key in a signature or its node, its name in the graph, its dtype, and its shape where the file has it."""

    key: str
    tensor: str
    dtype: str
    shape: Dims


@dataclass(frozen=True, slots=True)
class SignatureSummary:
    """A signature of a SavedModel."""

    method: str
    inputs: list[TensorSummary]
    outputs: list[TensorSummary]


@dataclass(frozen=True, slots=True)
class ParameterSummary:
    """A variable, or a constant of the graph."""

    name: str
    kind: str
    dtype: str
    shape: Dims
    parameters: int
    bytes: int


@dataclass(frozen=True, slots=True)
class GraphSummary:
    """A graph.

    Attributes:
        tags: of a graph of a SavedModel.
        producer: the version of the GraphDef, 0 if it has none.
        nodes: their number, with those of functions.
        functions: the number of functions in its library.
        ops: the number of nodes of each op, the most frequent ones first.
        unsupported: the ops that aioexec lacks.
        inputs, outputs: placeholders; results that no node uses.
        signatures: by name.
        variables, constants: the large ones first.
    """

    tags: list[str]
    producer: int
    nodes: int
    functions: int
    ops: dict[str, int]
    unsupported: list[str]
    inputs: list[TensorSummary]
    outputs: list[TensorSummary]
    variables: list[ParameterSummary]
    constants: list[ParameterSummary]
    signatures: dict[str, SignatureSummary] = field(default_factory=dict)

    @property
    def parameters(self) -> tuple[int, int]:
        """The number and bytes of all variables and constants."""
        both = [*self.variables, *self.constants]
        return sum(each.parameters for each in both), sum(each.bytes for each in both)


def summarize_graph(
    graph_def: Any, tags: Iterable[str] = (), signatures: Mapping[str, Any] | None = None
) -> GraphSummary:
    """Summarise a GraphDef, and the SignatureDefs of its MetaGraphDef."""
    nodes = list(graph_def.node)
    functions = graph_def.library.function
    counts = Counter(node.op for node in nodes)
    for function in functions:
        counts.update(node.op for node in function.node_def)
    names = {function.signature.name for function in functions}
    return GraphSummary(
        tags=list(tags),
        producer=graph_def.versions.producer,
        nodes=sum(counts.values()),
        functions=len(functions),
        ops=dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))),
        unsupported=sorted(op for op in counts if op not in names and not registry.is_registered(op)),
        inputs=[_tensor(node, "dtype") for node in nodes if node.op in _INPUTS],
        outputs=_outputs(nodes),
        variables=_sorted(_variable(node) for node in nodes if node.op in _VARIABLES),
        constants=_sorted(_constant(node) for node in nodes if node.op == "Const"),
        signatures={name: _signature(each) for name, each in sorted((signatures or {}).items())},
    )


def _outputs(nodes: Iterable[Any]) -> list[TensorSummary]:
    """The results of nodes that no other node reads or waits for."""
    nodes = list(nodes)
    used = {_node_of(name) for node in nodes for name in node.input}
    return [_tensor(node, "T") for node in nodes if node.name not in used and node.op not in _NO_RESULTS]


def _node_of(name: str) -> str:
    return name.removeprefix("^").partition(":")[0]


def _tensor(node: Any, dtype_attribute: str) -> TensorSummary:
    dtype = node.attr[dtype_attribute].type if dtype_attribute in node.attr else 0
    shape = node.attr["shape"].shape if "shape" in node.attr else None
    if shape is None and node.attr["_output_shapes"].list.shape:
        shape = node.attr["_output_shapes"].list.shape[0]
    return TensorSummary(node.name, f"{node.name}:0", _dtype_name(dtype), _dims(shape))


def _variable(node: Any) -> ParameterSummary:
    dims = _dims(node.attr["shape"].shape)
    dtype = node.attr["dtype"].type
    known = dims is not None and None not in dims
    count = int(np.prod([size or 0 for size in dims or ()], dtype=np.int64)) if known else 0
    return ParameterSummary(
        node.name, "variable", _dtype_name(dtype), dims, count, count * _element_size(dtype)
    )


def _constant(node: Any) -> ParameterSummary:
    proto = node.attr["value"].tensor
    dims = _dims(proto.tensor_shape)
    count = int(np.prod([size or 0 for size in dims or ()], dtype=np.int64))
    size = count * _element_size(proto.dtype) or sum(map(len, proto.string_val))
    return ParameterSummary(node.name, "constant", _dtype_name(proto.dtype), dims, count, size)


def _sorted(found: Iterable[ParameterSummary]) -> list[ParameterSummary]:
    return sorted(found, key=lambda each: (-each.bytes, each.name))


def _signature(signature: Any) -> SignatureSummary:
    return SignatureSummary(signature.method_name, _infos(signature.inputs), _infos(signature.outputs))


def _infos(infos: Mapping[str, Any]) -> list[TensorSummary]:
    return [
        TensorSummary(key, info.name, _dtype_name(info.dtype), _dims(info.tensor_shape))
        for key, info in sorted(infos.items())
    ]


def _dims(shape: Any) -> Dims:
    if shape is None or shape.unknown_rank:
        return None
    return tuple(None if dim.size < 0 else dim.size for dim in shape.dim)


def _dtype_name(number: int) -> str:
    try:
        return as_dtype(number).base_dtype.name if number else "unknown"
    except TypeError:
        return f"dtype {number}"


def _element_size(number: int) -> int:
    """Bytes of an element; 0 for strings, and where it is not known."""
    try:
        dtype = as_dtype(number)
        return 0 if dtype.name in ("string", "resource", "variant") else dtype.size
    except TypeError:
        return 0
