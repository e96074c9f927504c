"""Feeds of every layout and kind, also changed or resized: NumPy's values or a specific error, on every tier."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from aioexec import dtypes
from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError
from aioexec.execution import item_runner
from aioexec.execution.program_cache import MOST_PROGRAMS
from tests.tiers import Ops, Tier, constant, executors, feed, graph, op, read, resource, session_on

BASE = np.arange(24, dtype=np.float32).reshape(4, 6) - 11


def misaligned(array: np.ndarray) -> np.ndarray:
    memory = np.empty(array.nbytes + 1, np.uint8)
    moved = memory[1:].view(array.dtype).reshape(array.shape)
    moved[...] = array
    assert not moved.flags.aligned
    return moved


def read_only(array: np.ndarray) -> np.ndarray:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


LAYOUTS: dict[str, Callable[[], Any]] = {
    "contiguous": lambda: BASE,
    "Fortran": lambda: np.asfortranarray(BASE),
    "every other": lambda: np.repeat(np.repeat(BASE, 2, 0), 2, 1)[::2, ::2],
    "negative strides": lambda: BASE[::-1, ::-1].copy()[::-1, ::-1],
    "one negative stride": lambda: BASE[:, ::-1],
    "broadcast rows": lambda: np.broadcast_to(BASE[1], (4, 6)),
    "broadcast columns": lambda: np.broadcast_to(BASE[:, 1:2], (4, 6)),
    "a broadcast number": lambda: np.broadcast_to(np.float32(3), (4, 6)),
    "overlapping windows": lambda: as_strided(BASE.reshape(-1), (4, 6), (4, 8)),
    "read-only": lambda: read_only(BASE),
    "misaligned": lambda: misaligned(BASE),
    "misaligned, read-only": lambda: read_only(misaligned(BASE)),
    "byte-swapped": lambda: BASE.astype(">f4"),
    "byte-swapped, strided": lambda: BASE.astype(">f4")[::-1],
    "a matrix": lambda: BASE.view(np.matrix),
    "a memory view": lambda: memoryview(BASE),  # type: ignore[arg-type]
    "rows of a list": lambda: BASE.tolist(),
    "arrays in a list": lambda: list(BASE),
    "of bytes": lambda: np.frombuffer(BASE.tobytes(), np.float32).reshape(4, 6),
    "of integers": lambda: BASE.astype(np.int16),
    "wider than the tensor": lambda: BASE.astype(np.int8),
    "of a field": lambda: np.rec.fromarrays([BASE, BASE])["f1"],
    "of another dtype object": lambda: BASE.astype(np.dtype(np.float32, metadata={"made": "here"})),
}


@pytest.fixture(params=[*LAYOUTS])
def layout(request: pytest.FixtureRequest) -> Any:
    return LAYOUTS[request.param]()


async def test_a_feed_of_any_layout_counts_by_its_elements(tier: Tier, layout: Any):
    with graph() as g:
        x, n = feed([None, None]), feed([4, None])
        fetches = [op("Mul", x, constant(2.0)), op("Sum", x, constant([0], "int32")), op("Neg", n)]
        fetches.append(op("MatMul", x, n, transpose_b=True))
        fetches.append(op("Transpose", n, constant([1, 0], "int32")))
    array = np.array(layout, np.float32)
    expected = [array * 2, array.sum(0), -array, array @ array.T, array.T]

    async with tier.session(g) as session:
        for _ in range(3):
            results = await session.run(fetches, {x: layout, n: layout})

            for result, wanted in zip(results, expected, strict=True):
                np.testing.assert_array_equal(result, wanted)
                assert type(result) is np.ndarray
    np.testing.assert_array_equal(np.array(layout, np.float32), array)


async def test_a_masked_array_is_fed_by_what_is_behind_its_mask(tier: Tier):
    """As NumPy's `asarray` has it, and TensorFlow: a tensor has no mask."""
    with graph() as g:
        x = feed([None, None])
        y = op("Neg", x)

    async with tier.session(g) as session:
        result = await session.run(y, {x: np.ma.masked_greater(BASE, 0)})

    np.testing.assert_array_equal(result, -BASE)
    assert type(result) is np.ndarray


