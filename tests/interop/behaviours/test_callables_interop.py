"""Callables of fetches and feeds and of CallableOptions, in both engines."""

from functools import partial

import numpy as np
import pytest

from tests.interop.behaviours.both import failure, outcome

pytestmark = pytest.mark.interop

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


def small_graph(tf):
    """d = (a + b) * 2, with a constant and b a placeholder."""
    a = tf.constant(1.0, name="a")
    b = tf.placeholder(tf.float32, [], name="b")
    c = tf.add(a, b, name="c")
    return a, b, c, tf.multiply(c, 2.0, name="d")


def connection(engine, source, destination):
    return engine.proto("TensorConnection", from_tensor=source, to_tensor=destination)


@pytest.mark.behaviour(44)
async def test_a_callable_of_fetches_runs_again_and_again(agree):
    async def program(engine):
        _, b, c, d = small_graph(engine.tf)
        async with engine.session() as session:
            one = session.make_callable(c, [b])
            nested = session.make_callable({"both": [d, c], "op": d.op}, ["b:0"])
            alone = session.make_callable(d.op, [b])
            constant = session.make_callable("a:0")
            return (
                [await one(float(n)) for n in range(3)],
                await nested(2.0),
                await alone(1.0),
                await constant(),
            )

    result = await agree(program)

    assert result[0] == [1.0, 2.0, 3.0]
    assert result[1]["both"] == [6.0, 3.0]


@pytest.mark.behaviour(44)
async def test_a_callable_may_accept_options_and_metadata(agree):
    async def program(engine):
        _, b, c, _ = small_graph(engine.tf)
        async with engine.session() as session:
            function = session.make_callable(c, [b], accept_options=True)
            metadata = engine.proto("RunMetadata")
            options = engine.proto("RunOptions", trace_level=3)
            value = await function(2.0, options=options, run_metadata=metadata)
            return value, await function(3.0), len(metadata.step_stats.dev_stats) > 0

    assert await agree(program) == (3.0, 4.0, True)


@pytest.mark.behaviour(44, 19)
async def test_callables_of_what_the_graph_lacks_are_refused(agree):
    async def program(engine):
        _, b, c, _ = small_graph(engine.tf)
        async with engine.session() as session:
            return [
                await failure(lambda: session.make_callable("zzz:0"), "zzz"),
                await failure(lambda: session.make_callable(7)),
                await failure(lambda: session.make_callable(c, b), "feed_list"),
            ]

    await agree(program)


@pytest.mark.behaviour(44, 12, 13)
async def test_callable_options_name_feeds_fetches_and_targets(agree):
    async def program(engine):
        tf = engine.tf
        small_graph(tf)
        counter = tf.Variable(0, use_resource=True)
        tf.group(tf.assign_add(counter, 1), name="count")
        async with engine.session() as session:
            await session.run(counter.initializer)
            function = await session._make_callable_from_options(
                engine.proto(
                    "CallableOptions", feed=["b:0"], fetch=["d:0", "c:0", "a:0", "d:0"], target=["count"]
                )
            )
            values = [await function(np.float32(n)) for n in (0, 5)]
            return values, await session.run(counter)

    assert await agree(program) == ([[2.0, 1.0, 1.0, 2.0], [12.0, 6.0, 1.0, 12.0]], 2)


@pytest.mark.behaviour(17, 18, 21)
async def test_callables_that_the_runtime_refuses(agree):
    async def program(engine):
        small_graph(engine.tf)
        refused = {
            "fed more than once": {"feed": ["b:0", "b:0"], "fetch": ["c:0"]},
            "both fed and fetched": {"feed": ["b:0"], "fetch": ["b:0"]},
            "at least one target": {"feed": ["b:0"]},
            "target nodes not found": {"target": ["z"]},
        }
        async with engine.session() as session:
            return [
                await failure(
                    partial(session._make_callable_from_options, engine.proto("CallableOptions", **fields)),
                    fragment,
                )
                for fragment, fields in refused.items()
            ]

    await agree(program)


@pytest.mark.behaviour(19, 20)
async def test_unknown_tensors_of_callables_have_the_classes_of_1x_here(differ):
    """Later TensorFlow looks up the devices of feeds and fetches first, and raises another class; we keep those of 1.x."""

    async def program(engine):
        small_graph(engine.tf)
        async with engine.session() as session:

            async def made(**fields):
                return await failure(
                    lambda: session._make_callable_from_options(engine.proto("CallableOptions", **fields))
                )

            return [
                await made(feed=["z:0"], fetch=["c:0"]),
                await made(fetch=["z:0"]),
                await made(fetch=["a:5"]),
                await made(feed=["a:5"], fetch=["a:0"]),
            ]

    ours, theirs = await differ(program)

    assert [each.classes[0] for each in ours] == [
        *["NotFoundError", "NotFoundError"],
        *["InvalidArgumentError", "InvalidArgumentError"],
    ]
    assert "unable to find feed output z:0" in ours[0].message
    assert "not found" in ours[1].message
    assert "a:5" in ours[2].message
    assert [each.classes[0] for each in theirs] == [
        *["InvalidArgumentError", "InvalidArgumentError"],
        *["OutOfRangeError", "OutOfRangeError"],
    ]


