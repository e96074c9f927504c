"""Import of GraphDefs, and errors that leave the graph unchanged, in both engines."""

from functools import partial

import pytest

from tests.interop.behaviours.both import failure

pytestmark = pytest.mark.interop

FLOAT = 'attr { key: "T" value { type: DT_FLOAT } }'
A_AND_B = f"""
node {{ name: "a" op: "Placeholder" attr {{ key: "dtype" value {{ type: DT_FLOAT }} }} }}
node {{ name: "b" op: "Neg" input: "a" {FLOAT} }}
"""


def node(name, op, *inputs, attrs=FLOAT):
    edges = " ".join(f'input: "{edge}"' for edge in inputs)
    return f'node {{ name: "{name}" op: "{op}" {edges} {attrs} }}'


def names(engine):
    return [op.name for op in engine.tf.get_default_graph().get_operations()]


async def refused(engine, text, *fragments, **options):
    """The error of an import, which leaves the graph unchanged."""
    before = names(engine)
    graph = engine.proto("GraphDef", text)
    error = await failure(partial(engine.tf.import_graph_def, graph, **{"name": "", **options}), *fragments)
    return error, names(engine) == before


@pytest.mark.behaviour(131, 132, 133, 83, 140)
@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        (node("bad name!", "NoOp", attrs=""), "bad name!"),
        (node("", "NoOp", attrs=""), ""),
        (A_AND_B + node("c", "Neg", "a:x"), "a:x"),
        (A_AND_B + node("c", "Neg", "a:1"), "a"),
        (A_AND_B + node("c", "Neg", "nosuch"), "nosuch"),
        (A_AND_B + node("c", "Neg", "a", "b"), "c"),
        (A_AND_B + node("c", "Neg"), "c"),
        (A_AND_B + node("c", "Add", "^a", "a", "b"), "c"),
        (A_AND_B + node("c", "Neg", "a", attrs='attr { key: "T" value { type: DT_INT32 } }'), "c"),
        (A_AND_B + node("a", "NoOp", attrs=""), "a"),
        (A_AND_B + node("c", "Placeholder", attrs=""), "dtype"),
        (A_AND_B + node("c", "Neg", "a", attrs='attr { key: "T" value { type: DT_STRING } }'), "c"),
        (node("c", "Neg", "d") + node("d", "Neg", "c"), ""),
        (node("c", "NoSuchOp", attrs=""), "NoSuchOp"),
    ],
    ids=[
        *[
            "node name",
            "no name",
            "input name",
            "output index",
            "unknown input",
            "too many inputs",
            "too few inputs",
        ],
        *[
            "control input first",
            "dtype of an edge",
            "name twice",
            "attr missing",
            "attr not allowed",
            "cycle",
        ],
        "unknown op",
    ],
)
async def test_what_cannot_be_imported_leaves_the_graph_as_it_was(text, fragment, agree):
    async def program(engine):
        engine.tf.constant(1.0, name="there_before")
        return await refused(engine, text, fragment)

    assert (await agree(program))[1] is True


@pytest.mark.behaviour(83)
async def test_attributes_with_a_default_are_filled_in(agree):
    async def program(engine):
        tf = engine.tf
        text = A_AND_B + node("m", "MatMul", "a", "b")
        tf.import_graph_def(engine.proto("GraphDef", text), name="")
        op = tf.get_default_graph().get_operation_by_name("m")
        return op.get_attr("transpose_a"), op.get_attr("T").name

    assert await agree(program) == (False, "float32")


@pytest.mark.behaviour(134)
async def test_inputs_are_mapped_to_tensors_of_the_graph(agree):
    async def program(engine):
        tf = engine.tf
        mine = tf.constant(5.0, name="mine")
        late = tf.constant(0, name="late")
        text = A_AND_B + node("c", "Add", "a", "b:0", "^a")
        text = text.replace('input: "^a"', 'input: "^w"') + node("w", "NoOp", attrs="")
        graph = engine.proto("GraphDef", text)
        (c,) = tf.import_graph_def(graph, {"a": mine, "^w": late}, ["c:0"], name="p")
        async with engine.session() as session:
            return c.name, [op.name for op in c.op.control_inputs], await session.run(c)

    assert await agree(program) == ("p/c:0", ["late"], 0.0)


