"""Programs with breaks, strings, and shapes that follow from content: the same values on every tier."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec import dtypes
from aioexec.errors import InternalError, InvalidArgumentError, ResourceExhaustedError
from aioexec.execution.programs.program import INLINE_LIMIT_NS
from aioexec.graph.kernels.kernel import Native
from tests.tiers import (
    Ops,
    Tier,
    constant,
    executors,
    feed,
    graph,
    op,
    programs,
    read,
    reference,
    resource,
    run_nowait,
    session_on,
)


async def test_an_op_without_a_native_form_between_native_ones_breaks_the_program(tier: Tier, ops: Ops):
    ops.broken("TestBreak", lambda x: x * 2)
    with graph() as g:
        x = feed([None])
        y = op("Add", op("TestBreak", op("Mul", x, x)), x)
        z = op("Add", op("TestBreak", y), op("TestBreak", op("Neg", y)))

    async with tier.session(g) as session:
        for n in (1, 5, 0, 5, 1000):
            array = np.arange(n, dtype=np.float32)
            first, second = await session.run([y, z], {x: array})
            np.testing.assert_array_equal(first, 2 * array**2 + array)
            np.testing.assert_array_equal(second, np.zeros(n))
        for program in programs(session):
            assert len(program.variant.breaks) == 3
            assert program.variant.native == 4


async def test_a_break_may_return_its_input_a_view_or_something_it_keeps(tier: Tier, ops: Ops):
    """Programs reuse memory, kernels may keep theirs: neither may see the other's changes."""
    kept = np.full(4, 7, np.float32)
    ops.broken("TestSame", lambda x: x)
    ops.broken("TestReversed", lambda x: x[::-1])
    ops.broken("TestKept", lambda x: kept)
    with graph() as g:
        x = feed([4])
        doubled = op("Add", x, x)
        results = [op(name, doubled) for name in ("TestSame", "TestReversed", "TestKept")]
        after = [op("Mul", result, constant(3.0)) for result in results]
        fed = op("TestSame", x)
    array = np.arange(4, dtype=np.float32)

    async with tier.session(g) as session:
        for _ in range(3):
            values = await session.run([results, after, fed], {x: array})
            for value, expected in zip(values[0], ([0, 2, 4, 6], [6, 4, 2, 0], [7] * 4), strict=True):
                np.testing.assert_array_equal(value, expected)
                value.fill(-1)
            for value, expected in zip(values[1], ([0, 6, 12, 18], [18, 12, 6, 0], [21] * 4), strict=True):
                np.testing.assert_array_equal(value, expected)
            assert not np.shares_memory(values[2], array)
            values[2].fill(-1)
    np.testing.assert_array_equal(array, [0, 1, 2, 3])
    np.testing.assert_array_equal(kept, [7] * 4)


async def test_what_a_break_returned_in_one_run_is_not_changed_by_the_next(tier: Tier, ops: Ops):
    """Small outputs are copied to memory that stays with the frame."""
    ops.broken("TestKept", lambda x: x * 2)
    with graph() as g:
        x = feed([3])
        kept = op("TestKept", op("Neg", x))
        y = op("Reshape", kept, constant([3, 1], "int32"))

    async with tier.session(g) as session:
        results = [await session.run([kept, y], {x: np.full(3, k)}) for k in range(6)]

    for k, (first, second) in enumerate(results):
        np.testing.assert_array_equal(first, np.full(3, -2 * k))
        np.testing.assert_array_equal(second, np.full((3, 1), -2 * k))


async def test_an_array_keeps_what_a_break_returned_in_each_iteration(tier: Tier):
    """The next iteration overwrites the memory of small outputs."""
    with graph() as g:
        x = feed([3, 4])
        rows = ax.TensorArray(dtypes.float32, 3, dynamic_size=True, infer_shape=False).unstack(x)
        parts = ax.TensorArray(dtypes.float32, 3)

        def body(t: Any, written: ax.TensorArray) -> Any:
            return t + 1, written.write(t, ax.slice(rows.read(t), [1], [2]))

        y = ax.while_loop(lambda t, _: t < 3, body, [0, parts])[1].stack()
    array = np.arange(12, dtype=np.float32).reshape(3, 4)

    async with tier.session(g) as session:
        for _ in range(3):
            np.testing.assert_array_equal(await session.run(y, {x: array}), array[:, 1:3])


