"""Placement on two devices, and its errors, in both engines."""

import pytest

from tests.interop.behaviours.both import failure
from tests.interop.behaviours.planned import FIRST, SECOND, as_built, places

pytestmark = pytest.mark.interop


async def placed(engine, fetches, feeds=None, **options):
    """Where the nodes are, and the value of the fetches."""
    async with engine.session(**{**as_built(engine), **options}) as session:
        return await places(engine, session, fetches, feeds), await session.run(fetches, feeds)


def refused(engine, fetches, *fragments, **options):
    async def run():
        async with engine.session(**{**as_built(engine), **options}) as session:
            return await session.run(fetches)

    return failure(run, *fragments)


@pytest.mark.behaviour(104)
async def test_what_is_free_to_go_anywhere_goes_to_the_first_device(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, [], name="x")
        return await placed(engine, tf.add(tf.negative(x, name="n"), 1.0, name="sum"), {x: 1.0})

    devices, _ = await agree(program)

    assert devices == {"n": FIRST, "sum/y": FIRST, "sum": FIRST}


@pytest.mark.behaviour(108)
@pytest.mark.parametrize(
    "spec", ["/cpu:1", "/device:CPU:1", "/job:localhost/device:CPU:1", "/replica:0/task:0/cpu:1", SECOND]
)
async def test_partial_specs_are_completed(spec, agree):
    async def program(engine):
        x = engine.tf.placeholder(engine.tf.float32, [])
        with engine.tf.device(spec):
            return await placed(engine, engine.tf.negative(x, name="a"), {x: 2.0})

    assert await agree(program) == ({"a": SECOND}, -2.0)


@pytest.mark.behaviour(108)
@pytest.mark.parametrize("spec", ["/device:CPU:*", "/job:localhost", "/task:0", ""])
async def test_open_specs_mean_the_first_device_that_fits(spec, agree):
    async def program(engine):
        x = engine.tf.placeholder(engine.tf.float32, [])
        with engine.tf.device(spec):
            return await placed(engine, engine.tf.negative(x, name="a"), {x: 2.0})

    assert await agree(program) == ({"a": FIRST}, -2.0)


@pytest.mark.behaviour(106)
async def test_the_shape_of_a_tensor_is_asked_for_where_the_tensor_is(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, name="x")
        with tf.device("/cpu:1"):
            y = tf.negative(x, name="y")
        shape, size, rank = tf.shape(y, name="shape"), tf.size(y, name="size"), tf.rank(y, name="rank")
        return await placed(engine, [shape, size, rank], {x: [[1.0, 2.0]]})

    devices, values = await agree(program)

    assert {devices[name] for name in ("shape", "size", "rank")} == {SECOND}
    assert [value.tolist() for value in values] == [[1, 2], 2, 2]


@pytest.mark.behaviour(107)
async def test_a_generator_follows_its_one_consumer(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, [], name="x")
        generator = tf.constant(1.0, name="generator")
        with tf.device("/cpu:1"):
            return await placed(engine, tf.add(x, generator, name="sum"), {x: 1.0})

    assert await agree(program) == ({"generator": SECOND, "sum": SECOND}, 2.0)


@pytest.mark.behaviour(110, 119)
@pytest.mark.parametrize("soft", [False, True])
async def test_an_assignment_stays_with_its_reference_variable(soft, agree):
    async def program(engine):
        tf = engine.tf
        with tf.device("/cpu:1"):
            variable = tf.Variable(1.0, use_resource=False, name="v")
        add = tf.assign_add(variable, 2.0, name="add")
        async with engine.session(**as_built(engine), allow_soft_placement=soft) as session:
            initial = await places(engine, session, variable.initializer)
            return (
                initial["v"],
                initial["v/Assign"],
                await places(engine, session, add),
                await session.run(variable),
            )

    variable, assign, devices, value = await agree(program)

    assert {variable, assign, devices["v"], devices["add"]} == {SECOND}
    assert value == 3.0


