"""Variables under concurrent steps: no lost or torn updates, and reads are snapshots, on every tier."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from aioexec.errors import FailedPreconditionError, InvalidArgumentError
from aioexec.graph.kernels.kernel import Role
from tests.tiers import TIERS, Ops, Tier, constant, feed, graph, op, read, reference, resource, session_on


async def test_concurrent_additions_to_a_resource_all_count(tier: Tier):
    with graph() as g:
        v = resource([8])
        init = op("AssignVariableOp", v, np.zeros(8, np.float32))
        add = op("AssignAddVariableOp", v, np.ones(8, np.float32))
        value = read(v)

    async with tier.session(g) as session:
        await session.run(init)
        await asyncio.gather(*(session.run(add) for _ in range(200)))

        np.testing.assert_array_equal(await session.run(value), np.full(8, 200))


async def test_concurrent_additions_to_a_reference_all_count(tier: Tier):
    with graph() as g:
        v = reference([8])
        init = op("Assign", v, np.zeros(8, np.float32))
        add = op("AssignAdd", v, np.ones(8, np.float32), use_locking=True)

    async with tier.session(g) as session:
        await session.run(init)
        await asyncio.gather(*(session.run(add.op) for _ in range(200)))

        np.testing.assert_array_equal(await session.run(v), np.full(8, 200))


async def test_additions_count_whichever_tiers_they_run_on_at_once():
    """Signatures of one session run on different tiers, and change tiers while additions are under way."""
    with graph() as g:
        v = resource([64])
        init = op("AssignVariableOp", v, np.zeros(64, np.float32))
        adds = [op("AssignAddVariableOp", v, np.full(64, amount, np.float32)) for amount in (1, 2, 3)]
        value = read(v)
    inline, worker = Tier("inline"), Tier("worker")

    async with session_on(g, "background") as session:
        await session.run(init)
        for _ in range(20):
            with inline.chosen():
                await asyncio.gather(*(session.run(adds[0]) for _ in range(3)))
            with worker.chosen():
                await asyncio.gather(*(session.run(add) for add in adds for _ in range(3)))

        np.testing.assert_array_equal(await session.run(value), np.full(64, 20 * (6 * 1 + 3 * 2 + 3 * 3)))


async def test_a_scalar_variable_counts(tier: Tier):
    with graph() as g:
        v, w = resource([], "int64"), reference([], "int64")
        init = [op("AssignVariableOp", v, np.int64(5)), op("Assign", w, np.int64(7)).op]
        add = [op("AssignAddVariableOp", v, np.int64(1)), op("AssignAdd", w, np.int64(1))]
        value = read(v, "int64")

    async with tier.session(g) as session:
        await session.run(init)
        result = await session.run(add)

        assert result[0] is None
        assert result[1] == 8
        assert (await session.run(value)).shape == ()
        assert await session.run(value) == 6


async def test_a_read_before_an_assignment_keeps_the_old_value_after_it(tier: Tier):
    with graph() as g:
        v = resource([4])
        init = op("AssignVariableOp", v, np.arange(4, dtype=np.float32))
        before = read(v)
        with g.control_dependencies([before]):
            assign = op("AssignVariableOp", v, np.full(4, 9, np.float32))
        with g.control_dependencies([assign]):
            used_after = op("Add", before, constant(0.0))
            after = read(v)

    async with tier.session(g) as session:
        for _ in range(3):
            await session.run(init)
            old, new = await session.run([used_after, after])

            np.testing.assert_array_equal(old, np.arange(4))
            np.testing.assert_array_equal(new, np.full(4, 9))


async def test_a_read_between_two_writes_sees_the_first(tier: Tier):
    with graph() as g:
        v = resource([4])
        x = feed([4])
        init = op("AssignVariableOp", v, np.zeros(4, np.float32))
        first = op("AssignAddVariableOp", v, x)
        with g.control_dependencies([first]):
            between = read(v)
        with g.control_dependencies([between]):
            second = op("AssignAddVariableOp", v, op("Mul", between, constant(10.0)))
        with g.control_dependencies([second]):
            after, still = read(v), op("Neg", between)

    async with tier.session(g) as session:
        await session.run(init)
        for _ in range(2):
            middle, end, kept = await session.run([between, after, still], {x: np.ones(4, np.float32)})

            np.testing.assert_array_equal(end, 11 * middle)
            np.testing.assert_array_equal(kept, -middle)
        np.testing.assert_array_equal(end, np.full(4, 132))  # 0 -> 1 -> 11 -> 12 -> 132


async def test_an_unread_variable_written_twice_in_a_step_has_both_writes(tier: Tier):
    with graph() as g:
        v = resource([4])
        init = op("AssignVariableOp", v, np.zeros(4, np.float32))
        first = op("AssignAddVariableOp", v, constant([1.0] * 4))
        with g.control_dependencies([first]):
            second = op("AssignSubVariableOp", v, constant([5.0] * 4))
        value = read(v)

    async with tier.session(g) as session:
        await session.run(init)
        await session.run(second)
        await session.run(second)

        np.testing.assert_array_equal(await session.run(value), np.full(4, -8))


async def test_references_chained_through_assignments_are_read_when_their_consumer_runs(tier: Tier):
    """Assign, then under its control dependency v + 0: the new value, as in TensorFlow."""
    with graph() as g:
        v = reference([2])
        init = op("Assign", v, constant([1.0, 2.0]))
        plus = op("AssignAdd", v, constant([10.0, 10.0]))
        with g.control_dependencies([plus]):
            after = op("Add", v, constant(0.0))
        through = op("AssignAdd", op("Assign", v, constant([3.0, 3.0])), constant([1.0, 1.0]))
        snapshot = op("Identity", v)
        with g.control_dependencies([snapshot]):
            later = op("AssignAdd", v, constant([100.0, 100.0]))
        with g.control_dependencies([later]):
            kept = op("Mul", snapshot, constant(1.0))

    async with tier.session(g) as session:
        await session.run(init.op)
        np.testing.assert_array_equal(await session.run(after), [11, 12])
        np.testing.assert_array_equal(await session.run(through), [4, 4])
        np.testing.assert_array_equal(await session.run(v), [4, 4])
        np.testing.assert_array_equal(await session.run(kept), [4, 4])
        np.testing.assert_array_equal(await session.run(v), [104, 104])


async def test_who_waits_for_a_write_reads_it_though_its_snapshot_did_not_wait(tier: Tier):
    """As in TensorFlow, whose Identity has the variable's memory; a read not ordered before the write sees it."""
    with graph() as g:
        v = reference([2])
        init = op("Assign", v, constant([1.0, 2.0]))
        snapshot = op("Identity", op("Identity", v))
        plus = op("AssignAdd", v, constant([10.0, 10.0]))
        with g.control_dependencies([plus]):
            after = op("Mul", snapshot, constant(2.0))
            again = op("AssignAdd", v, snapshot)
        by_result = op("Sub", plus, snapshot)

    async with tier.session(g) as session:
        for _ in range(3):
            await session.run(init.op)
            np.testing.assert_array_equal(await session.run(after), [22, 24])
            np.testing.assert_array_equal(await session.run(again), [42, 44])
            np.testing.assert_array_equal(await session.run(by_result), [0, 0])
            np.testing.assert_array_equal(await session.run(v), [52, 54])