@pytest.mark.behaviour(45)
async def test_a_released_callable_is_refused(agree):
    async def program(engine):
        small_graph(engine.tf)
        async with engine.session() as session:
            function = await session._make_callable_from_options(
                engine.proto("CallableOptions", feed=["b:0"], fetch=["c:0"])
            )
            value = await function(np.float32(1))
            await function.release()
            return value, await failure(lambda: function(np.float32(1)), "handle was released")

    assert (await agree(program))[0] == [2.0]


@pytest.mark.behaviour(46, 58)
async def test_callables_of_a_closed_session_are_refused(agree):
    async def program(engine):
        _, b, c, _ = small_graph(engine.tf)
        async with engine.session() as session:
            made = session.make_callable(c, [b])
            named = await session._make_callable_from_options(
                engine.proto("CallableOptions", feed=["b:0"], fetch=["c:0"])
            )
            await session.close()
            return [
                await failure(lambda: made(1.0)),
                await failure(lambda: named(np.float32(1)), "Session has been closed."),
            ]

    await agree(program)


@pytest.mark.behaviour(47)
async def test_another_number_of_values_than_of_feeds_is_refused(agree):
    async def program(engine):
        small_graph(engine.tf)
        async with engine.session() as session:
            function = await session._make_callable_from_options(
                engine.proto("CallableOptions", feed=["b:0"], fetch=["c:0"])
            )
            return [
                await failure(lambda: function(), "Expected 1 feed tensors, but got 0"),
                await failure(lambda: function(1.0, 2.0), "Expected 1 feed tensors, but got 2"),
            ]

    await agree(program)


@pytest.mark.behaviour(47)
async def test_the_number_of_values_is_checked_for_callables_of_fetches_here_only(differ):
    """TensorFlow drops what is too much, and lets the placeholder complain of what is missing."""

    async def program(engine):
        _, b, c, _ = small_graph(engine.tf)
        async with engine.session() as session:
            function = session.make_callable(c, [b])
            return await outcome(lambda: function(1.0, 2.0)), await outcome(lambda: function())

    ours, theirs = await differ(program)

    assert [each.classes[0] for each in ours] == ["GraphValueError"] * 2
    assert theirs[0] == 2.0
    assert theirs[1].classes[0] == "InvalidArgumentError"
    assert "InvalidArgumentError" in ours[1].classes


@pytest.mark.behaviour(47)
async def test_values_of_callables_are_converted_as_feeds_are_here_only(differ):
    """TensorFlow's runtime takes arrays of the very dtype; here a callable converts whatever `run` does."""

    async def program(engine):
        small_graph(engine.tf)
        async with engine.session() as session:
            function = await session._make_callable_from_options(
                engine.proto("CallableOptions", feed=["b:0"], fetch=["c:0"])
            )
            return await outcome(lambda: function(1)), await outcome(lambda: function("text"))

    ours, theirs = await differ(program)

    assert ours[0] == [2.0]
    assert "InvalidArgumentError" in ours[1].classes
    assert [each.classes[0] for each in theirs] == ["InvalidArgumentError"] * 2


@pytest.mark.behaviour(48)
async def test_a_tensor_is_wired_to_the_place_of_another(agree):
    async def program(engine):
        small_graph(engine.tf)
        async with engine.session() as session:
            function = await session._make_callable_from_options(
                engine.proto(
                    "CallableOptions",
                    fetch=["d:0", "a:0"],
                    tensor_connection=[connection(engine, "a:0", "b:0")],
                )
            )
            return await function(), await function()

    assert await agree(program) == ([4.0, 1.0], [4.0, 1.0])


@pytest.mark.behaviour(49)
@pytest.mark.parametrize(
    ("fragment", "pairs", "feeds"),
    [
        ("would create a cycle", [("d:0", "b:0")], []),
        ("unknown node", [("zz:0", "b:0")], []),
        ("unknown edge", [("a:7", "b:0")], []),
        ("unable to find feed output", [("a:0", "zz:0")], []),
        ("fed more than once", [("a:0", "b:0"), ("a:0", "b:0")], []),
        ("fed more than once", [("a:0", "b:0")], ["b:0"]),
    ],
)
async def test_connections_that_are_refused(fragment, pairs, feeds, agree):
    async def program(engine):
        small_graph(engine.tf)
        options = engine.proto(
            "CallableOptions",
            feed=feeds,
            fetch=["d:0"],
            tensor_connection=[connection(engine, *pair) for pair in pairs],
        )
        async with engine.session() as session:
            return await failure(lambda: session._make_callable_from_options(options), fragment)

    await agree(program)


@pytest.mark.behaviour(50)
async def test_devices_of_feeds_and_fetches_are_honoured_or_refused(agree):
    async def program(engine):
        small_graph(engine.tf)
        async with engine.session() as session:

            def made(**devices):
                options = engine.proto("CallableOptions", feed=["b:0"], fetch=["c:0"], **devices)
                return session._make_callable_from_options(options)

            function = await made(feed_devices={"b:0": CPU}, fetch_devices={"c:0": CPU}, fetch_skip_sync=True)
            refused = await failure(lambda: made(feed_devices={"b:0": "/device:GPU:0"}), "/device:GPU:0")
            return await function(np.float32(1)), refused

    assert (await agree(program))[0] == [2.0]
