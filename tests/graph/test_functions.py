"""Functions of a graph: bodies and their captures, the library, import and export of definitions."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from google.protobuf import text_format

import aioexec as ax
from aioexec import errors
from aioexec.formats.protos import GraphDef
from aioexec.graph.func_graph import FuncGraph, as_func_graph
from aioexec.graph.function_library import Function
from aioexec.graph.graph import Graph
from aioexec.graph.io.graphdef_import import import_graph_def
from aioexec.graph.name_attr_list import NameAttrList

INT = errors.InvalidArgumentError
CALL = """
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "shape" value { shape { dim { size: 2 } } } } }
node { name: "c" op: "PartitionedCall" input: "x" attr { key: "Tin" value { list { type: DT_FLOAT } } }
       attr { key: "Tout" value { list { type: DT_FLOAT } } } attr { key: "f" value { func { name: "f" } } } }
"""


def function(
    graph: Graph, name: str, build: Callable[..., Any], dtypes: Sequence[Any] = (ax.float32,), **more: Any
) -> Function:
    """A function of the graph, added to it."""
    body = FuncGraph(name, graph)
    with body.as_default():
        result = build(*(body.add_input(dtype) for dtype in dtypes))
        results = result if isinstance(result, list) else [result]
        body.outputs = [body.capture(ax.convert_to_tensor(each)) for each in results]
    made = body.as_function(**more)
    graph.add_function(made)
    return made


def parse(text: str) -> GraphDef:
    """A GraphDef in text; its library may come in parts."""
    return text_format.Merge(text, GraphDef())


def definition(
    op: str = "Neg", name: str = "f", value: str = "n:y:0", given: str = "a", node: str = ""
) -> str:
    """A library with a function of one node, in text."""
    dtype = 'attr { key: "T" value { type: DT_FLOAT } }'
    return f"""library {{ function {{
    signature {{ name: "{name}" input_arg {{ name: "a" type: DT_FLOAT }} output_arg {{ name: "r" type: DT_FLOAT }} }}
    node_def {{ name: "n" op: "{op}" input: "{given}" {dtype if op[0].isupper() else ""} {node} }}
    ret {{ key: "r" value: "{value}" }} }} }}"""


def imported(*texts: str) -> Graph:
    with Graph().as_default() as graph:
        import_graph_def(parse("\n".join(texts)), name="")
    return graph


# Bodies


def test_what_a_body_uses_from_outside_becomes_an_input(graph):
    x, y = ax.placeholder(ax.float32, [2, 3]), ax.constant(2.0)

    body = as_func_graph(function(graph, "f", lambda a: a * y + x * y).graph)

    assert list(body.captures) == [y, x]
    assert [tensor.op.type for tensor in body.inputs] == ["_Arg"] * 3
    assert [tensor.op.attrs["index"] for tensor in body.inputs] == [0, 1, 2]
    assert body.inputs[2].dims == (2, 3)


def test_a_body_in_a_body_captures_through_the_one_around_it(graph):
    outer, inner = FuncGraph("outer", graph), None
    x = ax.constant(1.0)
    with outer.as_default():
        inner = FuncGraph("inner", outer)
        with inner.as_default():
            inner.outputs = [x + 1.0]
        graph.add_function(inner.as_function())
        outer.create_op("inner", list(inner.captures))

    assert list(inner.captures) == [x]
    assert list(outer.captures) == [x]


def test_a_tensor_of_a_graph_that_is_not_around_is_refused(graph):
    with Graph().as_default():
        foreign = ax.constant(1.0)

    with pytest.raises(
        errors.GraphValueError, match=r"not an element of function 'f' nor of a graph around it"
    ):
        FuncGraph("f", graph).capture(foreign)


def test_what_depends_on_constants_alone_is_copied_where_that_is_asked_for(graph):
    x, k = ax.placeholder(ax.float32, []), ax.constant(2.0) * 3.0
    body = FuncGraph("f", graph)
    body.captures_by_value = True

    with body.as_default():
        body.outputs = [x * k]

    assert list(body.captures) == [x]
    assert [op.type for op in body.get_operations()] == ["_Arg", "Const", "Const", "Mul", "Mul"]


def test_control_dependencies_on_what_is_outside_are_left_to_the_call(graph):
    first = ax.no_op()
    body = FuncGraph("f", graph)

    with body.as_default(), ax.control_dependencies([first]):
        made = ax.constant(1.0)

    assert list(body.control_captures) == [first]
    assert made.op.control_inputs == []


def test_conditionals_in_a_body_capture_once_and_guard_what_is_captured(graph):
    x, k = ax.placeholder(ax.float32, []), ax.constant(2.0)

    body = as_func_graph(function(graph, "f", lambda a: ax.cond(a > 0.0, lambda: a * k, lambda: x)).graph)

    assert list(body.captures) == [k, x]
    merged = body.outputs[0].op
    assert [tensor.op.type for tensor in merged.inputs] == ["Switch", "Mul"]


def test_a_call_has_the_shapes_of_its_body_for_the_shapes_it_is_given(graph):
    function(graph, "f", lambda a: [ax.reshape(a, [-1]), ax.shape(a), a * 2.0])
    x = ax.placeholder(ax.float32, [2, None])

    by_name = graph.create_op("f", [x])
    by_attr = graph.create_op(
        "PartitionedCall", [x], attrs={"f": "f", "Tout": [ax.float32, ax.int32, ax.float32]}
    )

    for op in (by_name, by_attr):
        assert [tensor.dims for tensor in op.outputs] == [(None,), (2,), (2, None)]


def test_the_shape_behind_a_handle_comes_along(graph):
    v = ax.get_variable("v", [2, 3], use_resource=True)
    body = as_func_graph(function(graph, "f", lambda a: v * a).graph)

    op = graph.create_op("f", [ax.constant(1.0), *body.captures])

    assert op.outputs[0].dims == (2, 3)


def test_a_body_that_does_not_fit_the_shapes_of_a_call_is_refused(graph):
    function(graph, "f", lambda a: ax.matmul(a, a))

    with pytest.raises(errors.GraphValueError, match="MatMulV2 'MatMul': Dimensions must be equal"):
        graph.create_op("f", [ax.placeholder(ax.float32, [2, 3])])


# The library


@pytest.mark.behaviour(139)
def test_a_function_comes_along_and_may_come_again(graph):
    import_graph_def(parse(CALL + definition()), name="")
    import_graph_def(parse(definition()), name="")

    assert list(graph.functions) == ["f"]
    assert graph.get_tensor_by_name("c:0").dims == (2,)


@pytest.mark.behaviour(139)
@pytest.mark.parametrize("present", ["imported", "made here"])
def test_another_function_of_the_same_name_is_refused_and_nothing_changes(graph, present):
    if present == "imported":
        import_graph_def(parse(definition()), name="")
    else:
        function(graph, "f", lambda a: a + 1.0)
    before = graph.functions["f"]

    with pytest.raises(
        errors.GraphValueError, match="a different function with the same name already exists"
    ):
        import_graph_def(
            parse(definition("Abs") + definition(name="g").replace("library", "library")), name=""
        )

    assert dict(graph.functions) == {"f": before}


@pytest.mark.behaviour(139)
def test_a_function_made_here_is_equal_to_itself_exported_and_imported(graph):
    function(graph, "f", lambda a: a * 2.0)
    exported = graph.as_graph_def()

    import_graph_def(GraphDef.FromString(exported.SerializeToString()), name="")

    assert list(graph.functions) == ["f"]


def test_functions_of_a_graph_def_that_is_refused_do_not_stay(graph):
    with pytest.raises(errors.NotFoundError, match="Op type not registered 'Nope'"):
        import_graph_def(parse(definition() + 'node { name: "x" op: "Nope" }'), name="")

    assert len(graph.functions) == 0


def test_a_body_that_nothing_calls_may_hold_anything():
    assert "f" in imported(definition("NoSuchOp")).functions


BAD: dict[str, tuple[str, type[Exception], str]] = {
    "missing function": (CALL, errors.NotFoundError, "Function 'f' is not defined"),
    "unknown op": (CALL + definition("Nope"), errors.NotFoundError, "Op type not registered 'Nope'"),
    "name of an op": (definition(name="Neg"), INT, "an op with the same name already exists"),
    "unknown input": (CALL + definition(given="b"), INT, "'b' is neither an input nor an output"),
    "control input of nowhere": (CALL + definition(given="^b"), INT, "Unknown input node 'b'"),
    "input beyond the list": (CALL + definition(given="a:1"), INT, "'a:1' means none of 1 tensors"),
    "output of nowhere": (CALL + definition(value="m:y:0"), INT, "'m:y:0' is neither an input nor an output"),
    "no such output": (CALL + definition(value="n:z:0"), INT, "Neg has no output 'z'"),
    "no such index": (CALL + definition(value="n:y:1"), INT, "'n:y:1' means none of 1 tensors"),
    "malformed index": (CALL + definition(value="n:y:-1"), INT, "'n:y:-1' means none"),
    "a node is no tensor": (CALL + definition(value="n"), INT, "'n' is neither an input nor an output"),
    "nothing returned": (
        CALL + definition().replace('ret { key: "r"', 'ret { key: "q"'),
        INT,
        "its output 'r' is not",
    ),
    "another type returned": (
        CALL
        + definition().replace(
            'output_arg { name: "r" type: DT_FLOAT', 'output_arg { name: "r" type: DT_INT32'
        ),
        INT,
        "its output 'r' must be ['int32'], got ['float32']",
    ),
    "other types": (
        CALL + definition().replace("DT_FLOAT", "DT_INT32"),
        INT,
        "takes ['int32'], which does not fit ['float32']",
    ),
    "other count": (
        CALL.replace(
            '"Tout" value { list { type: DT_FLOAT', '"Tout" value { list { type: DT_FLOAT type: DT_FLOAT'
        )
        + definition(),
        INT,
        "function 'f' returns 1 values, expected 2",
    ),
    "calls itself": (CALL + definition("f", value="n:r:0"), INT, "function 'f' calls itself: f -> f"),
    "calls each other": (
        CALL + definition("g", value="n:r:0") + definition("f", name="g", value="n:r:0"),
        INT,
        "function 'f' calls itself: f -> g -> f",
    ),
    "open attr without a function": (
        CALL + definition(node='attr { key: "_q" value { placeholder: "Q" } }'),
        INT,
        "attr 'Q' is left open",
    ),
    "gradient of an unknown function": (
        definition() + 'library { gradient { function_name: "f" gradient_func: "g" } }',
        INT,
        "there is no function 'g'",
    ),
    "two gradients": (
        definition()
        + definition(name="g")
        + "library { "
        + "".join(f'gradient {{ function_name: "f" gradient_func: "{name}" }}' for name in "gf")
        + " }",
        INT,
        "Cannot assign gradient function 'f' to 'f' because it already has gradient function 'g'",
    ),
    "no name": (definition(name=""), INT, "its signature needs a name"),
    "type of an attr that is none": (
        definition().replace(
            'input_arg { name: "a" type: DT_FLOAT }', 'input_arg { name: "a" type_attr: "T" }'
        ),
        INT,
        "'a' depends on attr 'T', which is no type of the function",
    ),
}


@pytest.mark.parametrize("kind", list(BAD))
def test_a_bad_function_is_refused(graph, kind):
    text, error_class, message = BAD[kind]

    with pytest.raises(error_class, match=re.escape(message)):
        import_graph_def(parse(text), name="")

    assert graph.version == 0
    assert len(graph.functions) == 0


@pytest.mark.slow
def test_functions_that_call_each_other_very_deep_are_refused():
    chain = [definition(f"f{k + 1}", name=f"f{k}", value="n:r:0") for k in range(2000)]
    text = CALL.replace('func { name: "f" }', 'func { name: "f0" }')

    with pytest.raises(INT, match="functions are nested deeper than"):
        imported(text, *chain, definition(name="f2000"))


# Definitions


OPEN = """
library { function {
  signature { name: "f" input_arg { name: "a" number_attr: "N" type_attr: "T" } input_arg { name: "b" type_attr: "T" }
              output_arg { name: "r" type_attr: "T" } output_arg { name: "q" number_attr: "N" type_attr: "T" }
              attr { name: "T" type: "type" } attr { name: "N" type: "int" default_value { i: 2 } } }
  node_def { name: "sum" op: "AddN" input: "a" attr { key: "N" value { placeholder: "N" } }
             attr { key: "T" value { placeholder: "T" } } }
  node_def { name: "all" op: "AddV2" input: "sum:sum" input: "b:0" attr { key: "T" value { placeholder: "T" } } }
  node_def { name: "same" op: "IdentityN" input: "a:1" input: "a:0" input: "^all"
             attr { key: "T" value { list { type: DT_INT32 type: DT_INT32 } } } }
  ret { key: "r" value: "all:z:0" } ret { key: "q" value: "same:output" } } }
