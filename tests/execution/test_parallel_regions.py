"""Programs with parallel regions: the results of a single worker, also for failures, cancellation and traces."""

import asyncio
import threading
from itertools import product
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.devices.jit.walker import Outcome
from aioexec.devices.threads import spinning
from aioexec.devices.threads.workers import Workers
from aioexec.execution.programs import program_run
from aioexec.execution.programs.parallel_regions import RegionRun
from aioexec.execution.programs.trace import traced
from aioexec.execution.programs.walk import Walk
from aioexec.observability.step_stats import StepStatsCollector
from aioexec.planning.layout.variant import ParallelRegion, ProgramRow
from aioexec.planning.parallelism import lanes
from tests.tiers import programs, share_all


@pytest.fixture
def parallel(monkeypatch):
    """Whatever may be done at once is, however cheap, and by workers alone (for loops that help see test_program_run)."""
    monkeypatch.setattr(program_run, "_LONGEST_NS", -1)
    share_all(monkeypatch)


def session_with(graph: ax.Graph, workers: int) -> ax.Session:
    config = ax.ConfigProto(intra_op_parallelism_threads=workers, use_per_session_threads=True)
    config.aioexec.jit = "eager"
    return ax.Session(graph=graph, config=config)


def regions_of(session: ax.Session) -> list[ParallelRegion]:
    return [region for program in programs(session) for region in program.variant.parallel_regions]


# Variables


async def test_updates_of_a_variable_are_one_after_another(parallel):
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [1026])
        counter = ax.Variable(0, use_resource=True, trainable=False)
        branches = []
        for k in range(12):
            with ax.control_dependencies([counter.assign_add(1)]):
                branches.append(ax.tanh(x * k))
        y = ax.add_n(branches)

    async with session_with(graph, 3) as session:
        await session.run(counter.initializer)
        for _ in range(20):
            await session.run(y, {x: np.ones(1026, np.float32)})
        assert await session.run(counter) == 20 * 12
        (region,) = regions_of(session)
        (variant,) = [program.variant for program in programs(session) if program.variant.parallel_regions]

    updates = [
        task
        for task in region.tasks
        for row in variant.rows[task.start : task.end]
        if isinstance(row, ProgramRow)
        and variant.instructions[row.position].node.op.type == "AssignAddVariableOp"
    ]
    chain = list(dict.fromkeys(updates))
    assert [task.waits for task in chain] == [0] + [1] * (len(chain) - 1)


# Workers


async def test_machine_code_sees_how_many_jobs_wait():
    workers = Workers(1, "aioexec-worker")
    began, go_on = threading.Event(), threading.Event()

    def work() -> int:
        began.set()
        go_on.wait()
        return int(workers.waiting[spinning.ENTRIES])

    jobs = [workers.submit(work) for _ in range(3)]
    await asyncio.to_thread(began.wait)
    assert workers.waiting[spinning.ENTRIES] == 2
    go_on.set()

    assert [await job.result() for job in jobs] == [2, 1, 0]
    await workers.close()


# Results


def branches(count: int) -> tuple[ax.Graph, ax.Tensor, ax.Tensor]:
    rng = np.random.default_rng(3)
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [17, 31])
        ends = []
        for _ in range(count):
            w = ax.constant(rng.normal(size=(31, 29)).astype(np.float32))
            ends.append(ax.reduce_sum(ax.tanh(ax.matmul(x, w)), axis=1))
        y = ax.add_n(ends)
    return graph, x, y


@pytest.mark.parametrize("workers", [2, 3, 5])
async def test_the_bits_do_not_depend_on_the_number_of_workers(parallel, workers: int):
    graph, x, y = branches(23)
    array = np.random.default_rng(4).normal(size=(17, 31)).astype(np.float32)
    async with session_with(graph, 1) as session:
        expected = await session.run(y, {x: array})
        assert not regions_of(session), "one worker has no regions"

    async with session_with(graph, workers) as session:
        results = [await session.run(y, {x: array}) for _ in range(20)]
        (region,) = regions_of(session)

    assert region.lanes == workers
    assert len(region.tasks) > workers
    assert {result.tobytes() for result in results} == {expected.tobytes()}


