"""Conditionals, loops and dead values, well formed and malformed, in both engines."""

import numpy as np
import pytest

from tests.interop.behaviours.both import failure, outcome
from tests.interop.behaviours.planned import as_built

pytestmark = pytest.mark.interop

ENTER = 'op: "Enter" attr { key: "T" value { type: DT_INT32 } } attr { key: "frame_name" value { s: "%s" } }'
WHOLE = 'attr { key: "T" value { type: DT_INT32 } }'
BOOL = 'attr { key: "T" value { type: DT_BOOL } }'
TWO = 'attr { key: "N" value { i: 2 } }'
HEAD = """
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_INT32 } } }
node { name: "p" op: "Placeholder" attr { key: "dtype" value { type: DT_BOOL } } }
"""


async def run_text(engine, text, fetches, feeds):
    """Run a graph that is written down, as it is."""
    engine.tf.import_graph_def(engine.proto("GraphDef", HEAD + text), name="")
    async with engine.session(**as_built(engine)) as session:
        return await session.run(fetches, feeds)


@pytest.mark.behaviour(68, 69)
@pytest.mark.parametrize("taken", [True, False])
async def test_one_output_of_a_switch_lives_and_what_hangs_on_the_other_is_dead(taken, agree):
    async def program(engine):
        text = f"""
        node {{ name: "switch" op: "Switch" input: "x" input: "p" {WHOLE} }}
        node {{ name: "low" op: "Neg" input: "switch:0" {WHOLE} }}
        node {{ name: "high" op: "Neg" input: "switch:1" {WHOLE} }}
        node {{ name: "high_again" op: "Neg" input: "high" {WHOLE} }}
        node {{ name: "merge" op: "Merge" input: "low" input: "high_again" {WHOLE} {TWO} }}
        """
        return await run_text(engine, text, ["merge:0", "merge:1"], {"x:0": 5, "p:0": taken})

    assert await agree(program) == ([5, 1] if taken else [-5, 0])


@pytest.mark.behaviour(68, 69)
async def test_a_dead_tensor_cannot_be_fetched(agree):
    async def program(engine):
        text = f'node {{ name: "switch" op: "Switch" input: "x" input: "p" {WHOLE} }}'
        live = await run_text(engine, text, "switch:1", {"x:0": 5, "p:0": True})
        async with engine.session() as session:
            return live, await failure(
                lambda: session.run("switch:0", {"x:0": 5, "p:0": True}), "Retval[0] does not have value"
            )

    assert (await agree(program))[0] == 5


@pytest.mark.behaviour(69)
@pytest.mark.parametrize("taken", [True, False])
async def test_a_dead_control_input_makes_a_node_dead(taken, agree):
    async def program(engine):
        text = f"""
        node {{ name: "switch" op: "Switch" input: "x" input: "p" {WHOLE} }}
        node {{ name: "high" op: "Identity" input: "switch:1" {WHOLE} }}
        node {{ name: "low" op: "Identity" input: "switch:0" {WHOLE} }}
        node {{ name: "waits" op: "Neg" input: "x" input: "^high" {WHOLE} }}
        node {{ name: "other" op: "Identity" input: "x" input: "^low" {WHOLE} }}
        node {{ name: "merge" op: "Merge" input: "waits" input: "other" {WHOLE} {TWO} }}
        """
        return await run_text(engine, text, "merge:0", {"x:0": 5, "p:0": taken})

    assert await agree(program) == (-5 if taken else 5)


@pytest.mark.behaviour(70)
@pytest.mark.parametrize("taken", [True, False])
async def test_a_merge_of_dead_values_is_dead(taken, agree):
    async def program(engine):
        text = f"""
        node {{ name: "switch" op: "Switch" input: "x" input: "p" {WHOLE} }}
        node {{ name: "one" op: "Neg" input: "switch:1" {WHOLE} }}
        node {{ name: "two" op: "Neg" input: "one" {WHOLE} }}
        node {{ name: "inner" op: "Merge" input: "one" input: "two" {WHOLE} {TWO} }}
        node {{ name: "low" op: "Identity" input: "switch:0" {WHOLE} }}
        node {{ name: "outer" op: "Merge" input: "inner" input: "low" {WHOLE} {TWO} }}
        """
        if taken:
            text = text.replace('input: "one" input: "two"', 'input: "one" input: "one"')
        return await outcome(lambda: run_text(engine, text, "outer:0", {"x:0": 5, "p:0": False}))

    assert await agree(program) == 5