async def test_a_file_in_memory_is_fed_without_being_changed(tier: Tier, tmp_path: Path):
    path = tmp_path / "array"
    path.write_bytes(BASE.tobytes())
    with graph() as g:
        x = feed([4, 6])
        y = op("Add", x, constant(1.0))

    async with tier.session(g) as session:
        for mode in ("r", "c", "r+"):
            mapped: Any = np.memmap(path, np.float32, mode, shape=(4, 6))
            np.testing.assert_array_equal(await session.run(y, {x: mapped}), BASE + 1)

    assert path.read_bytes() == BASE.tobytes()


@pytest.mark.parametrize(
    "wrong",
    [
        np.array([[1.0, None]], object),
        np.array([["1", "2"]]),
        np.array([[1 + 2j]]),
        np.array([["2020-01-01"]], "datetime64[D]"),
        np.zeros((1, 2), [("a", "f4")]),
        [[1.0], [1.0, 2.0]],
        [[object()]],
        {"a": 1},
        None,
    ],
    ids=["None", "texts", "complex", "dates", "records", "ragged", "objects", "a dict", "nothing"],
)
async def test_what_is_no_number_is_refused_with_the_name_of_the_feed(tier: Tier, wrong: Any):
    with graph() as g:
        x = feed([None, None], name="x")
        y = op("Neg", x)

    async with tier.session(g) as session:
        for _ in range(2):
            with pytest.raises((GraphTypeError, GraphValueError), match="Cannot feed 'x:0'"):
                await session.run(y, {x: wrong})
        np.testing.assert_array_equal(await session.run(y, {x: BASE}), -BASE)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3), (0, 0)], ids=str)
async def test_nothing_is_computed_of_nothing(tier: Tier, shape: tuple[int, ...]):
    with graph() as g:
        x = feed([None] * len(shape))
        axes = constant(list(range(len(shape))), "int32")
        fetches = [
            op("Mul", x, constant(2.0)),
            op("Sum", x, axes),
            op("Prod", x, axes),
            op("Reshape", x, constant([0], "int32")),
            op("ConcatV2", [x, x], constant(0, "int32")),
            op("Transpose", x, constant(list(range(len(shape)))[::-1], "int32")),
        ]
    array = np.zeros(shape, np.float32)
    expected: list[Any] = [
        array,
        np.float32(0),
        np.float32(1),
        array.reshape(0),
        np.concatenate([array, array]),
        array.T,
    ]

    async with tier.session(g) as session:
        for _ in range(3):
            for result, wanted in zip(await session.run(fetches, {x: array}), expected, strict=True):
                assert np.shape(result) == np.shape(wanted)
                np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize(("rows", "inner", "columns"), [(0, 3, 2), (2, 0, 3), (2, 3, 0), (0, 0, 0)])
async def test_a_product_over_nothing_is_zero(tier: Tier, rows: int, inner: int, columns: int):
    with graph() as g:
        a, b = feed([None, None]), feed([None, None])
        product = op("MatMul", a, b)

    async with tier.session(g) as session:
        for _ in range(2):
            feeds = {a: np.ones((rows, inner), np.float32), b: np.ones((inner, columns), np.float32)}
            np.testing.assert_array_equal(await session.run(product, feeds), np.zeros((rows, columns)))


async def test_arrays_without_dimensions_are_numbers(tier: Tier):
    with graph() as g:
        x, y = feed([]), feed(None)
        fetches = [op("Mul", x, y), op("Neg", y), op("Rank", y)]

    async with tier.session(g) as session:
        for seven in (
            7.0,
            np.float32(7),
            np.array(7, np.float32),
            BASE[3, 0:1].reshape(()),
            np.array(7, ">f4"),
        ):
            assert await session.run(fetches, {x: 2.0, y: seven}) == [14, -7, 0]
        with pytest.raises(GraphValueError, match=r"Cannot feed value of shape \(1,\)"):
            await session.run(fetches, {x: [2.0], y: 7.0})


