"""Import of GraphDefs: names, order, input maps, return elements."""

import pytest
from google.protobuf import text_format

from aioexec import dtypes, errors
from aioexec.formats.protos import AttrValue, GraphDef, OpList
from aioexec.graph.convert import constant
from aioexec.graph.io.graphdef_import import import_graph_def
from tests.graph.written import FLOAT, attr, graph_def, names, neg, no_op, node, of_type, placeholder, strings


def test_nodes_are_imported_in_any_order_under_the_default_name(graph):
    imported = import_graph_def(graph_def(neg("c", "b"), neg("b", "a"), no_op("n", "^c"), placeholder("a")))

    assert imported is None
    assert names(graph) == ["import/a", "import/b", "import/c", "import/n"]
    assert graph.get_operation_by_name("import/c").inputs[0].name == "import/b:0"
    assert [op.name for op in graph.get_operation_by_name("import/n").control_inputs] == ["import/c"]


def test_nodes_listed_in_order_keep_it(graph):
    listed = [placeholder("z"), no_op("q"), neg("b", "z"), placeholder("a"), neg("y", "b"), neg("x", "a")]

    import_graph_def(graph_def(*listed), name="")

    assert names(graph) == ["z", "q", "b", "a", "y", "x"]


@pytest.mark.behaviour(136)
def test_scopes_and_names_that_are_taken_are_numbered(graph):
    source = graph_def(placeholder("a"), neg("b", "a", "^a"), no_op("a_1", _class=strings(b"loc:@b")))

    for scope in (None, None, "", "", "import", "import/"):
        import_graph_def(source, name=scope)

    assert names(graph) == [
        *("import/a", "import/b", "import/a_1", "import_1/a", "import_1/b", "import_1/a_1"),
        *("a", "b", "a_1", "a_2", "b_1", "a_1_1", "import_2/a", "import_2/b", "import_2/a_1"),
        *("import/a_2", "import/b_1", "import/a_1_1"),
    ]
    assert graph.get_operation_by_name("b_1").inputs[0].name == "a_2:0"
    assert graph.get_operation_by_name("b_1").control_inputs[0].name == "a_2"
    assert graph.get_operation_by_name("a_1_1").get_attr("_class") == [b"loc:@b_1"]


def test_a_name_is_not_given_to_both_a_node_and_a_scope(graph):
    graph.create_op("NoOp", [], name="a/")
    graph.create_op("NoOp", [], name="b/c/")

    import_graph_def(graph_def(no_op("a"), no_op("b")), name="")

    assert names(graph) == ["a", "b/c", "a_1", "b_1"]


@pytest.mark.behaviour(83)
def test_missing_attributes_get_their_defaults(graph):
    source = graph_def(placeholder("a"), node("m", "MatMul", ["a", "a"], T=of_type(FLOAT)))

    import_graph_def(source, name="")

    assert graph.get_operation_by_name("a").get_attr("shape") is None
    assert graph.get_operation_by_name("m").get_attr("transpose_a") is False


@pytest.mark.behaviour(135)
def test_return_elements_are_operations_and_tensors(graph):
    source = graph_def(placeholder("a"), neg("b", "a"))

    elements = import_graph_def(source, return_elements=["b", "a:0", "b:0"], name="g")

    operation, tensor = graph.get_operation_by_name("g/b"), graph.get_tensor_by_name("g/a:0")
    assert elements == [operation, tensor, operation.outputs[0]]


@pytest.mark.behaviour(134)
def test_inputs_are_replaced_by_tensors_and_values(graph):
    mine = graph.create_op("Placeholder", [], attrs={"dtype": dtypes.float32}, name="mine").outputs[0]
    source = graph_def(
        placeholder("a"), placeholder("b"), neg("c", "a"), neg("d", "b:0"), neg("e", "absent:3")
    )

    elements = import_graph_def(
        source,
        input_map={"a:0": mine, "b": 2.0, "absent:3": mine},
        return_elements=["c", "d", "e", "a:0", "a"],
    )

    assert elements is not None
    c, d, e, mapped, a = elements
    assert c.inputs == e.inputs == (mine,)
    assert mapped is mine
    assert a.name == "import/a"
    assert d.inputs[0].op.type == "Const"
    assert d.inputs[0].name.startswith("import/_inputs/Const")
    assert mine.consumers() == [c, e]


