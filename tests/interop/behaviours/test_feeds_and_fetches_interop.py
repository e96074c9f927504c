"""Valid and invalid feeds and fetches, and returned values, in both engines."""

import collections
from functools import partial

import numpy as np
import pytest

from tests.interop.behaviours.both import failure, floats, outcome

pytestmark = pytest.mark.interop


@pytest.mark.behaviour(10)
async def test_a_target_that_is_not_fetched_runs_beside_the_fetch(agree):
    async def program(engine):
        tf = engine.tf
        counter = tf.Variable(0, use_resource=True)
        count = tf.assign_add(counter, 5).op
        a = tf.constant(2.0)
        async with engine.session() as session:
            await session.run(counter.initializer)
            return await session.run([a, count]), await session.run(counter)

    assert await agree(program) == ([2.0, None], 5)


@pytest.mark.behaviour(11)
async def test_targets_alone_run_and_return_nothing(agree):
    async def program(engine):
        tf = engine.tf
        counter = tf.Variable(1.0, use_resource=True)
        add = tf.assign_add(counter, 2.0).op
        async with engine.session() as session:
            nothing = await session.run(counter.initializer)
            return nothing, await session.run([add]), await session.run(counter)

    assert await agree(program) == (None, [None], 3.0)


@pytest.mark.behaviour(12)
async def test_results_come_in_the_order_of_the_fetches(agree):
    async def program(engine):
        tf = engine.tf
        first = tf.constant([1.0, 2.0])
        second = first * 10.0
        third = tf.reduce_sum(second)
        async with engine.session() as session:
            return await session.run([third, first, second]), await session.run([second, third, first])

    result = await agree(program)

    np.testing.assert_array_equal(result[0][2], [10.0, 20.0])
    np.testing.assert_array_equal(result[1][0], [10.0, 20.0])


@pytest.mark.behaviour(13, 14)
async def test_what_is_fetched_twice_comes_back_in_each_position(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, [])
        y, z = x + 1.0, x * 2.0
        async with engine.session() as session:
            return await session.run([y, y, z, y, z], {x: 3.0})

    assert await agree(program) == [4.0, 4.0, 6.0, 4.0, 6.0]


Pair = collections.namedtuple("Pair", "first second")


@pytest.mark.behaviour(12)
async def test_fetches_keep_their_nesting(agree):
    async def program(engine):
        tf = engine.tf
        a, b = tf.constant(1), tf.constant([2.5])
        async with engine.session() as session:
            return await session.run(
                {"a": a, "both": (b, [a, "Const_1:0"]), "pair": Pair(b, a.op), "none": []}
            )

    result = await agree(program)

    assert result["pair"] == Pair(floats([2.5]), None)


@pytest.mark.behaviour(15)
async def test_a_fed_tensor_replaces_what_computes_it(agree):
    async def program(engine):
        tf = engine.tf
        constant = tf.constant(1.0)
        fails = tf.check_numerics(tf.constant(np.inf, tf.float32), "not finite")
        used = constant + fails * 10.0
        async with engine.session() as session:
            return await session.run(used, {constant: 4.0, fails: 2.0}), await session.run(used, {fails: 2.0})

    assert await agree(program) == (24.0, 21.0)


@pytest.mark.behaviour(16)
async def test_feeds_in_any_order_and_one_value_for_two_of_them(agree):
    async def program(engine):
        tf = engine.tf
        x, y = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.float32, [2])
        difference = x - 2.0 * y
        one, two = floats([1, 2]), floats([10, 20])
        async with engine.session() as session:
            return [
                await session.run(difference, feed)
                for feed in ({x: one, y: two}, {y: two, x: one}, {x: one, y: one})
            ]

    np.testing.assert_array_equal(await agree(program), [[-19, -38], [-19, -38], [-1, -2]])


@pytest.mark.behaviour(18)
async def test_the_python_layer_returns_a_fetched_feed_as_it_is(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, [3])
        fed = floats([1, 2, 3])
        async with engine.session() as session:
            back, more = await session.run([x, x + 1.0], {x: fed})
            return back is fed, back, more

    assert (await agree(program))[0] is True