@pytest.mark.parametrize("shape", [(150, 97, 40), (64, 784, 512), (129, 130, 131), (256, 10, 512)])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
async def test_a_shared_product_has_the_bits_of_a_whole_one(parallel, shape, transpose_a, transpose_b):
    rng = np.random.default_rng(3)
    m, k, n = shape
    a = rng.normal(size=(k, m) if transpose_a else (m, k)).astype(np.float32)
    b = rng.normal(size=(n, k) if transpose_b else (k, n)).astype(np.float32)
    with ax.Graph().as_default() as graph:
        x, y = ax.placeholder(ax.float32, a.shape), ax.placeholder(ax.float32, b.shape)
        z = ax.matmul(x, y, transpose_a=transpose_a, transpose_b=transpose_b)
    results = []
    for workers in (1, 2, 3):
        async with session_with(graph, workers) as session:
            results.append(await session.run(z, {x: a, y: b}))
            shares = [len(region.tasks) for region in regions_of(session)]
            assert all(1 < count <= lanes.MOST_PER_LANE * workers for count in shares)
            assert bool(shares) == (workers > 1)

    expected = (a.T if transpose_a else a).astype(float) @ (b.T if transpose_b else b).astype(float)
    np.testing.assert_allclose(results[0], expected, rtol=1e-4, atol=1e-3)
    assert results[1].tobytes() == results[0].tobytes()
    assert results[2].tobytes() == results[0].tobytes()


async def test_shared_elementwise_rows_are_numpys_over_broadcasts_and_strides(parallel):
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(33, 1, 700)).astype(np.float32), rng.normal(size=(5, 1)).astype(np.float32)
    with ax.Graph().as_default() as graph:
        x, y = ax.placeholder(ax.float32, a.shape), ax.placeholder(ax.float32, b.shape)
        z = ax.transpose(x * y + 1.0, [2, 0, 1])

    async with session_with(graph, 2) as session:
        result = await session.run(z, {x: a, y: b})
        assert regions_of(session)

    np.testing.assert_allclose(result, np.transpose(a * b + np.float32(1), [2, 0, 1]), rtol=1e-6)


async def test_training_steps_are_the_same_on_one_worker_and_on_three(parallel):
    rng = np.random.default_rng(5)
    batch = rng.normal(size=(16, 24)).astype(np.float32)
    starts = [rng.normal(size=shape).astype(np.float32) / 5 for shape in ((24, 32), (32, 32), (32, 8))]
    found = []
    for workers in (1, 3):
        with ax.Graph().as_default() as graph:
            x = ax.placeholder(ax.float32, batch.shape)
            weights = [ax.Variable(start, name=f"w{k}") for k, start in enumerate(starts)]
            h = x
            for w in weights:
                h = ax.tanh(ax.matmul(h, w))
            loss = ax.reduce_mean(ax.square(h))
            step = ax.train.AdamOptimizer(0.01).minimize(loss)
            start = ax.global_variables_initializer()
        async with session_with(graph, workers) as session:
            await session.run(start)
            losses = [(await session.run([loss, step], {x: batch}))[0] for _ in range(5)]
            found.append((losses, [value.tobytes() for value in await session.run(weights)]))
            assert bool(regions_of(session)) == (workers > 1)

    assert found[0] == found[1]
    assert found[0][0][-1] < found[0][0][0]


# Failure


async def test_the_first_failing_row_of_the_program_is_the_error(parallel):
    """Of two branches that fail it is always the same, and what the program writes before it is written, no more."""
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.int32, [64])
        v, w = (
            ax.get_variable(name, [64], ax.int32, ax.zeros_initializer(), use_resource=True) for name in "vw"
        )
        before = v.assign_add(x + 1)
        with graph.control_dependencies([before.op]):
            early = ax.floordiv(x, x, name="early")
        late = [ax.floordiv(x, x * k, name=f"late{k}") for k in range(1, 9)]
        with graph.control_dependencies([early]):
            after = w.assign_add(x + 1)
        start = ax.global_variables_initializer()
    fetches = [early, *late, before.op, after.op]
    errors = []
    for workers in (1, 4):
        async with session_with(graph, workers) as session:
            await session.run(start)
            await session.run(fetches, {x: np.ones(64, np.int32)})
            for _ in range(10):
                with pytest.raises(ax.errors.InvalidArgumentError) as caught:
                    await session.run(fetches, {x: np.zeros(64, np.int32)})
                assert caught.value.op is not None
                contents = await session.run([v, w])
                errors.append((caught.value.op.name, [int(content[0]) for content in contents]))
            if workers > 1:
                assert regions_of(session)

    assert errors[:10] == errors[10:]
    assert len({name for name, _ in errors}) == 1