@pytest.mark.behaviour(70)
@pytest.mark.parametrize("taken", [True, False])
async def test_a_dead_control_input_alone_does_not_kill_a_merge(taken, agree):
    async def program(engine):
        text = f"""
        node {{ name: "switch" op: "Switch" input: "x" input: "p" {WHOLE} }}
        node {{ name: "low" op: "Neg" input: "switch:0" {WHOLE} }}
        node {{ name: "high" op: "Identity" input: "switch:1" {WHOLE} }}
        node {{ name: "merge" op: "Merge" input: "low" input: "high" input: "^high" {WHOLE} {TWO} }}
        """
        return await outcome(lambda: run_text(engine, text, "merge:0", {"x:0": 5, "p:0": taken}))

    assert await agree(program) == (5 if taken else -5)


@pytest.mark.behaviour(68, 25)
async def test_only_the_branch_taken_has_effects(agree):
    async def program(engine):
        tf = engine.tf
        p = tf.placeholder(tf.bool, [])
        counter = tf.Variable(0, use_resource=True)
        one, ten = (lambda: tf.assign_add(counter, 1)), (lambda: tf.assign_add(counter, 10))
        result = tf.cond(p, one, ten)
        async with engine.session() as session:
            await session.run(counter.initializer)
            return [await session.run(result, {p: taken}) for taken in (True, False, True)]

    assert await agree(program) == [1, 11, 12]


@pytest.mark.behaviour(68)
async def test_conditionals_nest_and_return_structures(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, [])
        size = tf.cond(
            x > 0.0,
            lambda: tf.cond(x > 10.0, lambda: [x * 2.0, x], lambda: [x * 3.0, x + 1.0]),
            lambda: [-x, tf.constant(0.0)],
        )
        async with engine.session() as session:
            return [await session.run(size, {x: value}) for value in (20.0, 5.0, -1.0)]

    assert await agree(program) == [[40.0, 20.0], [15.0, 6.0], [1.0, 0.0]]


@pytest.mark.behaviour(71)
@pytest.mark.parametrize("parallel", [1, 10])
async def test_iterations_have_their_own_values(parallel, agree):
    async def program(engine):
        tf = engine.tf
        limit = tf.placeholder(tf.int32, [])
        results = tf.while_loop(
            lambda i, *_: i < limit,
            lambda i, total, product: (i + 1, total + i, product * 2.0 + tf.cast(i, tf.float32)),
            [tf.constant(0), tf.constant(0), tf.constant(1.0)],
            parallel_iterations=parallel,
        )
        async with engine.session() as session:
            return [await session.run(results, {limit: count}) for count in (0, 1, 17, 3)]

    assert await agree(program) == [(0, 0, 1.0), (1, 0, 2.0), (17, 136, 262126.0), (3, 3, 12.0)]


@pytest.mark.behaviour(71)
async def test_loops_nest(agree):
    async def program(engine):
        tf = engine.tf

        def outer(i, total):
            _, inner = tf.while_loop(
                lambda j, _: j < i, lambda j, t: (j + 1, t + i * j), [tf.constant(0), total]
            )
            return i + 1, inner

        results = tf.while_loop(lambda i, _: i < 6, outer, [tf.constant(0), tf.constant(100)])
        async with engine.session() as session:
            return await session.run(results)

    assert await agree(program) == (6, 100 + sum(i * j for i in range(6) for j in range(i)))


@pytest.mark.behaviour(72)
async def test_what_enters_once_is_seen_by_each_iteration(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, [3])
        scale = tf.exp(x)
        _, value = tf.while_loop(
            lambda i, _: i < 4,
            lambda i, value: (i + 1, value * scale + x),
            [tf.constant(0), tf.zeros_like(x)],
        )
        async with engine.session() as session:
            return await session.run(value, {x: np.zeros(3, np.float32)})

    np.testing.assert_array_equal(await agree(program), [0.0, 0.0, 0.0])


@pytest.mark.behaviour(73)
@pytest.mark.parametrize("taken", [True, False])
async def test_a_loop_on_the_branch_that_is_not_taken_gives_nothing(taken, agree):
    async def program(engine):
        tf = engine.tf
        p, x = tf.placeholder(tf.bool, []), tf.placeholder(tf.int32, [])
        value = tf.cond(
            p, lambda: tf.while_loop(lambda i: i < 100, lambda i: i * 2, [x]), lambda: tf.constant(-1)
        )
        async with engine.session() as session:
            return await session.run(value, {p: taken, x: 3})

    assert await agree(program) == (192 if taken else -1)


@pytest.mark.behaviour(71, 75)
async def test_an_error_in_an_iteration_ends_the_step(agree):
    async def program(engine):
        tf = engine.tf
        _, value = tf.while_loop(
            lambda i, _: i < 10,
            lambda i, v: (i + 1, tf.check_numerics(v * 1e20, "in the loop", name="check")),
            [tf.constant(0), tf.constant(1.0)],
        )
        async with engine.session() as session:
            return await failure(lambda: session.run(value), "in the loop")

    assert (await agree(program)).classes[0] == "InvalidArgumentError"