async def test_a_fetched_reference_is_read_at_the_end_of_the_step(tier: Tier):
    with graph() as g:
        v = reference([])
        init = op("Assign", v, constant(1.0))
        add = op("AssignAdd", v, constant(1.0))

    async with tier.session(g) as session:
        await session.run(init.op)

        assert await session.run([v, add]) == [2.0, 2.0]


async def test_a_reference_is_fed_and_fetched(tier: Tier):
    with graph() as g:
        v = reference([])
        init = op("Assign", v, constant(1.0))
        total = op("Add", v, constant(1.0))

    async with tier.session(g) as session:
        await session.run(init.op)

        assert await session.run([v, total], {v: 7.0}) == [7.0, 8.0]
        assert await session.run(v) == 1.0


async def test_an_assignment_read_through_its_output_after_a_break(tier: Tier, ops: Ops):
    """Behind a node without a native form that got the variable itself, native rows see what it left there."""
    ops.add(
        "TestTimesTen(ref:Ref(T)) -> (out:Ref(T)) [T:type]",
        lambda variable: (variable.update(lambda present: present * 10), variable)[1],
        role=Role.UPDATE,
        writes=(0,),
        reads=(0,),
    )
    with graph() as g:
        v = reference([2])
        init = op("Assign", v, constant([1.0, 2.0]))
        added = op("AssignAdd", v, constant([1.0, 1.0]))
        times = op("TestTimesTen", added)
        result = op("Add", times, constant(0.5))
        again = op("AssignAdd", times, constant([1.0, 1.0]))
        with g.control_dependencies([result]):
            final = op("Identity", op("Identity", again))

    async with tier.session(g) as session:
        await session.run(init.op)
        np.testing.assert_array_equal(await session.run(result), [20.5, 30.5])
        np.testing.assert_array_equal(await session.run(final), [211, 311])
        np.testing.assert_array_equal(await session.run(v), [211, 311])