async def test_a_failing_share_fails_the_step_by_name(parallel):
    with ax.Graph().as_default() as graph:
        x, y = ax.placeholder(ax.int32, [4096]), ax.placeholder(ax.int32, [4096])
        z = ax.floordiv(x, y, name="quotient")
    divisor = np.ones(4096, np.int32)
    divisor[4000] = 0

    async with session_with(graph, 2) as session:
        with pytest.raises(ax.errors.InvalidArgumentError, match="quotient"):
            await session.run(z, {x: np.ones(4096, np.int32), y: divisor})
        after = await session.run(z, {x: np.full(4096, 6, np.int32), y: np.full(4096, 3, np.int32)})
        assert regions_of(session)

    np.testing.assert_array_equal(after, 2)


# Cancellation


@pytest.fixture
async def run_of_branches(parallel):
    """A run of a program with a region, which is still to be walked, and its workers."""
    graph, x, y = branches(12)
    array = np.ones((17, 31), np.float32)
    async with session_with(graph, 3) as session:
        await session.run(y, {x: array})
        (program,) = programs(session)
        yield Walk(program, [array], in_place=False), program.workers


async def test_a_region_that_is_cancelled_before_it_begins_runs_nothing(run_of_branches):
    run, workers = run_of_branches
    run.cancel()

    outcome = await workers.submit(lambda: run.walk_released(None, workers)).result()

    assert outcome == Outcome.CANCELLED


async def test_a_walk_on_a_worker_executes_a_region_that_was_executed_in_its_frame(
    run_of_branches, monkeypatch
):
    run, workers = run_of_branches
    executed: list[RegionRun] = []
    execute = RegionRun.execute

    def execute_and_note(self, until):
        executed.append(self)
        return execute(self, until)

    monkeypatch.setattr(RegionRun, "execute", execute_and_note)
    monkeypatch.setattr(workers, "wake_up", lambda count: None)
    assert run.frame.regions, "the step before has executed it"
    workers.waiting[spinning.UNPARKED] = workers.waiting[spinning.PARKED]

    outcome = await workers.submit(lambda: run.walk_released(None, workers)).result()

    assert outcome == Outcome.DONE
    assert len(executed) <= 1  # if a thread stops spinning now
    run.give_back(done=True)


async def test_a_cancelled_region_knows_which_rows_have_run(run_of_branches, monkeypatch):
    run, workers = run_of_branches
    region = run.program.variant.parallel_regions[0]
    execute = RegionRun.execute

    def cancelled_at_once(self, until):
        run.cancel()
        return execute(self, until)

    monkeypatch.setattr(RegionRun, "execute", cancelled_at_once)
    for link in run.program.parallel_regions.values():
        run.frame.words[link.word] = 0  # the walk stops there
    outcome = await workers.submit(lambda: run.walk_released(None, workers)).result()

    assert outcome == Outcome.CANCELLED
    assert run.region is not None
    assert not any(run.region.has_run(row) for row in range(region.tasks[0].start, region.end))
    run.give_back(done=False)


async def test_a_cancelled_step_leaves_variables_whole_and_the_session_usable(parallel):
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [64, 64])
        v = ax.get_variable("v", [64, 64], initializer=ax.zeros_initializer(), use_resource=True)
        ends = [ax.matmul(ax.matmul(x, x * float(k)), x) for k in range(8)]
        step = v.assign_add(ax.add_n(ends))
        value = v.read_value()
    array = np.eye(64, dtype=np.float32)

    async with session_with(graph, 2) as session:
        await session.run(v.initializer)
        await session.run(step.op, {x: array})
        for _ in range(20):
            running = asyncio.create_task(session.run(step.op, {x: array}))
            await asyncio.sleep(0)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        found = await session.run(value)
        assert regions_of(session)

    assert found[0, 0] % 28 == 0, "as often as a step was done, all of it"
    np.testing.assert_array_equal(found, np.eye(64) * found[0, 0])