@pytest.mark.behaviour(71)
async def test_loops_that_do_not_fit_are_refused_while_building(agree):
    async def program(engine):
        tf = engine.tf
        return [
            await failure(lambda: tf.while_loop(lambda i: i < 3, lambda i: i, [])),
            await failure(lambda: tf.while_loop(None, lambda i: i, [0])),
            await failure(lambda: tf.while_loop(lambda i: i < 3, None, [0])),
            await failure(lambda: tf.while_loop(lambda i: i < 3, lambda i: (i, i), [tf.constant(0)])),
            await failure(lambda: tf.while_loop(lambda i: i < 3, lambda i: i * 1.5, [tf.constant(0)])),
            await failure(
                lambda: tf.while_loop(lambda i: i < 3, lambda i: tf.stack([i, i]), [tf.constant(0)])
            ),
            await failure(lambda: tf.cond(tf.constant(True), lambda: 1, lambda: 1.0)),
            await failure(lambda: tf.cond(tf.constant(True), lambda: 1, lambda: (1, 2))),
            await failure(lambda: tf.cond(tf.constant(True), None, lambda: 1)),
        ]

    await agree(program)


@pytest.mark.behaviour(79, 81)
@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        (
            f"""
            node {{ name: "in_one" input: "x" {ENTER % "one"} }}
            node {{ name: "sum" op: "Add" input: "in_one" input: "x" {WHOLE} }}
            """,
            "has inputs from different frames",
        ),
        (
            f"""
            node {{ name: "in_one" op: "Enter" input: "p" {BOOL} attr {{ key: "frame_name" value {{ s: "one" }} }} }}
            node {{ name: "first" op: "LoopCond" input: "in_one" }}
            node {{ name: "second" op: "LoopCond" input: "in_one" }}
            node {{ name: "both" op: "LogicalAnd" input: "first" input: "second" }}
            node {{ name: "sum" op: "Exit" input: "both" {BOOL} }}
            """,
            "more than one LoopCond node",
        ),
    ],
    ids=["different frames", "two conditions"],
)
async def test_malformed_loops_are_refused(text, fragment, agree):
    async def program(engine):
        return await failure(lambda: run_text(engine, text, "sum:0", {"x:0": 1, "p:0": True}), fragment)

    assert (await agree(program)).classes[0] == "InvalidArgumentError"


@pytest.mark.behaviour(80)
async def test_a_frame_with_two_parents_is_refused(differ):
    """The graph is invalid, as in 1.x; later TensorFlow reports an internal error."""
    text = f"""
    node {{ name: "in_one" input: "x" {ENTER % "one"} }}
    node {{ name: "in_two" input: "x" {ENTER % "two"} }}
    node {{ name: "deeper" input: "in_one" {ENTER % "inner"} }}
    node {{ name: "elsewhere" input: "in_two" {ENTER % "inner"} }}
    node {{ name: "out" op: "Exit" input: "deeper" {WHOLE} }}
    node {{ name: "out_too" op: "Exit" input: "elsewhere" {WHOLE} }}
    node {{ name: "left" op: "Exit" input: "out" {WHOLE} }}
    node {{ name: "left_too" op: "Exit" input: "out_too" {WHOLE} }}
    node {{ name: "sum" op: "Add" input: "left" input: "left_too" {WHOLE} }}
    """

    async def program(engine):
        return await failure(
            lambda: run_text(engine, text, "sum:0", {"x:0": 1}), "Mismatched parent frames for", "elsewhere"
        )

    ours, theirs = await differ(program)

    assert (ours.classes[0], theirs.classes[0]) == ("InvalidArgumentError", "InternalError")


@pytest.mark.behaviour(82)
async def test_a_loop_may_be_written_by_hand(agree):
    async def program(engine):
        text = f"""
        node {{ name: "ten" op: "Const" attr {{ key: "dtype" value {{ type: DT_INT32 }} }}
                attr {{ key: "value" value {{ tensor {{ dtype: DT_INT32 tensor_shape {{}} int_val: 10 }} }} }} }}
        node {{ name: "limit" input: "ten" {ENTER % "one"} attr {{ key: "is_constant" value {{ b: true }} }} }}
        node {{ name: "enter" input: "x" {ENTER % "one"} }}
        node {{ name: "merge" op: "Merge" input: "enter" input: "next" {WHOLE} {TWO} }}
        node {{ name: "less" op: "Less" input: "merge" input: "limit" {WHOLE} }}
        node {{ name: "condition" op: "LoopCond" input: "less" }}
        node {{ name: "switch" op: "Switch" input: "merge" input: "condition" {WHOLE} }}
        node {{ name: "sum" op: "Add" input: "switch:1" input: "switch:1" {WHOLE} }}
        node {{ name: "next" op: "NextIteration" input: "sum" {WHOLE} }}
        node {{ name: "exit" op: "Exit" input: "switch:0" {WHOLE} }}
        """
        return await run_text(engine, text, "exit:0", {"x:0": 3})

    assert await agree(program) == 12