async def test_asking_whether_a_variable_is_initialised_does_not_need_its_content(tier: Tier):
    with graph() as g:
        v, w = resource([2]), reference([2])
        asked = [op("VarIsInitializedOp", v), op("IsVariableInitialized", w)]
        with g.control_dependencies(asked):
            assign = [op("AssignVariableOp", v, constant([1.0, 2.0])), op("Assign", w, constant([3.0, 4.0]))]
        with g.control_dependencies([assign[0]]):
            value = read(v)

    async with tier.session(g) as session:
        first = await session.run([asked, value, assign[1]])
        second = await session.run([asked, value, assign[1]])

    assert [bool(b) for b in first[0]] == [False, False]
    assert [bool(b) for b in second[0]] == [True, True]
    np.testing.assert_array_equal(first[1], [1, 2])
    np.testing.assert_array_equal(first[2], [3, 4])


async def test_reading_a_variable_before_it_is_initialised_names_the_node(tier: Tier):
    with graph() as g:
        v = resource([2], name="weights")
        value = op("Mul", read(v), constant(2.0))
        add = op("AssignAddVariableOp", v, constant([1.0, 1.0]))
        init = op("AssignVariableOp", v, constant([1.0, 2.0]))

    async with tier.session(g) as session:
        with pytest.raises(FailedPreconditionError, match=r"ReadVariableOp.*weights"):
            await session.run(value)
        with pytest.raises(FailedPreconditionError, match=r"AssignAddVariableOp.*weights"):
            await session.run(add)
        await session.run(init)
        np.testing.assert_array_equal(await session.run(value), [2, 4])


async def test_a_variable_assigned_another_shape_without_validation_is_read_in_that_shape(tier: Tier):
    """Programs are laid out for the declared shape; they must not touch memory of another one."""
    with graph() as g:
        v = reference([1000])
        small = op("Assign", v, constant([1.0, 2.0]), validate_shape=False)
        normal = op("Assign", v, feed([1000], name="x"))
        doubled = op("Mul", v, constant(2.0))
        change = op("AssignAdd", v, feed([1000], name="y"))
    ones = np.ones(1000, np.float32)

    async with tier.session(g) as session:
        await session.run(normal, {"x:0": ones})
        np.testing.assert_array_equal(await session.run(doubled), 2 * ones)
        await session.run(change, {"y:0": ones})
        np.testing.assert_array_equal(await session.run(small), [1, 2])
        np.testing.assert_array_equal(await session.run(doubled), [2, 4])
        with pytest.raises(InvalidArgumentError):
            await session.run(change, {"y:0": ones})
        np.testing.assert_array_equal(await session.run(v), [1, 2])
        await session.run(normal, {"x:0": ones})
        np.testing.assert_array_equal(await session.run(doubled), 2 * ones)


async def test_a_shape_changed_in_the_middle_of_a_step_is_seen_by_what_follows(tier: Tier):
    with graph() as g:
        v = reference([3])
        init = op("Assign", v, constant([1.0, 2.0, 3.0]))
        small = op("Assign", v, constant([5.0]), validate_shape=False)
        with g.control_dependencies([small]):
            after = op("Mul", v, constant(2.0))

    async with tier.session(g) as session:
        await session.run(init.op)
        np.testing.assert_array_equal(await session.run(after), [10])
        await session.run(init.op)
        np.testing.assert_array_equal(await session.run(after), [10])


async def test_an_update_in_place_does_not_reach_what_was_fetched(tier: Tier):
    with graph() as g:
        v = resource([16])
        init = op("AssignVariableOp", v, np.zeros(16, np.float32))
        add = op("AssignAddVariableOp", v, np.ones(16, np.float32))
        value = read(v)

    async with tier.session(g) as session:
        await session.run(init)
        fetched = []
        for count in range(6):
            fetched.append(await session.run(value))
            fetched[-1][0] = -1  # and what is done to it does not reach the variable
            await session.run(add)
            assert (await session.run(value))[0] == count + 1
        for count, array in enumerate(fetched):
            np.testing.assert_array_equal(array, [-1] + [count] * 15)


@pytest.mark.parametrize("other", TIERS)
async def test_readers_beside_writers_see_whole_values_only(tier: Tier, other: str):
    """Every element of a variable is equal at any time a step can see."""
    with graph() as g:
        v = resource([20_000])
        x = feed([20_000])
        init = op("AssignVariableOp", v, np.zeros(20_000, np.float32))
        write = op("AssignVariableOp", v, x)
        add = op("AssignAddVariableOp", v, np.ones(20_000, np.float32))
        twice = op("Add", read(v), read(v))

    async with tier.session(g) as session:
        await session.run(init)

        async def reader() -> None:
            for _ in range(10):
                value = await session.run(twice)
                assert (value == value[0]).all()

        async def writer(k: int) -> None:
            for i in range(10):
                await session.run(write, {x: np.full(20_000, 100 * k + i, np.float32)})
                await session.run(add)

        with Tier(other).chosen():
            await asyncio.gather(*(reader() for _ in range(3)), *(writer(k) for k in range(3)))