# Shapes that change all the time


@pytest.mark.slow
@pytest.mark.parametrize("jit", ["background", "eager"])
async def test_shapes_that_change_every_call_leave_a_bounded_number_of_programs_behind(
    jit: str, monkeypatch: pytest.MonkeyPatch
):
    """In the background new shapes are NumPy's until they come again: nothing is compiled for those that do not."""
    monkeypatch.setattr(item_runner, "_LONG_NS", 1 << 62)  # a run that was held up is no long one
    with graph() as g:
        x = feed([None])
        y = op("Sum", op("Mul", x, constant(2.0)), constant([0], "int32"))
    count = 3000 if jit == "background" else 200

    async with session_on(g, jit) as session:
        for size in range(1, count + 1):
            assert await session.run(y, {x: np.ones(size, np.float32)}) == 2 * size
        (executor,) = executors(session)
        await executor.wait_until_built()
        (runner,) = executor.runners
        assert len(runner.cache.programs) == (0 if jit == "background" else MOST_PROGRAMS)
        assert len(runner.cache._misses) <= 1025
        assert len(runner.cache._building) == 0
        assert len(session.prepared) == 1


# Feeds that are changed or taken away while the step runs


class Held:
    """An op that holds the step, on a worker, until the test lets it go on."""

    def __init__(self, ops: Ops) -> None:
        self.entered, self.gate = threading.Event(), threading.Event()
        self.gate.set()
        ops.broken("TestHeld", self._compute)

    def _compute(self, x: Any) -> Any:
        self.entered.set()
        self.gate.wait()
        return x + 0


async def held_step(session: Any, held: Held, fetches: Any, feeds: Any) -> asyncio.Task[Any]:
    """A step that is in the middle of its work."""
    for program in (
        each
        for executor in executors(session)
        for runner in executor.runners
        for each in runner.cache.programs.values()
    ):
        program.inline, program.cost = False, 10**9
    held.entered.clear()
    held.gate.clear()
    running = asyncio.create_task(session.run(fetches, feeds))
    await asyncio.to_thread(held.entered.wait)
    return running


@pytest.fixture
def held(ops: Ops) -> Held:
    return Held(ops)


async def test_indices_are_those_of_the_moment_the_step_began(held: Held):
    """A kernel looks twice at an index, to check it and to follow it: the caller cannot change it in between."""
    with graph() as g:
        x, indices, n = feed([None]), feed([None], "int32"), feed([], "int64")
        after = op("TestHeld", x)
        picked = op("GatherV2", after, indices, constant(0, "int32"))
        shaped = op("BroadcastTo", op("Sum", after, constant([0], "int32")), op("Pack", [n]))
    array, chosen, count = np.arange(64, dtype=np.float32), np.array([5, 0, 63], np.int32), np.array(2)

    async with session_on(g, "eager") as session:
        feeds = {x: array, indices: chosen, n: count}
        await session.run([picked, shaped], feeds)
        running = await held_step(session, held, [picked, shaped], feeds)
        chosen[:] = 10**9
        count[...] = 10**9
        held.gate.set()

        got, shape = await running

    np.testing.assert_array_equal(got, [5, 0, 63])
    np.testing.assert_array_equal(shape, [2016, 2016])


