"""NodeDefs and GraphDefs written by hand, for tests of import and export."""

from collections.abc import Iterable
from typing import Any

from google.protobuf import text_format
from hypothesis import strategies as st

from aioexec.formats.protos import AttrValue, GraphDef, NodeDef
from aioexec.graph.graph import Graph
from aioexec.graph.graphdef_export import GRAPH_DEF_VERSION

FLOAT, INT32, STRING = 1, 3, 7


def parse(text: str) -> GraphDef:
    return text_format.Parse(text, GraphDef())


def node(name: str, op: str, inputs: Iterable[str] = (), device: str = "", **attrs: Any) -> NodeDef:
    return NodeDef(name=name, op=op, input=list(inputs), device=device, attr=attrs)


def of_type(number: int) -> AttrValue:
    result = AttrValue()
    result.type = number  # type: ignore[assignment]  # also numbers that are no DataType
    return result


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

_NAMES = st.sampled_from(["a", "b", "c", "d", "a/b", "a b"])
_INPUTS = st.sampled_from(["a", "b", "c:0", "d:1", "a/b", "^a", "^b", "x", "a:x", ""])
_TYPES = st.sampled_from([FLOAT, FLOAT, FLOAT, INT32, STRING, 99])
_DRAWN_ATTRS = {"Placeholder": ["dtype"], "Neg": ["T"], "Add": ["T"], "NoOp": []}


@st.composite
def drawn_nodes(draw: st.DrawFn) -> NodeDef:
    """A NodeDef that may be right or wrong in every way."""
    op = draw(st.sampled_from(list(_DRAWN_ATTRS)))
    attrs: dict[str, Any] = {
        name: of_type(draw(_TYPES)) for name in _DRAWN_ATTRS[op] if draw(st.integers(0, 9))
    }
    count = {"Placeholder": 0, "NoOp": 0, "Neg": 1, "Add": 2}[op] + draw(st.sampled_from([0] * 8 + [1, -1]))
    inputs = draw(st.lists(_INPUTS, min_size=max(count, 0), max_size=max(count, 0)))
    return node(draw(_NAMES), op, inputs, **attrs)


DRAWN_GRAPH_DEFS = st.lists(drawn_nodes(), max_size=5).map(lambda nodes: graph_def(*nodes))