@pytest.mark.behaviour(111)
async def test_what_uses_a_resource_goes_where_it_is(agree):
    async def program(engine):
        tf = engine.tf
        with tf.device("/cpu:1"):
            variable = tf.Variable(1.0, use_resource=True, name="v")
        add = variable.assign_add(2.0, read_value=False, name="add")
        with tf.control_dependencies([add]):
            read = variable.read_value()
        async with engine.session(**as_built(engine)) as session:
            await session.run(variable.initializer)
            devices = await places(engine, session, read)
            return devices["v"], devices["add"], await session.run(read)

    assert await agree(program) == (SECOND, SECOND, 5.0)


@pytest.mark.behaviour(112)
async def test_colocated_nodes_go_together_through_chains(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, [], name="x")
        first = tf.add(x, 1.0, name="first")
        with tf.colocate_with(first):
            second = tf.add(x, 2.0, name="second")
        with tf.device("/cpu:1"):
            third = tf.add(x, 3.0, name="third")
        with tf.colocate_with(third), tf.colocate_with(second):
            fourth = tf.add_n([first, second, third], name="fourth")
        return await placed(engine, fourth, {x: 1.0})

    devices, value = await agree(program)

    assert {devices[name] for name in ("first", "second", "third", "fourth")} == {SECOND}
    assert value == 9.0


@pytest.mark.behaviour(116)
async def test_a_malformed_spec_is_refused(agree):
    async def program(engine):
        def built():
            with engine.tf.device("/device:CPU:zz"):
                return engine.tf.no_op()

        def imported():
            graph = engine.proto("GraphDef", 'node { name: "m" op: "NoOp" device: "/device:CPU:zz" }')
            engine.tf.import_graph_def(graph, name="")

        return await failure(built), await failure(imported)

    for error in await agree(program):
        assert "Malformed device specification '/device:CPU:zz'" in error.message


@pytest.mark.behaviour(114, 118, 120)
@pytest.mark.parametrize("spec", ["/device:GPU:11", "/cpu:3", "/device:TPU:0"])
async def test_a_device_that_is_not_there_is_refused_unless_placement_is_soft(spec, agree):
    async def program(engine):
        tf = engine.tf
        with tf.device(spec):
            value = tf.constant(1.0, name="one") + 2.0
        hard = await refused(engine, value, "add", "Cannot assign a device", FIRST, SECOND)
        return hard, await placed(engine, value, allow_soft_placement=True)

    _, (devices, value) = await agree(program)

    assert set(devices.values()) == {FIRST}
    assert value == 3.0


@pytest.mark.behaviour(114)
@pytest.mark.parametrize("spec", ["/job:nosuch", "/job:localhost/task:7"])
async def test_an_unknown_job_or_task_is_refused_however_soft_the_placement(spec, agree):
    async def program(engine):
        tf = engine.tf
        with tf.device(spec):
            value = tf.constant(1.0, name="one") + 2.0
        return [await refused(engine, value, spec, allow_soft_placement=soft) for soft in (False, True)]

    await agree(program)


@pytest.mark.behaviour(26)
async def test_unused_nodes_must_be_placeable_unless_the_graph_is_pruned_first(agree):
    async def program(engine):
        tf = engine.tf
        with tf.device("/device:GPU:11"):
            tf.constant(1.0, name="elsewhere")
        value = tf.constant(3.0)
        refusal = await refused(engine, value, "elsewhere")
        async with engine.session(
            graph_options=engine.proto("GraphOptions", place_pruned_graph=True)
        ) as session:
            return refusal, await session.run(value)

    assert (await agree(program))[1] == 3.0


@pytest.mark.behaviour(125, 115)
async def test_a_kernel_label_that_was_not_registered_is_refused(agree):
    async def program(engine):
        tf = engine.tf
        graph = engine.proto(
            "GraphDef",
            """
            node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
            node { name: "n" op: "Neg" input: "x" attr { key: "T" value { type: DT_FLOAT } }
                   attr { key: "_kernel" value { s: "nosuch" } } }
            """,
        )
        tf.import_graph_def(graph, name="")
        async with engine.session(**as_built(engine)) as session:
            return await failure(
                lambda: session.run("n:0", {"x:0": 1.0}), "No OpKernel was registered to support Op 'Neg'"
            )

    assert (await agree(program)).classes[0] == "InvalidArgumentError"
