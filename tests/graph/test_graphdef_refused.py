"""Errors in a GraphDef or the arguments of its import; the graph is unchanged."""

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from aioexec import errors
from aioexec.formats.protos import AttrValue, GraphDef, NodeDef
from aioexec.formats.tensor_codec import encode_tensor
from aioexec.graph.convert import constant
from aioexec.graph.graph import Graph
from aioexec.graph.io.graphdef_import import extend_by_graph_def, import_graph_def
from aioexec.graph.node import producers
from tests.graph.written import (
    DRAWN_GRAPH_DEFS,
    FLOAT,
    INT32,
    STRING,
    A,
    attr,
    graph_def,
    names,
    neg,
    no_op,
    node,
    of_type,
    parse,
    placeholder,
    splat,
    strings,
)

VALUE, TYPE, MISSING = errors.GraphValueError, errors.GraphTypeError, errors.NotFoundError
BAD_TENSOR = AttrValue(tensor=encode_tensor(np.array([1, 2], np.float32)))
BAD_TENSOR.tensor.tensor_content = b"123"
OF_INT = AttrValue(tensor=encode_tensor(np.int32(3)))
TWO_SHAPES = attr("list { shape { } shape { } }")
OF_FIVE = attr("list { shape { dim { size: 5 } } }")
OF_FOUR = attr("shape { dim { size: 4 } }")
BELOW = attr("shape { dim { size: -2 } }")


BAD: dict[str, tuple[list[NodeDef], type[Exception], str]] = {
    "unknown op": ([node("x", "Nope")], MISSING, "Op type not registered 'Nope'"),
    "no op": ([node("x", "")], MISSING, "Op type not registered ''"),
    "missing attr": ([node("x", "Placeholder")], VALUE, "Placeholder 'x': lacks its attr 'dtype' (type)"),
    "missing inferred attr": ([A, node("x", "Neg", ["a"])], VALUE, "Neg 'x': lacks its attr 'T'"),
    "empty attr": ([node("x", "Placeholder", dtype=AttrValue())], VALUE, "must be a type, got nothing"),
    "ill-typed attr": (
        [node("x", "Placeholder", dtype=AttrValue(i=3))],
        VALUE,
        "must be a type, got a value of kind 'int'",
    ),
    "placeholder attr": (
        [node("x", "Placeholder", dtype=AttrValue(placeholder="T"))],
        VALUE,
        "must be a type",
    ),
    "list for one": (
        [node("x", "Placeholder", dtype=strings(b"a"))],
        VALUE,
        "must be a type, got a value of kind 'list'",
    ),
    "unknown dtype": ([placeholder("x", 99)], VALUE, "Placeholder 'x': unknown DataType number 99"),
    "invalid dtype": ([placeholder("x", 0)], VALUE, "unknown DataType number 0"),
    "dtype not allowed": (
        [placeholder("a", STRING), neg("x", "a", dtype=STRING)],
        VALUE,
        "does not allow string",
    ),
    "attr below its minimum": (
        [A, node("x", "Pack", [], T=of_type(FLOAT), N=AttrValue(i=0))],
        VALUE,
        "attr 'N' must be at least 1",
    ),
    "more outputs than memory can hold": (
        [A, node("x", "Unpack", ["a"], T=of_type(FLOAT), num=AttrValue(i=2**40))],
        VALUE,
        "attr 'num' must be at most 65536",
    ),
    "bad shape": (
        [placeholder("x", shape=AttrValue(shape=BELOW.shape))],
        VALUE,
        "expected dimensions of -1 or more",
    ),
    "bad tensor": (
        [node("x", "Const", dtype=of_type(FLOAT), value=BAD_TENSOR)],
        VALUE,
        "Const 'x': TensorProto",
    ),
    "constant of another dtype": (
        [node("x", "Const", dtype=of_type(FLOAT), value=OF_INT)],
        VALUE,
        "expected a value of float32, got one of int32",
    ),
    "unknown attr": (
        [no_op("x", new=AttrValue(i=7))],
        VALUE,
        "NoOp 'x': has an attr 'new' that is not known here",
    ),
    "ill-typed class": ([no_op("x", _class=AttrValue(i=7))], VALUE, "attr '_class' must be a list of str"),
    "unknown group": (
        [no_op("x", _class=strings(b"loc:@y"))],
        VALUE,
        "colocated with an unknown node, 'loc:@y'",
    ),
    "ill-typed shapes": (
        [placeholder("x", _output_shapes=strings(b"a"))],
        VALUE,
        "must be a list of TensorShape",
    ),
    "wrong number of shapes": ([placeholder("x", _output_shapes=TWO_SHAPES)], VALUE, "has 2 shapes"),
    "other shapes": (
        [placeholder("x", shape=OF_FOUR, _output_shapes=OF_FIVE)],
        VALUE,
        "inconsistent with output 0",
    ),
    "dangling": ([neg("x", "a")], VALUE, "Node 'x': Unknown input node 'a'"),
    "dangling control": ([no_op("x", "^a")], VALUE, "Node 'x': Unknown input node 'a'"),
    "no such output": (
        [A, neg("x", "a:1")],
        VALUE,
        "invalid output 1 of source node 'a', which has 1 outputs",
    ),
    "huge output": ([A, neg("x", f"a:{10**30}")], VALUE, "Unknown input node"),
    "cycle": ([neg("a", "b"), neg("b", "c"), neg("c", "a"), neg("d", "a")], VALUE, "3 nodes in a cycle: "),
    "cycle of control edges": ([no_op("a", "^b"), no_op("b", "^a")], VALUE, "2 nodes in a cycle: "),
    "cycle of one": ([neg("x", "x")], VALUE, "1 nodes in a cycle: x -> x"),
    "duplicate": ([A, A], VALUE, "Node 'a' is not unique"),
    "control before data": (
        [A, no_op("n"), neg("x", "^n", "a")],
        VALUE,
        "Control dependencies must come after",
    ),
    "edge of another dtype": ([A, neg("x", "a", dtype=INT32)], VALUE, "must be int32, got float32"),
    "too many inputs": ([A, neg("x", "a", "a")], VALUE, "2 inputs, expected 1"),
    "too few inputs": ([A, node("x", "Add", ["a"], T=of_type(FLOAT))], VALUE, "too few inputs"),
    "value where a reference is due": (
        [A, node("x", "Assign", ["a", "a"], T=of_type(FLOAT))],
        VALUE,
        "must be a variable",
    ),
    "shapes do not fit": (
        [placeholder("y", shape=OF_FOUR), node("x", "MatMul", ["y", "y"], T=of_type(FLOAT))],
        VALUE,
        "MatMul 'import/x'",
    ),
    "bad device": (
        [node("x", "NoOp", device="/foo:bar:baz")],
        VALUE,
        "Malformed device specification '/foo:bar:baz'",
    ),
    **{
        f"name {name!r}": ([no_op(name)], VALUE, "invalid characters")
        for name in ("", "a b", "_a", "a:0", "^a")
    },
    **{
        f"input {text!r}": ([A, neg("x", text)], VALUE, "Node 'x': Unknown input node")
        for text in ("", "a:", "a:x", "a:-1", ":0", "a:0:0", "^a:0", "^", "^^a", "a b", "_a")
    },
}


