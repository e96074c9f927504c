"""NodeDefs and GraphDefs written by hand, for tests of import and export."""

from collections.abc import Iterable
from typing import Any

from google.protobuf import text_format
from hypothesis import strategies as st

from aioexec.formats.protos import AttrValue, GraphDef, NodeDef
from aioexec.graph.graph import Graph
from aioexec.graph.io.graphdef_export import GRAPH_DEF_VERSION

FLOAT, INT32, STRING, BOOL = 1, 3, 7, 10


def parse(text: str) -> GraphDef:
    return text_format.Parse(text, GraphDef())


def node(name: str, op: str, inputs: Iterable[str] = (), device: str = "", **attrs: Any) -> NodeDef:
    return NodeDef(name=name, op=op, input=list(inputs), device=device, attr=attrs)


def of_type(number: int) -> AttrValue:
    result = AttrValue()
    result.type = number  # type: ignore[assignment]  # also numbers that are no DataType
    return result


def splat(name: str, dtype: int, *sizes: int, elements: int = 1, element: int = 1) -> NodeDef:
    """A constant that lists fewer elements than it has."""
    held = AttrValue()
    held.tensor.dtype = dtype  # type: ignore[assignment]  # enum numbers are ints here
    for size in sizes:
        held.tensor.tensor_shape.dim.add(size=size)
    field: Any = {FLOAT: "float_val", INT32: "int_val", STRING: "string_val", BOOL: "bool_val"}[dtype]
    getattr(held.tensor, field).extend([b"a" if dtype == STRING else element] * elements)
    return node(name, "Const", dtype=of_type(dtype), value=held)


def placeholder(name: str, dtype: int = FLOAT, **attrs: Any) -> NodeDef:
    return node(name, "Placeholder", dtype=of_type(dtype), **attrs)


def neg(name: str, *inputs: str, dtype: int = FLOAT, **attrs: Any) -> NodeDef:
    return node(name, "Neg", inputs, T=of_type(dtype), **attrs)


def no_op(name: str, *inputs: str, **attrs: Any) -> NodeDef:
    return node(name, "NoOp", inputs, **attrs)


def graph_def(*nodes: NodeDef) -> GraphDef:
    result = GraphDef(node=nodes)
    result.versions.producer = GRAPH_DEF_VERSION
    return result


def attr(text: str) -> AttrValue:
    return text_format.Parse(text, AttrValue())


def strings(*values: bytes) -> AttrValue:
    return AttrValue(list=AttrValue.ListValue(s=values))


def names(graph: Graph) -> list[str]:
    return [op.name for op in graph.get_operations()]


A = placeholder("a")

_ODD_INPUTS = ["a:0", "b:1", "a/b", "^a", "x", "a:x", ""]
_KINDS = {"Placeholder": ("dtype", 0), "Neg": ("T", 1), "Add": ("T", 2), "NoOp": ("", 0)}


@st.composite
def drawn_graph_defs(draw: st.DrawFn) -> GraphDef:
    """Up to five nodes, most of them right, in any order."""
    seldom = st.integers(0, 11).map(lambda n: n == 7)
    nodes: list[NodeDef] = []
    for _ in range(draw(st.integers(0, 5))):
        name = "a b" if draw(seldom) else draw(st.sampled_from(["a", "b", "c", "d", "a/b", "b/a", "a_1"]))
        if not draw(seldom) and name in [each.name for each in nodes]:
            continue
        with_data = [each.name for each in nodes if each.op != "NoOp"]
        op = draw(st.sampled_from(list(_KINDS) if with_data else ["Placeholder", "NoOp"]))
        attr_name, count = _KINDS[op]
        dtype = draw(st.sampled_from([INT32, STRING, 99])) if draw(seldom) else FLOAT
        attrs: dict[str, Any] = {attr_name: of_type(dtype)} if attr_name and not draw(seldom) else {}
        inputs: list[str] = []
        if with_data:
            inputs += [draw(st.sampled_from(with_data)) for _ in range(count + draw(seldom))]
        if draw(st.booleans()) and nodes:
            inputs.append(f"^{draw(st.sampled_from([each.name for each in nodes]))}")
        if draw(seldom):
            inputs.insert(draw(st.integers(0, len(inputs))), draw(st.sampled_from(_ODD_INPUTS)))
        nodes.append(node(name, op, inputs, **attrs))
    return graph_def(*draw(st.permutations(nodes)))


DRAWN_GRAPH_DEFS = drawn_graph_defs()