@pytest.mark.behaviour(19)
async def test_names_that_the_graph_lacks_are_refused(agree):
    async def program(engine):
        tf = engine.tf
        a = tf.constant(1.0, name="a")
        async with engine.session() as session:
            return [
                await failure(lambda: session.run("b:0"), "b:0"),
                await failure(lambda: session.run("b"), "b"),
                await failure(lambda: session.run(a, {"b:0": 1.0}), "b:0"),
                await failure(lambda: session.run(["a", None])),
                await failure(lambda: session.run(7)),
                await failure(lambda: session.run(a, {3: 1.0})),
            ]

    await agree(program)


@pytest.mark.behaviour(20)
async def test_an_output_that_the_operation_lacks_is_refused(agree):
    async def program(engine):
        engine.tf.constant(1.0, name="a")
        async with engine.session() as session:
            fetched = await failure(lambda: session.run("a:1"), "a:1")
            fed = await failure(lambda: session.run("a:0", {"a:1": 1.0}), "a:1")
            return fetched, fed

    await agree(program)


async def test_tensors_of_another_graph_are_refused(agree):
    async def program(engine):
        tf = engine.tf
        a = tf.constant(1.0)
        with tf.Graph().as_default():
            foreign = tf.constant(2.0)
        async with engine.session() as session:
            return [
                await failure(lambda: session.run(foreign), "graph"),
                await failure(lambda: session.run(a, {foreign: 1.0}), "graph"),
            ]

    await agree(program)


@pytest.mark.behaviour(22)
async def test_a_feed_without_a_consumer_is_accepted(agree):
    async def program(engine):
        tf = engine.tf
        unused, a = tf.placeholder(tf.float32, []), tf.constant([1, 2])
        async with engine.session() as session:
            return await session.run(a, {unused: 3.0})

    np.testing.assert_array_equal(await agree(program), [1, 2])


@pytest.mark.behaviour(23)
async def test_feeding_one_output_leaves_the_others_computed(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, [4])
        low, high = tf.split(x, 2)
        async with engine.session() as session:
            return await session.run([low, high * 2.0], {x: floats([1, 2, 3, 4]), high: floats([9, 9])})

    np.testing.assert_array_equal(await agree(program), [[1, 2], [18, 18]])


@pytest.mark.behaviour(24)
async def test_nothing_is_assigned_to_a_fed_reference(agree):
    async def program(engine):
        tf = engine.tf
        variable = tf.Variable(1.0, use_resource=False, name="v")
        assign = tf.assign(variable, 5.0, name="assign")
        async with engine.session() as session:
            await session.run(variable.initializer)
            refused = await failure(lambda: session.run(assign, {"v:0": 2.0}))
            read = await session.run(variable.read_value(), {"v:0": 2.0})
            return refused, read, await session.run(variable)

    refused, read, kept = await agree(program)

    assert refused.classes[0] == "InvalidArgumentError"
    assert (read, kept) == (2.0, 1.0)


@pytest.mark.behaviour(25)
async def test_only_what_the_fetches_need_is_run(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, [], name="x")
        counter = tf.Variable(0, use_resource=True)
        with tf.control_dependencies([tf.assign_add(counter, 1)]):
            counted = tf.identity(tf.constant(1.0), name="counted")
        behind = counted + 1.0
        async with engine.session() as session:
            await session.run(counter.initializer)
            by_edges = await session.run(behind)
            cut = await session.run(behind, {counted: 7.0})
            needs_a_feed = await failure(lambda: session.run(x + 1.0), "x", "feed")
            return by_edges, cut, needs_a_feed, await session.run(counter)

    result = await agree(program)

    assert (*result[:2], result[3]) == (2.0, 8.0, 1)


@pytest.mark.behaviour(28)
async def test_every_kind_of_dtype_is_fed_and_fetched(agree):
    async def program(engine):
        tf = engine.tf
        values = {
            "int32": np.array([[1], [-2]], np.int32),
            "int64": np.int64(2**40),
            "float32": np.array([0.5, np.nan], np.float32),
            "float64": np.array([], np.float64),
            "bool": np.array([True, False]),
            "complex64": np.array([1 + 2j], np.complex64),
            "uint8": np.array([255], np.uint8),
        }
        async with engine.session() as session:
            found = {}
            for name, value in values.items():
                fed = tf.placeholder(getattr(tf, name))
                found[name] = await session.run(tf.identity(fed), {fed: value})
            text = tf.placeholder(tf.string)
            found["string"] = (await session.run(tf.identity(text), {text: [b"a", "\u00e4"]})).tolist()
            found["one string"] = await session.run(tf.identity(text), {text: b"\x00\xff"})
            return found

    result = await agree(program)

    assert result["string"] == [b"a", "\u00e4".encode()]
    assert result["one string"] == b"\x00\xff"