async def test_a_break_that_breaks_its_promise_of_a_shape_is_an_internal_error(ops: Ops):
    ops.add("TestLiar(x:T) -> (y:T) [T:type] {stateful}", lambda x: x[:1])
    with graph() as g:
        x = feed([4])
        doubled = op("Mul", op("TestLiar", x, name="liar"), constant(2.0))

    async with session_on(g, "eager") as session:
        with pytest.raises(InternalError, match=r"TestLiar 'liar'.*expected float32"):
            await session.run(doubled, {x: np.zeros(4, np.float32)})


async def test_strings_pass_through_programs(tier: Tier, ops: Ops):
    ops.add("TestLengths(x:string) -> (y:int32)", lambda x: np.vectorize(len, otypes=[np.int32])(x))
    ops.add(
        "TestJoin(x:string, y:string) -> (z:string)",
        lambda x, y: np.array([a + b for a, b in zip(x.flat, y.flat, strict=True)], object).reshape(x.shape),
    )
    with graph() as g:
        x, n = feed([None], "string"), feed([None], "int32")
        joined = op("TestJoin", x, op("Identity", x))
        lengths = op("Add", op("TestLengths", op("Reshape", joined, np.array([-1], np.int32))), n)
        fetches = [joined, lengths, op("Identity", x), op("Shape", joined)]
    words = np.array([b"x", b"yz"], object)

    async with tier.session(g) as session:
        for _ in range(3):
            result = await session.run(fetches, {x: words, n: [10, 20]})
            assert result[0].tolist() == [b"xx", b"yzyz"]
            assert result[1].tolist() == [12, 24]
            assert result[2].tolist() == [b"x", b"yz"]
            assert result[2] is not words
            assert result[3].tolist() == [2]
    assert words.tolist() == [b"x", b"yz"]


async def test_string_constants_and_variables(tier: Tier, ops: Ops):
    ops.add("TestUpper(x:string) -> (y:string)", lambda x: np.array(x.item().upper(), object))
    with graph() as g:
        text = op("Const", value=np.array(b"abc", object), dtype=dtypes.string)
        v, w = resource([], "string"), reference([], "string")
        init = [op("AssignVariableOp", v, text), op("Assign", w, text).op]
        upper = op("TestUpper", text)
        change = op("AssignVariableOp", v, op("TestUpper", read(v, "string")))
        value, snapshot = read(v, "string"), op("Identity", w)

    async with tier.session(g) as session:
        await session.run(init)
        assert await session.run(upper) == b"ABC"
        await session.run(change)
        result = await session.run([value, snapshot, w, text])
        assert list(result) == [b"ABC", b"abc", b"abc", b"abc"]


@pytest.mark.parametrize("name", ["complex128", "complex64", "float16", "bfloat16", "int8", "uint16"])
async def test_elements_of_every_width_pass_through_programs(tier: Tier, ops: Ops, name: str):
    ops.broken("TestBreak", lambda x: x)
    with graph() as g:
        x = feed([None, 3], name)
        fetches = [op("Identity", x), op("Reshape", x, np.array([-1], np.int32)), op("TestBreak", x)]
    array = np.arange(6).reshape(2, 3).astype(dtypes.as_dtype(name).numpy)

    async with tier.session(g) as session:
        for _ in range(2):
            same, flat, broken = await session.run(fetches, {x: array})
            np.testing.assert_array_equal(same, array)
            np.testing.assert_array_equal(flat, array.reshape(-1))
            np.testing.assert_array_equal(broken, array)