@pytest.mark.behaviour(134)
def test_control_inputs_are_replaced(graph):
    mine = graph.create_op("NoOp", [], name="mine")
    tensor = constant(1.0)
    source = graph_def(no_op("a"), no_op("b", "^a", "^c"), no_op("c"))

    imported = import_graph_def(source, input_map={"^a": mine, "^c": tensor}, return_elements=["b"])

    assert imported is not None
    assert imported[0].control_inputs == [mine, tensor.op]


def test_replaced_inputs_break_a_cycle(graph):
    mine = constant(1.0)

    import_graph_def(graph_def(neg("a", "b"), neg("b", "a")), input_map={"b": mine}, name="g")

    assert names(graph) == ["Const", "g/a", "g/b"]


@pytest.mark.behaviour(137)
def test_open_scopes_apply_to_imported_nodes(graph):
    gate = graph.create_op("NoOp", [], name="gate")
    source = graph_def(
        node("a", "Placeholder", device="/device:CPU:1", dtype=of_type(FLOAT)), neg("b", "a"), no_op("c")
    )

    with graph.control_dependencies([gate]), graph.device("/job:worker"), graph.name_scope("outer"):
        import_graph_def(source)

    a, b, c = graph.get_operations()[1:]
    assert [a.name, a.device, b.device] == ["outer/import/a", "/job:worker/device:CPU:1", "/job:worker"]
    assert [a.control_inputs, b.control_inputs, c.control_inputs] == [[gate], [], [gate]]


def test_colocated_nodes_go_where_their_group_is(graph):
    source = graph_def(
        no_op("b", _class=strings(b"loc:@a", b"other")), node("a", "NoOp", device="/device:CPU:1")
    )

    with graph.device("/job:worker"):
        import_graph_def(source, name="g")

    colocated = graph.get_operation_by_name("g/b")
    assert colocated.get_attr("_class") == [b"loc:@g/a", b"other"]
    assert colocated.device == "/job:worker/device:CPU:1"


def test_output_shapes_narrow_the_shapes_and_are_not_kept(graph):
    shapes = attr("list { shape { dim { size: 3 } } }")
    source = graph_def(placeholder("a", _output_shapes=shapes), neg("b", "a"))

    import_graph_def(source, name="")

    assert graph.get_tensor_by_name("b:0").dims == (3,)
    assert "_output_shapes" not in graph.get_operation_by_name("a").attrs


def test_attributes_of_another_producer_are_dropped_if_they_have_its_default(graph):
    producer = text_format.Parse(
        'op { name: "NoOp" attr { name: "new" type: "int" default_value { i: 7 } } attr { name: "bare" type: "int" } }',
        OpList(),
    )

    import_graph_def(graph_def(no_op("a", new=AttrValue(i=7))), name="", producer_op_list=producer)

    assert names(graph) == ["a"]
    for attrs in ({"new": AttrValue(i=8)}, {"bare": AttrValue(i=0)}):
        with pytest.raises(errors.GraphValueError, match=r"attr '(new|bare)' that is not known here"):
            import_graph_def(graph_def(no_op("b", **attrs)), producer_op_list=producer)


def test_what_is_imported_is_exported_again_unchanged(graph):
    source = graph_def(
        placeholder("a", shape=attr("shape { dim { size: -1 } }")),
        no_op("n", "^a", _mark=AttrValue(f=0.1)),
        neg("b", "a", "^n"),
        node(
            "p", "Pack", ["a", "b"], "/job:x/task:1", T=of_type(FLOAT), N=AttrValue(i=2), axis=AttrValue(i=-1)
        ),
    )

    import_graph_def(source, name="")

    assert graph.as_graph_def() == source


def test_a_proto_of_the_same_name_from_another_package_is_taken(graph):
    source = graph_def(placeholder("a"))

    class Foreign:
        DESCRIPTOR = GraphDef.DESCRIPTOR
        SerializeToString = staticmethod(source.SerializeToString)

    import_graph_def(Foreign(), name="")

    assert names(graph) == ["a"]


def test_thousands_of_nodes_in_reverse_order_are_imported(graph):
    count = 3000
    chain = [neg(f"n{i}", f"n{i - 1}") for i in range(count, 0, -1)]

    import_graph_def(graph_def(*chain, placeholder("n0")), name="")

    assert names(graph) == [f"n{i}" for i in range(count + 1)]
