"""Splits nodes that TensorFlow's optimiser has fused; here the planner decides about fusion.

A fused node is a product or convolution followed by "BiasAdd", "Relu" etc., or a chain of functions of one argument. The last
of the nodes it is split into gets its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from aioexec.data_classes import dataclass
from aioexec.errors import InvalidArgumentError, UnimplementedError
from aioexec.formats.protos import AttrValue, DataType, GraphDef, NodeDef


@dataclass(frozen=True, slots=True)
class _Part:
    """One operation of a fused node.

    Attributes:
        op: its op.
        extra: the number of the fused node's further inputs that it takes.
        attrs: the attrs it takes from the fused node.
    """

    op: str
    extra: int
    attrs: Mapping[str, str]


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


_CONVOLUTION = ("T", "strides", "padding", "data_format", "dilations", "explicit_paddings")

_MAIN = {
    "_FusedMatMul": _Part("MatMul", 2, _same("T", "transpose_a", "transpose_b")),
    "_FusedConv2D": _Part("Conv2D", 2, _same(*_CONVOLUTION)),
    "_FusedDepthwiseConv2dNative": _Part("DepthwiseConv2dNative", 2, _same(*_CONVOLUTION)),
}
_CHAIN = "_UnaryOpsComposition"
_FOLLOWING = {
    "BiasAdd": _Part("BiasAdd", 1, _same("T", "data_format")),
    "Add": _Part("AddV2", 1, _same("T")),
    "FusedBatchNorm": _Part("FusedBatchNormV3", 4, _same("T", "epsilon", "data_format")),
    "LeakyRelu": _Part("LeakyRelu", 0, {"T": "T", "alpha": "leakyrelu_alpha"}),
}
_UNARY = _same("T")
_CONSTANT_ATTRS = {
    "FusedBatchNormV3": {"U": AttrValue(type=DataType.DT_FLOAT), "is_training": AttrValue(b=False)}
}


def expanded(graph_def: GraphDef) -> GraphDef:
    """The graph without fused nodes: the same object if there are none.

    Raises:
        UnimplementedError: an unknown fusion.
    """
    if not any(node.op in _MAIN or node.op == _CHAIN for node in graph_def.node):
        return graph_def
    result = GraphDef(versions=graph_def.versions, library=graph_def.library)
    for node in graph_def.node:
        if node.op in _MAIN:
            result.node.extend(_split(node, [_MAIN[node.op], *_following(node)]))
        elif node.op == _CHAIN:
            parts = [_Part(name, 0, _UNARY) for name in _strings(node, "op_names")]
            result.node.extend(_split(node, parts))
        else:
            result.node.append(node)
    return result


def _strings(node: NodeDef, attr: str) -> list[str]:
    return [text.decode(errors="backslashreplace") for text in node.attr[attr].list.s]


def _following(node: NodeDef) -> Iterator[_Part]:
    """The operations that a fused node applies to its result, in order."""
    if node.attr["num_host_args"].i or node.attr["filter_format"].s not in (b"", b"HWIO"):
        raise UnimplementedError(f"{node.op} {node.name!r}: fused quantised convolutions cannot be split")
    for name in _strings(node, "fused_ops"):
        yield _FOLLOWING.get(name) or _Part(name, 0, _UNARY)


def _split(node: NodeDef, parts: Sequence[_Part]) -> Iterator[NodeDef]:
    data = [name for name in node.input if not name.startswith("^")]
    controls = [name for name in node.input if name.startswith("^")]
    value = [data.pop(0)] if data and node.op == _CHAIN else []
    for k, part in enumerate(parts):
        is_last = k == len(parts) - 1
        made = NodeDef(
            op=part.op, device=node.device, name=node.name if is_last else f"{node.name}/_part_{k}"
        )
        taken, data = data[: part.extra], data[part.extra :]
        if len(taken) < part.extra:
            raise InvalidArgumentError(f"{node.op} {node.name!r} lacks an input for its {part.op}")
        made.input.extend([*value, *taken, *controls])
        _give_attrs(made, part, node)
        yield made
        value, controls = [made.name], []


def _give_attrs(made: NodeDef, part: _Part, node: NodeDef) -> None:
    for own, name in part.attrs.items():
        if name in node.attr:
            made.attr[own].CopyFrom(node.attr[name])
    for own, held in _CONSTANT_ATTRS.get(part.op, {}).items():
        made.attr[own].CopyFrom(held)
