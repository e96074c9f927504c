"""Import of GraphDefs: the same ones are accepted, under the same names, and refused as in TensorFlow."""

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from aioexec import errors
from aioexec.formats.protos import GraphDef
from aioexec.graph.convert import constant
from aioexec.graph.graph import Graph
from aioexec.graph.io.graphdef_import import import_graph_def
from tests.graph.written import DRAWN_GRAPH_DEFS, graph_def, neg, no_op, placeholder, strings

pytestmark = pytest.mark.interop


def imported_there(tf: Any, source: GraphDef, **arguments: Any) -> list[Any] | None:
    """Names, types, inputs and control inputs of the nodes in TensorFlow's graph; None if it refuses them."""
    theirs = tf.GraphDef.FromString(source.SerializeToString())
    with tf.Graph().as_default() as graph:
        tf.no_op("taken")
        try:
            tf.import_graph_def(theirs, **arguments)
        except (ValueError, tf.errors.OpError):
            return None
        return described(graph)


def imported_here(source: GraphDef, **arguments: Any) -> list[Any] | None:
    with Graph().as_default() as graph:
        graph.create_op("NoOp", [], name="taken")
        try:
            import_graph_def(source, **arguments)
        except (errors.GraphValueError, errors.NotFoundError):
            return None
        return described(graph)


def described(graph: Any) -> list[Any]:
    return sorted(
        (
            op.name,
            op.type,
            [tensor.name for tensor in op.inputs],
            sorted(each.name for each in op.control_inputs),
        )
        for op in graph.get_operations()
    )


@settings(max_examples=300)
@given(DRAWN_GRAPH_DEFS, st.sampled_from([None, "", "scope", "taken"]))
def test_whatever_the_nodes_both_take_or_refuse_them(tf, source, name):
    assert imported_here(source, name=name) == imported_there(tf, source, name=name)


def test_names_that_are_taken_are_numbered_alike(tf):
    source = graph_def(placeholder("a"), neg("b", "a", "^taken"), no_op("taken"), no_op("taken_1", "^b"))
    theirs = tf.GraphDef.FromString(source.SerializeToString())
    scopes = (None, None, "", "", "import", "import/", "taken", "a", "a/")
    with tf.Graph().as_default() as there:
        tf.no_op("taken")
        for name in scopes:
            tf.import_graph_def(theirs, name=name)
    with Graph().as_default() as here:
        here.create_op("NoOp", [], name="taken")
        for name in scopes:
            import_graph_def(source, name=name)

    assert described(here) == described(there)


def test_colocated_nodes_are_renamed_alike(tf):
    source = graph_def(no_op("taken"), no_op("x", _class=strings(b"loc:@taken")))
    theirs = tf.GraphDef.FromString(source.SerializeToString())
    with tf.Graph().as_default() as there:
        tf.no_op("taken")
        tf.import_graph_def(theirs, name="")
    with Graph().as_default() as here:
        here.create_op("NoOp", [], name="taken")
        import_graph_def(source, name="")

    group = here.get_operation_by_name("x").get_attr("_class")
    assert group == there.get_operation_by_name("x").get_attr("_class")


def test_elements_are_returned_alike(tf):
    source = graph_def(placeholder("a"), neg("b", "a"), neg("c", "b"))
    theirs = tf.GraphDef.FromString(source.SerializeToString())
    wanted = ["c", "b:0", "a", "a:0"]
    with tf.Graph().as_default():
        mine = tf.constant(1.0, name="mine")
        there = tf.import_graph_def(theirs, {"a": mine}, wanted)
    with Graph().as_default():
        own = constant(1.0, name="mine")
        here = import_graph_def(source, {"a": own}, wanted)

    assert here is not None
    assert [each.name for each in here] == [each.name for each in there]
    assert here[0].inputs[0].op.inputs[0] is own


def test_tensorflow_takes_what_is_exported_here(tf):
    source = graph_def(placeholder("a"), neg("b", "a"), no_op("n", "^b", _class=strings(b"loc:@a")))
    with Graph().as_default() as graph:
        import_graph_def(source, name="")
        constant(2.5, name="c")
    written = tf.GraphDef.FromString(graph.as_graph_def(add_shapes=True).SerializeToString())

    with tf.Graph().as_default() as there:
        tf.import_graph_def(written, name="")

    assert described(there) == described(graph)