async def test_the_memory_of_a_feed_cannot_be_taken_away_while_a_step_runs(held: Held):
    with graph() as g:
        x, v = feed([None]), feed([None])
        y = op("Sum", op("Add", op("TestHeld", x), v), constant([0], "int32"))
    array, behind = np.ones(4096, np.float32), np.ones(8192, np.float32)

    async with session_on(g, "eager") as session:
        feeds = {x: array, v: behind[:4096]}
        await session.run(y, feeds)
        running = await held_step(session, held, y, feeds)
        try:
            for owner in (array, behind):
                with pytest.raises(ValueError, match="cannot resize"):
                    owner.resize(1, refcheck=False)
        finally:
            held.gate.set()
        assert await running == 8192
    feeds.clear()
    array.resize(1, refcheck=False)
    assert array.shape == (1,)


@pytest.mark.slow
async def test_who_writes_into_feeds_all_the_time_gets_results_or_errors_but_no_crash(tier: Tier):
    with graph() as g:
        x, indices, v = feed([None, 8]), feed([None], "int64"), resource([64, 8])
        init = op("AssignVariableOp", v, constant(np.zeros((64, 8))))
        fetches = [
            op("GatherV2", x, indices, constant(0, "int32")),
            op("ResourceGather", v, indices, dtype=dtypes.float32),
            op(
                "UnsortedSegmentSum",
                op("GatherV2", x, indices, constant(0, "int32")),
                indices,
                constant(64, "int32"),
            ),
            op("ResourceScatterAdd", v, indices, op("GatherV2", x, indices, constant(0, "int32"))),
        ]
    array, chosen = np.ones((64, 8), np.float32), np.arange(2048) % 64
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            for value in (10**15, -(10**15), 0):
                chosen[::7] = value
                array[::3] = value

    writer = threading.Thread(target=write)
    outcomes = set()
    async with tier.session(g) as session:
        await session.run(init)
        await session.run(fetches, {x: array, indices: chosen})
        writer.start()
        try:
            for _ in range(200):
                try:
                    await session.run(fetches, {x: array, indices: chosen})
                    outcomes.add("done")
                except InvalidArgumentError:
                    outcomes.add("outside")
        finally:
            stop.set()
            writer.join()
        chosen[:] = 1
        assert np.shape(await session.run(fetches[0], {x: array, indices: chosen})) == (2048, 8)
    assert outcomes <= {"done", "outside"}


async def test_what_state_keeps_of_a_feed_is_a_copy(tier: Tier):
    with graph() as g:
        x, v = feed([3]), resource([3])
        assign, value = op("AssignVariableOp", v, x), read(v)
        queue = op("FIFOQueueV2", component_types=[dtypes.float32], shapes=[(3,)])
        enqueue, dequeue = (
            op("QueueEnqueueV2", queue, [x]),
            op("QueueDequeueV2", queue, component_types=[dtypes.float32]),
        )
    array = np.ones(3, np.float32)

    async with tier.session(g) as session:
        for _ in range(2):
            array[:] = 1
            await session.run([assign, enqueue], {x: array})
            array[:] = 9
            np.testing.assert_array_equal(await session.run(value), [1, 1, 1])
            np.testing.assert_array_equal(np.asarray(await session.run(dequeue)).reshape(-1), [1, 1, 1])


async def test_a_partial_run_keeps_what_it_was_fed(tier: Tier):
    with graph() as g:
        x, z = feed([3], name="x"), feed([3], name="z")
        total = op("Add", x, z)
    array = np.ones(3, np.float32)

    async with tier.session(g) as session:
        handle = await session.partial_run_setup([total], [x, z])
        await session.partial_run(handle, [], {x: array})
        array[:] = 9
        np.testing.assert_array_equal(await session.partial_run(handle, total, {z: array}), [10, 10, 10])


async def test_a_fed_fetch_is_the_callers_own_object(tier: Tier):
    with graph() as g:
        indices = feed([None], "int32")
        more = op("Add", indices, constant(1, "int32"))
    array = np.arange(3, dtype=np.int32)

    async with tier.session(g) as session:
        for _ in range(3):
            fed, result = await session.run([indices, more], {indices: array})
            assert fed is array
            np.testing.assert_array_equal(result, [1, 2, 3])
