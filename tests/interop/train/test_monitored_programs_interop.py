"""Training programs with real sessions behave as in TensorFlow: calls of hooks, ends of loops, error messages.

A program is written once; awaitables of this package are replaced by plain results in TensorFlow.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.train.callbacks import settle

pytestmark = pytest.mark.interop

Seen = list[Any]


def recorder(lib: Any, seen: Seen, fetches: Any = None, stop_at: Any = None, **request: Any) -> Any:
    """A hook that records its calls, and requests a stop when it sees a value."""

    class Recorder(lib.train.SessionRunHook):
        def begin(self) -> None:
            seen.append("begin")

        def after_create_session(self, session: Any, coord: Any) -> None:
            seen.append(("session", session.graph is lib.get_default_graph(), coord.should_stop()))

        def before_run(self, run_context: Any) -> Any:
            seen.append(("before", len(run_context.original_args), run_context.stop_requested))
            return lib.train.SessionRunArgs(fetches, **request)

        def after_run(self, run_context: Any, run_values: Any) -> None:
            seen.append(("after", plain(run_values.results), run_values.options.trace_level))
            if stop_at is not None and run_values.results == stop_at:
                run_context.request_stop()

        def end(self, session: Any) -> None:
            seen.append("end")

    return Recorder()


def plain(value: Any) -> Any:
    """Values of either side as what compares."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


async def opened(session: Any) -> Any:
    return await session if isinstance(session, Awaitable) else session


async def a_hook_ends_the_loop(lib: Any, seen: Seen) -> None:
    count = lib.assign_add(lib.Variable(0), 1)
    session = await opened(lib.train.MonitoredSession(hooks=[recorder(lib, seen, count, stop_at=3)]))
    while not session.should_stop():
        seen.append(plain(await settle(session.run({"count": count}))))
    try:
        await settle(session.run(count))
    except RuntimeError as error:
        seen.append(str(error))
    await settle(session.close())
    seen.append(session.should_stop())


async def the_input_ends(lib: Any, seen: Seen) -> None:
    source = lib.FIFOQueue(10, [lib.int32], shapes=[[]])
    queue = lib.FIFOQueue(2, [lib.int32], shapes=[[]])
    fill, close = source.enqueue_many([[5, 6, 7]]), source.close()
    lib.train.add_queue_runner(lib.train.QueueRunner(queue, [queue.enqueue(source.dequeue())]))
    taken = queue.dequeue()

    class Fill(lib.train.SessionRunHook):
        def after_create_session(self, session: Any, coord: Any) -> Any:
            if lib is ax:
                return self.filled(session)
            session.run(fill)
            session.run(close)
            return None

        async def filled(self, session: Any) -> None:
            await session.run(fill)
            await session.run(close)

    session = await opened(lib.train.MonitoredSession(hooks=[Fill(), recorder(lib, seen, taken)]))
    try:
        while not session.should_stop():
            seen.append(plain(await settle(session.run([]))))
    except lib.errors.OutOfRangeError:
        seen.append("out of range")
    await settle(session.close())


async def a_step_function_stops(lib: Any, seen: Seen) -> None:
    count = lib.assign_add(lib.Variable(0), 1)
    session = await opened(lib.train.MonitoredSession(hooks=[recorder(lib, seen, count)]))

    def ask(step_context: Any) -> Any:
        step_context.request_stop()

    def run_both(step_context: Any) -> Any:
        return step_context.run_with_hooks(count)

    seen.append(plain(await settle(session.run_step_fn(run_both))))
    for function in (ask, lambda: None, lambda context: None):
        try:
            await settle(session.run_step_fn(function))
        except (StopIteration, lib.errors.OutOfRangeError):
            seen.append("stopped")
        except ValueError as error:
            seen.append(str(error))
    seen.append(session.should_stop())
    await settle(session.close())


async def feeds_and_options_are_merged(lib: Any, seen: Seen) -> None:
    x, y = lib.placeholder(lib.int32, []), lib.placeholder(lib.int32, [])
    total = x + y
    options = lib.RunOptions(trace_level=lib.RunOptions.SOFTWARE_TRACE, timeout_in_ms=60_000)
    hooks = [
        recorder(lib, seen, {"sum": [total]}, feed_dict={x: 1}),
        recorder(lib, seen, None, options=options),
    ]
    session = await opened(lib.train.MonitoredSession(hooks=hooks))
    metadata = lib.RunMetadata()
    seen.append(plain(await settle(session.run([total, x], {y: 10}, run_metadata=metadata))))
    seen.append(metadata.HasField("step_stats"))
    try:
        await settle(session.run(total, {x: 2, y: 3}))
    except RuntimeError as error:
        seen.append(re.sub(r"Conflict.*", "", str(error)))
    await settle(session.close())