def state(graph: Graph) -> tuple[Any, ...]:
    tensors = [tensor for op in graph.get_operations() for tensor in op.outputs]
    return (names(graph), [tensor.consumers() for tensor in tensors], graph.version, graph.mutations)


@pytest.mark.behaviour(83, 131, 132, 133, 140)
@pytest.mark.parametrize("case", BAD)
def test_a_bad_graph_def_is_refused_and_the_graph_stays_as_it_was(case, graph):
    nodes, error, message = BAD[case]
    mine = constant(1.0, name="mine")
    before = state(graph)
    good = [placeholder("first"), neg("second", "first"), neg("third", "anywhere")]

    with pytest.raises(error, match=re.escape(message)) as caught:
        import_graph_def(graph_def(*good, *nodes), input_map={"anywhere": mine})

    assert isinstance(caught.value, errors.NotFoundError if error is MISSING else ValueError)
    assert state(graph) == before
    import_graph_def(graph_def(A))
    assert names(graph) == ["mine", "import/a"]


@given(DRAWN_GRAPH_DEFS)
def test_whatever_the_nodes_all_or_none_are_imported(source):
    with Graph().as_default() as graph:
        try:
            import_graph_def(source, name="")
        except (errors.NotFoundError, errors.GraphValueError):
            assert names(graph) == []
        else:
            assert sorted(names(graph)) == sorted(each.name for each in source.node)
            for op in graph.get_operations():
                assert all(producer.index < op.index for producer in producers(op))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"input_map": {"z": 5.0}}, VALUE, "Attempted to map inputs that were not found in graph_def: ['z']"),
        ({"input_map": {"a:7": 5.0}}, VALUE, "not found in graph_def: ['a:7']"),
        ({"input_map": {"a": 5.0}, "name": ""}, VALUE, "needs a non-empty `name`"),
        ({"input_map": {"a": 5}}, VALUE, "must be float32, got int32"),
        ({"input_map": {"a:x": 5.0}}, VALUE, "'a:x' is not a name of the form"),
        ({"input_map": {3: 5.0}}, TYPE, "input_map must name its elements"),
        ({"return_elements": ["z"]}, VALUE, "Requested return_element 'z' not found"),
        ({"return_elements": ["z:0"]}, VALUE, "Requested return_element 'z:0' not found"),
        ({"return_elements": ["a:7"]}, VALUE, "node 'a' has 1 outputs"),
        ({"return_elements": ["a:x"]}, VALUE, "'a:x' is not a name of the form"),
        ({"return_elements": ["^a"]}, VALUE, "Requested return_element '^a' not found"),
        ({"return_elements": [3]}, TYPE, "return_elements must name its elements"),
        ({"return_elements": "a"}, TYPE, "return_elements must name its elements"),
        ({"name": "a b"}, VALUE, "'a b' is not a valid root scope name"),
        ({"producer_op_list": GraphDef()}, TYPE, "producer_op_list must be a OpList proto"),
    ],
    ids=str,
)
def test_bad_arguments_are_refused_and_the_graph_stays_as_it_was(arguments, error, message, graph):
    with pytest.raises(error, match=re.escape(message)):
        import_graph_def(graph_def(A, neg("b", "a")), **arguments)

    assert names(graph) == []
    import_graph_def(graph_def(A))
    assert names(graph) == ["import/a"]