async def test_a_short_step_is_done_while_a_long_one_runs(parallel, monkeypatch):
    """Its job is taken by the first helper that spins: the owner continues alone."""
    graph, x, y = branches(12)
    order: list[str] = []
    async with session_with(graph, 2) as session:
        await session.run(y, {x: np.ones((17, 31), np.float32)})
        (program,) = programs(session)
        workers, loop = program.workers, asyncio.get_running_loop()
        short = loop.create_future()
        offered = threading.Event()
        owner = RegionRun.execute

        def execute_when_a_job_waits(self, until):
            def submit() -> None:
                workers.submit(lambda: order.append("short"), lambda job: short.set_result(None))
                offered.set()

            loop.call_soon_threadsafe(submit)
            offered.wait()
            outcome = owner(self, until)
            order.append("long")
            return outcome

        monkeypatch.setattr(RegionRun, "execute", execute_when_a_job_waits)
        for frame, link in product(program.frames, program.parallel_regions.values()):
            frame.words[link.word] = 0  # the walk stops there
        await session.run(y, {x: np.ones((17, 31), np.float32)})
        await short

    assert sorted(order) == ["long", "short"]


# Traces


async def test_a_traced_run_shows_the_rows_of_all_lanes(run_of_branches):
    run, workers = run_of_branches
    watched = Walk(run.program, run.arrays[:1], in_place=False, traced=True)
    collector = StepStatsCollector()

    assert await workers.submit(lambda: watched.walk_released(None, workers)).result() == Outcome.DONE
    watched.give_back(True, collector)

    (device,) = collector.step_stats().dev_stats
    assert watched.trace is not None
    done = [
        stamps
        for row, stamps in zip(run.program.variant.rows, watched.trace.stamps.tolist(), strict=True)
        if isinstance(row, ProgramRow)
    ]
    assert all(0 < began <= ended for began, ended in done)
    assert sum(" = MatMul(" in node.timeline_label for node in device.node_stats) == 12
    assert {node.thread_id for node in device.node_stats} <= {thread.native_id for thread in workers._threads}


async def test_a_row_shared_by_workers_is_one_record(parallel):
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [200, 200])
        y = ax.matmul(x, x, name="y")
    array = np.eye(200, dtype=np.float32)
    async with session_with(graph, 2) as session:
        await session.run(y, {x: array})
        (program,) = programs(session)
        run = Walk(program, [array], in_place=False, traced=True)
        assert (
            await program.workers.submit(lambda: run.walk_released(None, program.workers)).result()
            == Outcome.DONE
        )
        run.give_back(done=True)

    assert run.trace is not None
    (record,) = traced(run.trace, program.variant)
    stamps = run.trace.stamps[1:].tolist()
    assert len(stamps) > 1
    assert record.start == min(began for began, _ in stamps)
    assert record.end == max(ended for _, ended in stamps)
    np.testing.assert_array_equal(run.outputs[0], array)


# Loops


async def test_in_each_round_of_a_loop_there_is_what_was_there_before_it():
    """An LSTM: its inputs are read by one task a round, while others make what could take their place."""
    steps, batch, features, units = 4, 32, 32, 256
    rng = np.random.default_rng(7)
    matrix = (rng.normal(size=(features + units, 4 * units)) * 0.1).astype(np.float32)
    array = rng.normal(size=(steps, batch, features)).astype(np.float32)
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [steps, batch, features])
        inputs = ax.TensorArray(ax.float32, steps, element_shape=[batch, features]).unstack(x)
        outputs = ax.TensorArray(ax.float32, steps, element_shape=[batch, units])

        def body(step: Any, written: Any, cell: Any, hidden: Any) -> Any:
            gates = ax.matmul(ax.concat([inputs.read(step), hidden], 1), matrix)
            new, at, forget, out = ax.split(gates, 4, 1)
            cell = cell * ax.sigmoid(forget) + ax.sigmoid(at) * ax.tanh(new)
            hidden = ax.tanh(cell) * ax.sigmoid(out)
            return step + 1, written.write(step, hidden), cell, hidden

        zeros = ax.zeros([batch, units])
        loop = ax.while_loop(lambda step, *rest: step < steps, body, [0, outputs, zeros, zeros])
        y = loop[1].stack()

    async with session_with(graph, 2) as session:
        result = await session.run(y, {x: array})
        assert regions_of(session)

    def sigmoid(z: Any) -> Any:
        return 1 / (1 + np.exp(-z))

    cell = hidden = np.zeros((batch, units))
    for step in range(steps):
        gates = np.concatenate([array[step], hidden], 1) @ matrix.astype(np.float64)
        new, at, forget, out = np.split(gates, 4, 1)
        cell = cell * sigmoid(forget) + sigmoid(at) * np.tanh(new)
        hidden = np.tanh(cell) * sigmoid(out)
        np.testing.assert_allclose(result[step], hidden, atol=1e-5)