async def models_are_not_ready(lib: Any, seen: Seen) -> None:
    lib.Variable(1, name="w")
    v = lib.Variable(2, name="v")
    missing = lib.report_uninitialized_variables()
    half, nothing = lib.variables_initializer([v], name="half"), lib.no_op(name="nothing")
    manager = lib.train.SessionManager
    for make, init_op in (
        (lambda: manager(), None),
        (lambda: manager(ready_op=missing), half),
        (lambda: manager(ready_op=missing, local_init_op=nothing, ready_for_local_init_op=missing), half),
        (lambda: manager(ready_for_local_init_op=missing), half),
        (lambda: manager(ready_op=lib.constant([1])), half),
    ):
        try:
            session = await settle(make().prepare_session("", init_op))
            seen.append("ready")
            await settle(session.close())
        except (RuntimeError, ValueError) as error:
            message = re.sub(r"(?s)local_init_op: .*?(?=, error)|name: .*| ?, ready_for.*", "", str(error))
            seen.append((isinstance(error, ValueError), message))
    try:
        waiting = manager(ready_op=missing, recovery_wait_secs=0.01)
        await settle(waiting.wait_for_session("", max_wait_secs=0.05))
    except lib.errors.DeadlineExceededError as error:
        seen.append(error.message[:31])


async def scaffolds_fill_collections(lib: Any, seen: Seen) -> None:
    lib.Variable(1, name="w")
    lib.summary.scalar("s", lib.constant(1.0))
    scaffold = lib.train.Scaffold(init_op=lib.no_op(name="mine"))
    session = await opened(
        lib.train.SingularMonitoredSession(
            scaffold=lib.train.Scaffold(
                copy_from_scaffold=scaffold, init_op=lib.global_variables_initializer()
            )
        )
    )
    graph = session.graph
    seen.append(
        {
            key: len(graph.get_collection(key))
            for key in (
                "init_op",
                "ready_op",
                "ready_for_local_init_op",
                "local_init_op",
                "summary_op",
                "savers",
            )
        }
    )
    ready = graph.get_collection("ready_op")[0]
    seen.append((plain(await settle(session.run(ready))), graph.finalized))
    await settle(session.close())
    seen.append(graph.finalized)


PROGRAMS = [
    a_hook_ends_the_loop,
    the_input_ends,
    a_step_function_stops,
    feeds_and_options_are_merged,
    models_are_not_ready,
    scaffolds_fill_collections,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=[program.__name__ for program in PROGRAMS])
async def test_a_program_sees_the_same_on_both_sides(
    tf: Any, program: Callable[[Any, Seen], Awaitable[None]]
):
    theirs: Seen = []
    with tf.Graph().as_default():
        await program(tf, theirs)
    ours: Seen = []
    with ax.Graph().as_default():
        await program(ax, ours)

    assert ours == theirs


def trained(lib: Any) -> Any:
    """A model: its training operation and loss, the same weights each time."""
    inputs = np.random.default_rng(3).normal(size=[32, 4]).astype(np.float32)
    weights = lib.get_variable("weights", [4, 1], initializer=lib.zeros_initializer())
    loss = lib.reduce_mean(lib.square(lib.matmul(inputs, weights) - 1.0))
    lib.summary.scalar("loss", loss)
    step = lib.train.AdamOptimizer(0.1).minimize(loss, global_step=lib.train.get_or_create_global_step())
    return step, loss


async def losses(lib: Any, directory: str, until: int) -> list[float]:
    """The losses of a training session that runs until this step, saving every 5 steps."""
    with lib.Graph().as_default():
        fetches = trained(lib)
        session = await opened(
            lib.train.MonitoredTrainingSession(
                checkpoint_dir=directory,
                save_checkpoint_steps=5,
                save_summaries_steps=1,
                hooks=[lib.train.StopAtStepHook(last_step=until)],
            )
        )
        found = []
        while not session.should_stop():
            found.append(float((await settle(session.run(fetches)))[1]))
        await settle(session.close())
        await settle(lib.summary.FileWriterCache.clear())
    return found


@pytest.mark.parametrize("ours_first", [True, False])
async def test_a_training_session_goes_on_where_the_other_side_stopped(
    tf: Any, tmp_path: Any, ours_first: bool
):
    first, second = (ax, tf) if ours_first else (tf, ax)
    alone = await losses(tf, str(tmp_path / "alone"), 24)

    handed_over = await losses(first, str(tmp_path / "shared"), 12) + await losses(
        second, str(tmp_path / "shared"), 24
    )

    np.testing.assert_allclose(handed_over, alone, rtol=1e-5)