@pytest.mark.behaviour(28)
async def test_values_that_do_not_fit_their_feed_are_refused(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, [2])
        n = tf.placeholder(tf.int32, [])
        async with engine.session() as session:
            return [
                await failure(lambda: session.run(x, {x: [1.0, 2.0, 3.0]}), "shape"),
                await failure(lambda: session.run(n + 1, {n: tf.constant(1)})),
                await session.run(x * 2.0, {x: [1, 2]}),
            ]

    np.testing.assert_array_equal((await agree(program))[-1], [2.0, 4.0])


@pytest.mark.behaviour(28)
async def test_values_that_would_change_when_fed_are_refused_here_only(differ):
    """TensorFlow leaves it to NumPy, which cuts off fractions and reads text."""

    async def program(engine):
        n = engine.tf.placeholder(engine.tf.int32, [])
        async with engine.session() as session:
            return [await outcome(partial(session.run, n + 1, {n: value})) for value in (1.5, "3", "x")]

    ours, theirs = await differ(program)

    assert [each.classes[0] for each in ours] == ["GraphTypeError"] * 3
    assert theirs[:2] == [2, 4]
    assert theirs[2].classes[0] == "ValueError"


@pytest.mark.behaviour(28)
async def test_what_has_no_dimensions_is_fetched_as_a_scalar(agree):
    async def program(engine):
        tf = engine.tf
        unknown = tf.placeholder(tf.float32)
        tensors = [tf.constant(1.5), tf.constant(True), tf.constant(b"a"), tf.identity(unknown)]
        async with engine.session() as session:
            return [type(value).__name__ for value in await session.run(tensors, {unknown: 2.0})]

    assert await agree(program) == ["float32", np.bool_.__name__, "bytes", "float32"]


@pytest.mark.behaviour(17)
async def test_a_tensor_fed_under_two_names_is_refused_here_only(differ):
    """TensorFlow's Python layer keeps the last one; its runtime refuses (see the test of callables)."""

    async def program(engine):
        x = engine.tf.placeholder(engine.tf.float32, [], name="x")
        async with engine.session() as session:
            return await outcome(lambda: session.run(x * 1.0, {x: 1.0, "x:0": 2.0}))

    ours, theirs = await differ(program)

    assert "fed more than once" in ours.message
    assert "InvalidArgumentError" in ours.classes
    assert theirs == 2.0


@pytest.mark.behaviour(30)
async def test_variables_live_across_the_runs_of_a_session(agree):
    async def program(engine):
        tf = engine.tf
        kinds = [tf.Variable([1.0, 2.0], use_resource=resource) for resource in (True, False)]
        doubles = [tf.assign(variable, variable * 2.0).op for variable in kinds]
        async with engine.session() as session:
            await session.run([variable.initializer for variable in kinds])
            for _ in range(3):
                await session.run(doubles)
            kept = await session.run(kinds)
        async with engine.session() as other:
            unset = [await failure(partial(other.run, variable.read_value())) for variable in kinds]
        return kept, unset

    np.testing.assert_array_equal((await agree(program))[0], [[8, 16], [8, 16]])


@pytest.mark.behaviour(31)
async def test_a_stateful_kernel_is_shared_by_all_signatures_of_a_session(agree):
    async def program(engine):
        tf = engine.tf
        tf.set_random_seed(3)
        drawn = tf.random_uniform([2], seed=5)
        more = drawn + 1.0
        async with engine.session() as session:
            first = await session.run(drawn)
            second = await session.run(more) - 1.0
            third, _ = await session.run([drawn, more])
        async with engine.session() as other:
            again = [await other.run(drawn) for _ in range(3)]
        return [first, second, third], np.allclose(again, [first, second, third], atol=1e-6)

    values, restarted = await agree(program)
    assert restarted
    assert len({tuple(np.round(value, 4)) for value in values}) == 3