@pytest.mark.behaviour(134)
async def test_input_maps_that_do_not_fit_are_refused(agree):
    async def program(engine):
        tf = engine.tf
        mine, whole = tf.constant(5.0), tf.constant(5)
        found = [
            await refused(engine, A_AND_B, "nosuch", input_map={"nosuch:0": mine}),
            await refused(engine, A_AND_B, "a:7", input_map={"a:7": mine}),
            await refused(engine, A_AND_B, input_map={"a": whole}),
            await refused(engine, A_AND_B, input_map=[mine]),
        ]
        if engine.is_ours:  # TensorFlow looks for what is unused when the nodes are there, and leaves them
            assert all(unchanged for _, unchanged in found)
        return [error for error, _ in found]

    await agree(program)


@pytest.mark.behaviour(135)
async def test_elements_are_returned_by_their_names_in_the_graphdef(agree):
    async def program(engine):
        tf = engine.tf
        graph = engine.proto("GraphDef", A_AND_B)
        tensor, op = tf.import_graph_def(graph, return_elements=["b:0", "a"], name="p")
        return tensor.name, op.name, tf.import_graph_def(graph, name="q")

    assert await agree(program) == ("p/b:0", "p/a", None)


@pytest.mark.behaviour(135)
@pytest.mark.parametrize("element", ["nosuch", "nosuch:0", "a:3", "a:x", 3])
async def test_elements_that_are_not_there_are_refused(element, agree):
    async def program(engine):
        return await refused(engine, A_AND_B, return_elements=[element])

    await agree(program)


@pytest.mark.behaviour(136)
async def test_a_graph_imported_again_gets_names_of_its_own(agree):
    async def program(engine):
        tf = engine.tf
        text = A_AND_B.replace(
            f'input: "a" {FLOAT}',
            f'input: "a" {FLOAT} attr {{ key: "_class" value {{ list {{ s: "loc:@a" }} }} }}',
        )
        graph = engine.proto("GraphDef", text)
        groups = []
        for prefix in ("p", "p", "", ""):
            (b,) = tf.import_graph_def(graph, return_elements=["b"], name=prefix)
            groups.append(list(b.node_def.attr["_class"].list.s))
        return groups, names(engine)

    groups, found = await agree(program)

    assert groups == [[b"loc:@p/a"], [b"loc:@p_1/a"], [b"loc:@a"], [b"loc:@a_1"]]
    assert found == ["p/a", "p/b", "p_1/a", "p_1/b", "a", "b", "a_1", "b_1"]


@pytest.mark.behaviour(138)
async def test_a_graph_for_newer_consumers_is_refused(agree):
    async def program(engine):
        return await refused(engine, A_AND_B + "versions { producer: 99999 min_consumer: 99999 }", "99999")

    assert (await agree(program))[1] is True


@pytest.mark.behaviour(126)
async def test_inputs_that_an_op_does_not_take_are_refused_while_building(agree):
    async def program(engine):
        tf = engine.tf
        floats, whole = tf.constant([1.0]), tf.constant([1])
        return [
            await failure(lambda: tf.add(floats, whole)),
            await failure(lambda: tf.matmul(tf.zeros([2, 3]), tf.zeros([2, 3]))),
            await failure(lambda: tf.reshape(floats, [7])),
            await failure(lambda: tf.placeholder("no such type")),
            await failure(lambda: tf.constant("text") + 1.0),
            await failure(lambda: tf.concat([floats, whole], 0)),
            await failure(lambda: tf.reduce_sum(floats, 3)),
            await failure(lambda: tf.logical_not(floats)),
        ]

    await agree(program)
