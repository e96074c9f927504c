"""Export of GraphDefs: golden protos, round trips."""

import numpy as np
import pytest

from aioexec import dtypes, errors
from aioexec.formats.protos import AttrValue
from aioexec.graph.convert import constant
from aioexec.graph.graph import Graph
from aioexec.graph.io.graphdef_export import graph_to_graph_def, node_def, strip_default_attrs
from aioexec.graph.io.graphdef_import import import_graph_def
from aioexec.graph.io.sub_graphs import extract_sub_graph
from tests.graph.written import A, attr, graph_def, neg, no_op, parse


def test_a_graph_is_written_as_tensorflow_writes_it(graph):
    x = graph.create_op("Placeholder", [], attrs={"dtype": dtypes.float32, "shape": (None, 2)}, name="x")
    graph.create_op("NoOp", [], name="b")
    graph.create_op("NoOp", [], name="a")
    axis = constant(1, name="axis")
    split = graph.create_op("Split", [axis, x.outputs[0]], attrs={"num_split": 2}, name="parts")
    with graph.control_dependencies(["b", "a"]), graph.device("/cpu:1"):
        graph.create_op("Add", [split.outputs[1], split.outputs[0]], name="sum")

    expected = parse("""
        node { name: "x" op: "Placeholder"
            attr { key: "dtype" value { type: DT_FLOAT } }
            attr { key: "shape" value { shape { dim { size: -1 } dim { size: 2 } } } } }
        node { name: "b" op: "NoOp" }
        node { name: "a" op: "NoOp" }
        node { name: "axis" op: "Const"
            attr { key: "dtype" value { type: DT_INT32 } }
            attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { } int_val: 1 } } } }
        node { name: "parts" op: "Split" input: "axis" input: "x"
            attr { key: "T" value { type: DT_FLOAT } }
            attr { key: "num_split" value { i: 2 } } }
        node { name: "sum" op: "Add" input: "parts:1" input: "parts" input: "^a" input: "^b" device: "/device:CPU:1"
            attr { key: "T" value { type: DT_FLOAT } } }
        versions { producer: 134 }
    """)
    assert graph_to_graph_def(graph) == expected
    assert graph.as_graph_def() == expected
    assert node_def(split) == expected.node[4]
    assert split.node_def == expected.node[4]


def test_output_shapes_are_written_on_demand(graph):
    graph.create_op("Placeholder", [], attrs={"dtype": dtypes.float32, "shape": (None, 2)}, name="x")
    graph.create_op("NoOp", [], name="n")

    written = graph.as_graph_def(add_shapes=True)

    expected = attr("list { shape { dim { size: -1 } dim { size: 2 } } }")
    assert written.node[0].attr["_output_shapes"] == expected
    assert not written.node[1].attr


def test_only_nodes_added_since_a_version_are_written(graph):
    graph.create_op("NoOp", [], name="old")
    version = graph.version
    graph.create_op("NoOp", [], name="new")

    assert [each.name for each in graph.as_graph_def(from_version=version).node] == ["new"]


@pytest.mark.parametrize(
    "value",
    [
        *(
            True,
            3,
            0.5,
            "text",
            b"\xff",
            dtypes.int64,
            np.array([[1, 2]], np.float32),
            (),
            (1, 2),
            (0.5,),
            ("a", b"\xff"),
        ),
        *((True, False), (dtypes.float32, dtypes.string), AttrValue(placeholder="T")),
    ],
    ids=repr,
)
def test_private_attributes_survive_a_round_trip(value, graph):
    op = graph.create_op("NoOp", [], name="n", attrs={"_mark": value})
    written = node_def(op)

    import_graph_def(graph_def(written), name="again")
    again = graph.get_operation_by_name("again/n")

    held = again.attrs["_mark"]
    assert np.array_equal(held, value) if isinstance(value, np.ndarray) else held == value
    assert node_def(again).attr["_mark"] == written.attr["_mark"]


def test_an_attribute_that_no_proto_holds_is_refused(graph):
    op = graph.create_op("NoOp", [], name="n", attrs={"_mark": object()})

    with pytest.raises(errors.GraphTypeError, match="NoOp 'n': attr '_mark': an attribute cannot hold"):
        node_def(op)


@pytest.mark.parametrize(
    "text",
    [
        "shape { unknown_rank: true }",
        "shape { dim { size: -1 } dim { size: 3 } }",
        "list { shape { unknown_rank: true } shape { } }",
        'func { name: "f" attr { key: "T" value { type: DT_INT32 } } }',
        'list { func { name: "f" } }',
        "list { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 1 } }",
        "list { }",
        "",
    ],
)
def test_what_only_protos_say_survives_a_round_trip(text, graph):
    held = attr(text)

    import_graph_def(graph_def(no_op("n", _mark=held)), name="")

    assert node_def(graph.get_operation_by_name("n")).attr["_mark"] == held


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        *((np.zeros((0, 2), np.float32), "float32"), (np.array([b"a", b""], object), "string")),
        *((np.zeros((0,), object), "string"), (np.array([1, 2], np.float16), "float16"), (True, "bool")),
        *((np.arange(3.0), "float64"), (np.array(1 + 2j, np.complex64), "complex64"), (7, "uint8")),
    ],
    ids=str,
)
def test_constants_of_any_dtype_survive_a_round_trip(value, dtype, graph):
    tensor = constant(value, dtype, name="c")

    import_graph_def(graph.as_graph_def(), name="again")
    again = graph.get_operation_by_name("again/c")

    assert again.outputs[0].dtype == dtype
    assert again.outputs[0].dims == tensor.dims
    np.testing.assert_array_equal(again.get_attr("value"), np.asarray(value))
    assert node_def(again).attr == node_def(tensor.op).attr


# Parts of a GraphDef


def test_a_sub_graph_is_what_its_destinations_need():
    source = graph_def(A, neg("b", "a:0"), no_op("n", "^b"), neg("c", "a", "^n"), neg("other", "a"))

    extracted = extract_sub_graph(source, ["c"])

    assert [each.name for each in extracted.node] == ["a", "b", "n", "c"]
    assert extracted.versions == source.versions
    with pytest.raises(errors.GraphValueError, match="no node 'zz'"):
        extract_sub_graph(source, ["zz"])
    with pytest.raises(errors.GraphTypeError, match="list of node names"):
        extract_sub_graph(source, "c")


def test_attributes_with_their_default_are_stripped_and_filled_in_again(graph):
    x = graph.create_op(
        "Placeholder", [], name="x", attrs={"dtype": dtypes.float32, "shape": (2, 2)}
    ).outputs[0]
    graph.create_op("MatMul", [x, x], name="y", attrs={"transpose_b": True})
    written = graph.as_graph_def()
    stripped = graph.as_graph_def()

    strip_default_attrs(stripped)

    assert sorted(stripped.node[1].attr) == ["T", "transpose_b"]
    with Graph().as_default() as again:
        import_graph_def(stripped, name="")
    assert again.as_graph_def() == written