async def test_a_shape_that_is_fed_is_part_of_the_program_key(tier: Tier):
    with graph() as g:
        x, shape, dims = feed(None), feed([None], "int32"), feed([2], "int32")
        reshaped = op("Reshape", x, shape)
        filled = op("Add", op("Fill", dims, constant(2.5)), constant(1.0))
    array = np.arange(12, dtype=np.float32)

    async with tier.session(g) as session:
        for target in ([3, 4], [4, 3], [12], [2, 3, 2], [-1, 6], [3, 4]):
            np.testing.assert_array_equal(
                await session.run(reshaped, {x: array, shape: target}), array.reshape(target)
            )
        for target in ([2, 3], [3, 2], [0, 5], [1, 1], [2, 3]):
            np.testing.assert_array_equal(await session.run(filled, {dims: target}), np.full(target, 3.5))
        for wrong in ([5], [5, -1]):
            with pytest.raises(InvalidArgumentError, match="Reshape"):
                await session.run(reshaped, {x: array, shape: wrong})
        with pytest.raises(InvalidArgumentError):
            await session.run(filled, {dims: [-1, 2]})


async def test_a_shape_computed_from_feeds_and_shapes(tier: Tier):
    """Typical of TensorFlow's gradient graphs."""
    with graph() as g:
        x, count = feed([None, None]), feed([], "int32")
        rows = op("Shape", x)
        wide = op("Tile", x, op("Pack", [constant(1, "int32"), count], N=2, axis=0))
        again = op("Reshape", wide, op("Mul", rows, op("Pack", [count, constant(1, "int32")], N=2, axis=0)))
        total = op("Sum", again, op("Range", constant(0, "int32"), op("Rank", again), constant(1, "int32")))

    async with tier.session(g) as session:
        for shape, times in [((2, 3), 2), ((1, 4), 3), ((2, 3), 1), ((0, 3), 2), ((2, 3), 2)]:
            array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
            result, summed = await session.run([again, total], {x: array, count: times})
            np.testing.assert_array_equal(
                result, np.tile(array, (1, times)).reshape(shape[0] * times, shape[1])
            )
            assert summed == times * array.sum()


