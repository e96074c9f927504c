"""Close and reset of sessions, and tensors kept in them, in both engines.

Never reset during a step: TensorFlow may crash then.
"""

import numpy as np
import pytest

from tests.interop.behaviours.both import failure, floats

pytestmark = pytest.mark.interop


@pytest.mark.behaviour(58, 59)
async def test_a_closed_session_runs_nothing_and_may_be_closed_again(agree):
    async def program(engine):
        tf = engine.tf
        a = tf.constant(1.0)
        async with engine.session() as session:
            value = await session.run(a)
            await session.close()
            await session.close()
            return (
                value,
                await failure(lambda: session.run(a), "closed"),
                await failure(session.list_devices, "closed"),
            )

    assert (await agree(program))[0] == 1.0


@pytest.mark.behaviour(58)
async def test_a_session_closed_before_its_first_run_stays_closed(agree):
    async def program(engine):
        a = engine.tf.constant(1.0)
        async with engine.session() as session:
            await session.close()
            return await failure(lambda: session.run(a), "closed")

    await agree(program)


@pytest.mark.behaviour(60)
async def test_a_reset_closes_the_live_sessions(agree):
    async def program(engine):
        tf = engine.tf
        variable = tf.Variable(1.0, use_resource=True)
        async with engine.session() as one, engine.session() as two:
            await one.run(variable.initializer)
            await two.run(variable.initializer)
            await engine.reset()
            return [
                await failure(lambda: one.run(variable), "closed"),
                await failure(lambda: two.run(variable), "closed"),
            ]

    for error in await agree(program):
        assert "CancelledError" in error.classes


@pytest.mark.behaviour(60)
async def test_sessions_made_after_a_reset_start_anew(agree):
    async def program(engine):
        tf = engine.tf
        variable = tf.Variable(1.0, use_resource=True)
        async with engine.session() as old:
            await old.run(variable.initializer)
            await engine.reset(["some container"])
            async with engine.session() as new:
                unset = await failure(lambda: new.run(variable.read_value()))
                await new.run(variable.initializer)
                return unset, await new.run(variable)

    assert (await agree(program))[1] == 1.0


@pytest.mark.behaviour(62)
async def test_a_tensor_stays_in_the_session_and_is_read_by_its_handle(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, [2])
        kept = tf.get_session_handle(x * 2.0)
        async with engine.session() as session:
            handle = await session.run(kept, {x: floats([1, 2])})
            holder, tensor = tf.get_session_tensor(handle.handle, tf.float32)
            used = tensor + 1.0
            return [await session.run(used, {holder: given}) for given in (handle.handle, handle.handle)]

    np.testing.assert_array_equal(await agree(program), [[3, 5], [3, 5]])


@pytest.mark.behaviour(62)
async def test_a_handle_is_fed_where_the_tensor_is_wanted(agree):
    async def program(engine):
        tf = engine.tf
        x, y = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.float32, [2])
        kept, total = tf.get_session_handle(x * 2.0), y + 1.0
        async with engine.session() as session:
            handle = await session.run(kept, {x: floats([1, 2])})
            return await session.run(total, {y: handle}), await session.run(total, {y: floats([0, 0])})

    np.testing.assert_array_equal(await agree(program), [[3, 5], [1, 1]])


@pytest.mark.behaviour(62)
async def test_a_deleted_tensor_is_gone(agree):
    async def program(engine):
        tf = engine.tf
        kept = tf.get_session_handle(tf.constant(3.0))
        async with engine.session() as session:
            handle = (await session.run(kept)).get_raw_handle()
            read_holder, tensor = tf.get_session_tensor(handle, tf.float32)
            holder, deleter = tf.delete_session_tensor(handle)
            value = await session.run(tensor, {read_holder: handle})
            await session.run(deleter, {holder: handle})
            return [
                value,
                await failure(lambda: session.run(tensor, {read_holder: handle})),
                await failure(lambda: session.run(deleter, {holder: handle})),
            ]

    assert (await agree(program))[0] == 3.0