@pytest.mark.parametrize("value", [None, "text", b"bytes", NodeDef(), [A]], ids=str)
def test_only_a_graph_def_is_imported(value):
    with pytest.raises(errors.GraphTypeError, match="graph_def must be a GraphDef proto"):
        import_graph_def(value)


def test_a_tensor_of_another_graph_is_refused(graph):
    with Graph().as_default():
        theirs = constant(1.0)
    mine = constant(1.0)

    with pytest.raises(errors.GraphValueError, match="belongs to another"):
        import_graph_def(graph_def(neg("b", "a"), neg("d", "c")), input_map={"a": mine, "c": theirs})

    assert names(graph) == ["Const"]


def test_a_finalized_graph_takes_no_nodes(graph):
    graph.finalize()

    with pytest.raises(RuntimeError, match="finalized"):
        import_graph_def(graph_def(A))


@pytest.mark.parametrize(
    ("versions", "message"),
    [
        ("producer: 200 min_consumer: 135", "min consumer version 135 above current version 134"),
        ("producer: -1", "producer version -1 below min producer 0"),
        ("producer: 134 bad_consumers: 134", "disallows consumer version 134"),
    ],
)
def test_a_graph_def_not_meant_for_this_version_is_refused(versions, message, graph):
    source = parse(f"versions {{ {versions} }}")

    with pytest.raises(errors.GraphValueError, match=message):
        import_graph_def(source)


@pytest.mark.behaviour(138)
def test_a_newer_producer_is_no_obstacle_and_what_only_it_knows_is_left_out(graph):
    source = graph_def(A, neg("b", "a", grad_b=AttrValue(b=False)))
    source.versions.producer = 5000

    import_graph_def(source, name="")

    assert names(graph) == ["a", "b"]
    assert "grad_b" not in graph.get_operation_by_name("b").attrs


@pytest.mark.behaviour(138)
def test_an_op_that_is_gone_is_taken_from_an_old_producer_alone(graph):
    source = graph_def(A, node("b", "TensorArrayV2", ["a"], dtype=of_type(FLOAT)))
    source.node[0].CopyFrom(placeholder("a", INT32))
    with pytest.raises(
        errors.UnimplementedError, match="Op TensorArrayV2 is not available in GraphDef version 134"
    ):
        import_graph_def(source, name="")
    assert names(graph) == []
    source.versions.producer = 25

    import_graph_def(source, name="")

    assert names(graph) == ["a", "b"]


@pytest.mark.behaviour(138)
def test_a_graph_is_of_the_version_of_its_oldest_part(graph):
    assert graph.graph_def_versions.producer == 134
    for version, expected in ((5000, 134), (20, 20), (30, 20)):
        source = graph_def(A)
        source.versions.producer = version
        import_graph_def(source)
        assert graph.graph_def_versions.producer == expected


@pytest.mark.parametrize("sizes", [[2**62, 2], [2**40, 2**30, 0, 2**10]])
def test_a_shape_of_more_elements_than_can_be_counted_is_refused(sizes, graph):
    huge = AttrValue()
    for size in sizes:
        huge.shape.dim.add(size=size)

    with pytest.raises(errors.GraphValueError, match="is too large"):
        import_graph_def(graph_def(placeholder("a", shape=huge)))


def test_a_shape_operand_of_too_many_elements_is_refused_before_it_is_read(graph):
    """One number in the message is repeated to fill all elements."""
    dims = splat("dims", INT32, 2**28)
    filled = node("filled", "Fill", ["dims", "a"], T=of_type(FLOAT))

    with pytest.raises(errors.GraphValueError, match="at most 254 dimensions, got 268435456"):
        import_graph_def(graph_def(A, dims, filled))


def test_a_constant_of_more_memory_than_is_allowed_is_refused(graph):
    with pytest.raises(errors.GraphValueError, match="expected at most 4294967296 bytes, got 4398046511104"):
        import_graph_def(graph_def(splat("a", INT32, 2**40)))


def test_attributes_that_are_nested_too_deeply_are_refused(graph):
    """A message that is parsed cannot be so deep."""
    source = graph_def(A)
    function = source.node[0].attr["_private"].func
    for _ in range(5000):
        function.name = "f"
        function = function.attr["f"].func

    with pytest.raises(errors.GraphValueError, match="nested too deeply"):
        import_graph_def(source)
    with pytest.raises(errors.GraphValueError, match="nested too deeply"):
        extend_by_graph_def(graph, source, {})
    assert names(graph) == []