async def test_a_shape_operand_too_large_for_a_key_is_left_to_numpy(tier: Tier):
    """A reduction of a large feed decides a shape: its content is no key."""
    with graph() as g:
        x, y = feed([None], "int32"), feed(None)
        result = op("Reshape", y, op("Reshape", op("Max", x, constant([0], "int32")), constant([1], "int32")))

    async with tier.session(g) as session:
        for size in (4, 6):
            values = np.arange(size + 1, dtype=np.int32).repeat(10)
            assert (await session.run(result, {x: values, y: np.ones((2, size // 2))})).shape == (size,)
        assert programs(session) == []


async def test_a_shape_that_is_a_variables_content(tier: Tier):
    with graph() as g:
        v = resource([2], "int32")
        assign = op("AssignVariableOp", v, feed([2], "int32", name="new"))
        x = feed([None])
        reshaped = op("Add", op("Reshape", x, read(v, "int32")), constant(1.0))
    array = np.arange(6, dtype=np.float32)

    async with tier.session(g) as session:
        for shape in ([2, 3], [3, 2], [6, 1]):
            await session.run(assign, {"new:0": shape})
            for _ in range(2):
                np.testing.assert_array_equal(
                    await session.run(reshaped, {x: array}), array.reshape(shape) + 1
                )


async def test_shapes_that_depend_on_data_and_what_follows_them(tier: Tier, ops: Ops):
    ops.add(
        "TestPositive(x:T) -> (y:T) [T:type]",
        lambda x: x[x > 0],
        shape=lambda context: [(None,)],
        dynamic_shape=True,
    )
    with graph() as g:
        x, v = feed([None]), resource([])
        init = op("AssignVariableOp", v, constant(0.0))
        found = op("TestPositive", op("Mul", x, constant(2.0)))
        scaled = op("Mul", found, constant(10.0))
        twice = op("TestPositive", op("Sub", scaled, constant(50.0)))
        total = op("Sum", twice, constant([0], "int32"))
        count = op("AssignAddVariableOp", v, total)
        fetches = [found, scaled, op("Add", twice, constant(1.0)), op("Shape", twice), op("Neg", x), count]
        value = read(v)

    async with tier.session(g) as session:
        await session.run(init)
        expected_total = 0.0
        for array in (
            np.array([1, -1, 3, 4], np.float32),
            np.zeros(3, np.float32),
            np.array([9], np.float32),
        ) * 2:
            result = await session.run(fetches, {x: array})
            positive = 2 * array[array > 0]
            large = (10 * positive - 50)[10 * positive > 50]
            expected_total += large.sum()
            np.testing.assert_array_equal(result[0], positive)
            np.testing.assert_array_equal(result[1], 10 * positive)
            np.testing.assert_array_equal(result[2], large + 1)
            np.testing.assert_array_equal(result[3], [len(large)])
            np.testing.assert_array_equal(result[4], -array)
        assert await session.run(value) == expected_total


async def test_a_reference_written_behind_a_data_dependent_shape_is_leased(tier: Tier, ops: Ops):
    """The second assignment belongs to another item than the first, and gets the reference from its output."""
    ops.add(
        "TestPositive(x:T) -> (y:T) [T:type]",
        lambda x: x[x > 0],
        shape=lambda context: [(None,)],
        dynamic_shape=True,
    )
    with graph() as g:
        x, v = feed([None]), reference([])
        init = op("Assign", v, constant(0.0))
        first = op("AssignAdd", v, constant(1.0))
        found = op("TestPositive", x)
        second = op("AssignAdd", first, op("Sum", found, constant([0], "int32")))

    async with tier.session(g) as session:
        await session.run(init.op)
        await asyncio.gather(*(session.run(second.op, {x: [1.0, 2.0, -5.0]}) for _ in range(50)))
        assert await session.run(v) == 200
        executor = next(each for each in executors(session) if len(each.plan.client.items) == 2)
        assert [len(item.writes) for item in executor.plan.client.items] == [1, 1]


# Background


async def test_in_the_background_no_run_waits_for_the_compiler():
    with graph() as g:
        x = feed([None])
        y = op("Mul", op("Add", x, x), x)

    async with session_on(g, "background") as session:
        await session.run(y, {x: [1.0]})
        builder = held_builder(session)
        for n in range(2, 30):
            array = np.full(n % 3 + 1, n, np.float32)
            np.testing.assert_array_equal(await session.run(y, {x: array}), 2 * array * array)
        (executor,) = executors(session)
        assert programs(session) == []

        builder.set()
        await executor.wait_until_built()

        assert len(programs(session)) == 3
        for n in range(1, 4):
            array = np.full(n, 3, np.float32)
            native = run_nowait(executor, [array])
            assert isinstance(native, list)
            np.testing.assert_array_equal(native[0], 18 * np.ones(n))


def held_builder(session: Any) -> threading.Event:
    """Keep the builder busy until the event is set."""
    gate = threading.Event()
    session._runtime.engine.builder.submit(gate.wait)
    return gate


async def test_in_the_background_only_what_is_seen_twice_is_built():
    with graph() as g:
        x = feed([None])
        y = op("Mul", x, x)

    async with session_on(g, "background") as session:
        for n in range(1, 6):
            await session.run(y, {x: np.ones(n, np.float32)})
        await executors(session)[0].wait_until_built()
        assert programs(session) == []
        await session.run(y, {x: np.ones(3, np.float32)})
        await executors(session)[0].wait_until_built()
        assert [program.variant.outputs[0][1].shape for program in programs(session)] == [(3,)]


async def test_closing_does_not_wait_for_the_compiler():
    with graph() as g:
        x, one = feed([2]), constant(1.0)
        y = op("Mul", x, x)
    session = session_on(g, "eager")
    await session.run(one)
    gate = held_builder(session)
    waiting = asyncio.create_task(session.run(y, {x: [1.0, 2.0]}))
    while not any(runner.cache._building for executor in executors(session) for runner in executor.runners):
        await asyncio.sleep(0)

    closing = asyncio.create_task(session.close(grace=None))
    await asyncio.sleep(0)
    gate.set()

    np.testing.assert_array_equal(await waiting, [1, 4])
    await closing


# Kernels that do not compile


async def test_a_kernel_that_does_not_compile_is_left_to_numpy(ops: Ops, caplog: pytest.LogCaptureFixture):
    ops.native("TestUncompilable", lambda x: x + 1, "x: no_such_function(x)")
    with graph() as g:
        x = feed([3])
        y = op("Mul", op("TestUncompilable", op("Add", x, x)), constant(2.0))

    async with session_on(g, "eager") as session:
        for _ in range(2):
            np.testing.assert_array_equal(await session.run(y, {x: [0.0, 1.0, 2.0]}), [2, 6, 10])
        (program,) = programs(session)
        assert [row.reason for row in program.variant.breaks] == ["its kernel is not compiled"]


async def test_a_native_form_that_cannot_be_laid_out_is_left_to_numpy_and_told(
    ops: Ops, caplog: pytest.LogCaptureFixture, planner_crashes: list[str]
):
    def bind(*arguments: Any) -> Any:
        raise KeyError("a mistake of ours")

    ops.add("TestUnbindable(x:T) -> (y:T) [T:type]", lambda x: x + 1, native=Native(bind))
    with graph() as g:
        x = feed([3])
        y = op("TestUnbindable", x)

    async with session_on(g, "eager") as session:
        for _ in range(3):
            np.testing.assert_array_equal(await session.run(y, {x: [0.0, 1.0, 2.0]}), [1, 2, 3])
    assert caplog.text.count("NumPy computes instead") == 1
    assert "a mistake of ours" in caplog.text
    planner_crashes.clear()


async def test_a_step_that_no_memory_could_hold_is_refused(tier: Tier):
    with graph() as g:
        x, dims = feed([]), feed([2], "int64")
        total = op("Sum", op("Fill", dims, x), constant([0, 1], "int32"))
        same = op("Neg", x)

    async with tier.session(g) as session:
        for _ in range(2):
            with pytest.raises(ResourceExhaustedError):
                await session.run(total, {x: 1.0, dims: [10**9, 10**6]})
        assert await session.run(same, {x: 1.0}) == -1
        assert await session.run(total, {x: 1.0, dims: [3, 4]}) == 12


async def test_a_program_goes_to_workers_when_it_is_slow_and_comes_back_when_it_is_not():
    with graph() as g:
        x = feed([4])
        y = op("Neg", x)

    async with session_on(g, "eager") as session:
        await session.run(y, {x: np.zeros(4, np.float32)})
        (program,) = programs(session)
        assert program.inline

        program.record_duration(1000 * INLINE_LIMIT_NS)
        assert program.inline  # one slow run does not move it, however slow
        for _ in range(100):
            program.record_duration(10 * INLINE_LIMIT_NS)
        assert not program.inline
        program.record_duration(INLINE_LIMIT_NS // 2)
        assert program.inline
        for _ in range(1000):  # the machine may be busy with other work
            program.record_duration(2 * INLINE_LIMIT_NS)
            program.record_duration(INLINE_LIMIT_NS)
        assert program.inline


async def test_a_large_variable_that_is_only_read_is_handed_on_as_it_is_and_stays_what_it_was(tier: Tier):
    held, written = asyncio.Event(), asyncio.Event()
    size = 1 << 19

    async def hold(content: Any) -> Any:
        held.set()
        await written.wait()
        return content.sum(dtype=np.float64)

    with graph() as g:
        handle, start = resource([size]), feed([size])
        initialize = op("AssignVariableOp", handle, start)
        add = op("AssignAddVariableOp", handle, np.ones(size, np.float32))
        total = ax.py_func(hold, [read(handle)], ax.float64)
        content = read(handle)

    with tier.chosen():
        async with tier.session(g) as session:
            await session.run(initialize, {start: np.ones(size, np.float32)})
            for round in (1, 2):  # compiled or not, by the second time all is decided
                held.clear()
                written.clear()
                holding = asyncio.create_task(session.run(total))
                await held.wait()
                await session.run(add)
                written.set()

                assert await holding == size * round
                fetched = await session.run(content)
                np.testing.assert_array_equal(fetched, np.full(size, round + 1, np.float32))
                fetched[:] = 0  # the caller's own
                np.testing.assert_array_equal(await session.run(content), np.full(size, round + 1))
            assert not any(program.variant.output_bytes for program in programs(session))