"""


def test_open_attributes_lists_and_defaults_are_those_of_the_call():
    graph = imported(OPEN)
    with graph.as_default():
        op = graph.create_op("f", [ax.constant(k) for k in (1, 2, 3)])
    body = as_func_graph(graph.functions["f"].body(op.attrs))

    assert (op.attrs["N"], op.attrs["T"]) == (2, ax.int32)
    assert [tensor.op.name for tensor in body.inputs] == ["a", "a_1", "b"]
    assert [tensor.name for tensor in body.outputs] == ["all:0", "same:0", "same:1"]
    assert [tensor.name for tensor in body.outputs[1].op.inputs] == ["a_1:0", "a:0"]
    assert [each.name for each in body.outputs[1].op.control_inputs] == ["all"]


def test_a_body_is_made_once_for_each_set_of_attributes():
    function = imported(OPEN).functions["f"]

    assert function.body({"T": ax.int32}) is function.body({"T": ax.int32, "N": 2, "_other": 1})
    with pytest.raises(INT, match="function 'f' is called without its attr 'T'"):
        function.body({})


def test_a_function_keeps_what_its_definition_says_of_it():
    text = CALL + definition().replace(
        "ret {",
        'attr { key: "_noinline" value { b: true } } '
        'arg_attr { key: 0 value { attr { key: "_output_shapes" value { list { shape { dim { size: 7 } } } } } } } '
        'control_ret { key: "done" value: "n" } ret {',
    ).replace("dim { size: 2 }", "dim { size: 7 }")
    graph = imported(text)
    found = graph.functions["f"]

    assert found.attrs == {"_noinline": True}
    assert as_func_graph(found.graph).inputs[0].dims == (7,)
    assert [op.name for op in as_func_graph(found.graph).control_outputs] == ["n"]
    assert graph.as_graph_def().library.function[0] == parse(text).library.function[0]


def test_a_function_made_here_is_defined_as_tensorflow_would(graph):
    k = ax.constant(2.0)
    made = function(graph, "f", lambda a: [a * k, a], output_names=["first", "second"], attrs={"_mark": 1})
    as_func_graph(made.graph).control_outputs.append(as_func_graph(made.graph).outputs[0].op)

    (found,) = graph.as_graph_def().library.function

    assert [(arg.name, arg.type) for arg in found.signature.input_arg] == [("arg", 1), ("const", 1)]
    assert [arg.name for arg in found.signature.output_arg] == ["first", "second"]
    assert [(node.name, node.op, list(node.input)) for node in found.node_def] == [
        ("mul", "Mul", ["arg", "const"])
    ]
    assert dict(found.ret) == {"first": "mul:z:0", "second": "arg"}
    assert dict(found.control_ret) == {"mul": "mul"}
    assert found.attr["_mark"].i == 1


def test_gradients_of_functions_come_along_both_ways(graph):
    gradient = 'library { gradient { function_name: "f" gradient_func: "g" } }'
    import_graph_def(parse(definition() + definition(name="g") + gradient), name="")

    assert graph.functions["f"].gradient == "g"
    (entry,) = graph.as_graph_def().library.gradient
    assert (entry.function_name, entry.gradient_func) == ("f", "g")


def test_a_function_brings_those_it_calls_into_another_graph(graph):
    function(graph, "inner", lambda a: a + 1.0)
    outer = function(graph, "outer", lambda a: ax.get_default_graph().create_op("inner", [a]).outputs[0])
    other = Graph()

    other.add_function(outer)

    assert set(other.functions) == {"outer", "inner"}


def test_an_attribute_may_be_given_as_a_name_a_function_or_a_message(graph):
    made = function(graph, "f", lambda a: a + 1.0)
    message = ax.NameAttrList(name="f")

    for value in ("f", made, message, NameAttrList("f")):
        op = graph.create_op("PartitionedCall", [ax.constant(1.0)], attrs={"f": value, "Tout": [ax.float32]})
        assert op.attrs["f"] == NameAttrList("f")
    with pytest.raises(errors.GraphTypeError, match="attr 'f' must be a func"):
        graph.create_op("PartitionedCall", [ax.constant(1.0)], attrs={"f": 3, "Tout": [ax.float32]})
