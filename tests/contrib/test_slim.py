"""`ax.contrib.slim` and the training of `ax.contrib.training`: steps, loops, evaluation, summaries and analysis."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

import aioexec as ax
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.keys import GraphKeys
from aioexec.train.hooks.file_writer_cache import FileWriterCache
from tests.contrib.values import evaluated, names

slim, training = ax.contrib.slim, ax.contrib.training


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


@pytest_asyncio.fixture
async def folder(tmp_path: Path) -> AsyncIterator[Path]:
    """A directory for checkpoints and event files; writers opened there are closed."""
    yield tmp_path
    await FileWriterCache.clear()


async def latest(folder: Path) -> Any:
    """The path of the latest checkpoint."""
    return await asyncio.to_thread(ax.train.latest_checkpoint, folder)


def problem(rate: float = 0.5) -> tuple[Any, Any, Any]:
    """A variable that starts at 0, the loss (w - 3)², and an optimizer."""
    w = ax.get_variable("w", initializer=0.0)
    return w, ax.square(w - 3.0), ax.train.GradientDescentOptimizer(rate)


async def after_a_step(train_op: Any, *fetches: Any) -> Any:
    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        loss = await session.run(train_op)
        return [loss, *await session.run(list(fetches))]


@pytest.mark.parametrize("create", [slim.learning.create_train_op, training.create_train_op])
async def test_a_training_step_returns_its_loss_and_counts(create: Any):
    w, loss, optimizer = problem()
    counter = ax.get_variable("counter", initializer=0.0, trainable=False)
    ax.add_to_collection(GraphKeys.UPDATE_OPS, counter.assign_add(1.0))
    train_op = create(loss, optimizer)

    assert train_op in ax.get_collection(GraphKeys.TRAIN_OP)
    assert await after_a_step(train_op, w, ax.train.get_global_step(), counter) == [9.0, 3.0, 1, 1.0]


async def test_a_step_need_not_count():
    w, loss, optimizer = problem()
    await after_a_step(slim.learning.create_train_op(loss, optimizer, global_step=None), w)

    assert ax.train.get_global_step() is None


async def test_gradients_are_multiplied_then_clipped():
    w, loss, optimizer = problem(rate=1.0)
    once = slim.learning.create_train_op(
        loss, optimizer, gradient_multipliers={"w": 0.5}, summarize_gradients=True
    )
    clipped = slim.learning.create_train_op(
        loss, optimizer, gradient_multipliers={w: 0.5}, clip_gradient_norm=2
    )

    assert (await after_a_step(once, w))[1] == 3.0
    assert (await after_a_step(clipped, w))[1] == 2.0
    assert [name.rpartition("/")[2] for name in names(ax.get_collection(GraphKeys.SUMMARIES))] == [
        "w_gradient",
        "w_gradient_norm",
    ]


async def test_gradients_are_changed_by_a_function():
    w, loss, optimizer = problem(rate=1.0)
    train_op = training.create_train_op(
        loss, optimizer, transform_grads_fn=training.clip_gradient_norms_fn(1.0)
    )

    assert (await after_a_step(train_op, w))[1] == 1.0


async def test_a_loss_that_is_no_number_is_an_error():
    w, _loss, optimizer = problem()
    bad = ax.log(w - 1.0)

    with pytest.raises(InvalidArgumentError, match="LossTensor is inf or nan"):
        await after_a_step(slim.learning.create_train_op(bad, optimizer))
    assert np.isnan(
        (await after_a_step(slim.learning.create_train_op(bad, optimizer, check_numerics=False)))[0]
    )


def test_sparse_gradients_are_clipped_and_multiplied():
    table = ax.get_variable("table", [3, 2])
    values = ax.IndexedSlices(ax.ones([1, 2]), ax.constant([1]))
    (clipped, _), (missing, _) = training.clip_gradient_norms([(values, table), (None, table)], 1.0)
    ((multiplied, _),) = training.multiply_gradients([(values, table)], {table: 2.0})

    assert clipped.indices is multiplied.indices is values.indices
    assert missing is None


def test_arguments_of_steps_are_checked():
    w, loss, optimizer = problem()
    other = ax.get_variable("other", initializer=0.0, trainable=False)

    with pytest.raises(GraphValueError, match="trainable"):
        slim.learning.create_train_op(loss, optimizer, variables_to_train=[other])
    wrong: list[Any] = [
        ((), {w: 1.0}, "must be a list"),
        ([], {}, "empty"),
        ([], [1], "must be a dict"),
        ([(None, w)], {w: 1.0}, "None"),
    ]
    for pairs, factors, message in wrong:
        with pytest.raises(GraphValueError, match=message):
            slim.learning.multiply_gradients(pairs, factors)


async def test_a_loop_trains_saves_and_stops(tmp_path: Path):
    _w, loss, optimizer = problem(rate=0.25)
    ax.summary.scalar("loss", loss)
    train_op = slim.learning.create_train_op(loss, optimizer)
    final = await slim.learning.train(train_op, str(tmp_path), number_of_steps=4, log_every_n_steps=2)

    assert final == pytest.approx(9 / 4**3)
    path = await latest(tmp_path)
    value = await asyncio.to_thread(ax.train.load_variable, path, "w")
    assert value == pytest.approx(3 - 3 / 2**4)
    assert list(await asyncio.to_thread(lambda: [*tmp_path.glob("events*")]))


async def test_a_loop_writes_nothing_without_a_directory():
    _, loss, optimizer = problem()
    train_op = slim.learning.create_train_op(loss, optimizer)

    assert await slim.learning.train(train_op, None, number_of_steps=1) == 9.0


async def test_a_loop_ends_with_its_input(tmp_path: Path):
    w, _, optimizer = problem()
    queue = ax.FIFOQueue(3, [ax.float32], [[]])
    runner = ax.train.QueueRunner(queue, [queue.enqueue(1.0)])
    limited = ax.train.limit_epochs(ax.constant(1.0), 2)
    ax.train.add_queue_runner(runner)
    loss = ax.square(w - 3.0) * limited
    train_op = slim.learning.create_train_op(loss, optimizer)
    await slim.learning.train(train_op, str(tmp_path))

    path = await latest(tmp_path)
    assert path.endswith("-2")


async def test_steps_and_sessions_may_be_ones_own(tmp_path: Path):
    w, loss, optimizer = problem()
    train_op = slim.learning.create_train_op(loss, optimizer)
    seen, wrapped = [], []

    def step(session: Any, train_op: Any, global_step: Any, kwargs: Any) -> Any:
        seen.append(kwargs["mine"])
        return slim.learning.train_step(session, train_op, global_step, {})

    async def stopping(session: Any, train_op: Any, global_step: Any, kwargs: Any) -> Any:
        value, _ = await step(session, train_op, global_step, kwargs)
        return value, len(seen) == 2

    def wrap(session: Any) -> Any:
        wrapped.append(session)
        return session

    async def begin(session: Any) -> None:
        await session.run(begin_at_two)

    begin_at_two = w.assign(2.0)
    found = await slim.learning.train(
        train_op, None, stopping, {"mine": 7}, init_fn=begin, session_wrapper=wrap
    )
    assert (found, seen, len(wrapped)) == (0.0, [7, 7], 1)


async def test_steps_are_traced(tmp_path: Path):
    _, loss, optimizer = problem()
    train_op = slim.learning.create_train_op(loss, optimizer)
    await slim.learning.train(train_op, str(tmp_path), number_of_steps=2, trace_every_n_steps=2)

    text = await asyncio.to_thread((tmp_path / "tf_trace-1.json").read_text)
    assert json.loads(text)["traceEvents"]
    with pytest.raises(GraphValueError, match="logdir must be present"):
        await slim.learning.train_step(None, None, None, {"should_trace": True})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train_op": None}, "train_op cannot be None"),
        ({"number_of_steps": 0}, "positive"),
        ({"summary_op": object()}, "summary_op because logdir=None"),
        ({"saver": object()}, "saver because logdir=None"),
        ({"trace_every_n_steps": 1}, "trace_every_n_steps because logdir=None"),
        ({"sync_optimizer": object(), "startup_delay_steps": 1}, "startup_delay_steps"),
        ({"sync_optimizer": object()}, "SyncReplicasOptimizer"),
    ],
)
async def test_arguments_of_the_loop_are_checked(options: Any, message: str):
    ax.get_variable("w", initializer=0.0)

    with pytest.raises(GraphValueError, match=message):
        await slim.learning.train(**{"train_op": ax.constant(0.0), "logdir": None, **options})


async def test_gradients_of_replicas_are_collected(tmp_path: Path):
    _w, loss, optimizer = problem()
    collecting = ax.train.SyncReplicasOptimizer(optimizer, replicas_to_aggregate=1)
    train_op = slim.learning.create_train_op(loss, collecting)
    found = await slim.learning.train(train_op, str(tmp_path), number_of_steps=2, sync_optimizer=collecting)

    assert found == 0.0


async def test_a_monitored_loop_trains(folder: Path):
    _, loss, optimizer = problem(rate=0.25)
    ax.summary.scalar("loss", loss)
    train_op = training.create_train_op(loss, optimizer)
    found = await training.train(train_op, str(folder), hooks=[ax.train.StopAtStepHook(num_steps=3)])

    assert found == pytest.approx(9 / 4**2)
    assert await latest(folder)
    with pytest.raises(GraphValueError, match="logdir cannot be None"):
        await training.train(train_op, None)


async def test_checkpoints_are_evaluated(folder: Path):
    w, loss, _optimizer = problem()
    slim.get_or_create_global_step()
    async with ax.Session() as session:
        await session.run([ax.global_variables_initializer(), w.assign(4.0)])
        await session.run(w.assign(4.0))
        path: Any = await ax.train.Saver().save(session, folder / "model", global_step=1)
    value, update = slim.metrics.streaming_mean(loss)
    ax.summary.scalar("mean", value)

    found = await slim.evaluation.evaluate_once(
        "", path, str(folder / "once"), num_evals=3, eval_op=update, final_op=value
    )
    assert found == 1.0
    again = await slim.evaluation.evaluation_loop(
        "",
        str(folder),
        str(folder / "loop"),
        eval_op=update,
        final_op=value,
        variables_to_restore=slim.get_variables_to_restore(),
        max_number_of_evaluations=1,
    )
    assert again == 1.0


async def test_queues_run_in_a_block():
    queue = ax.FIFOQueue(3, [ax.float32], [[]])
    ax.train.add_queue_runner(ax.train.QueueRunner(queue, [queue.enqueue(1.0)]))
    element = queue.dequeue()

    async with ax.Session() as session, slim.queues.QueueRunners(session):
        assert await session.run(element) == 1.0
        with pytest.raises(slim.queues.NestedQueueRunnerError):
            async with slim.queues.QueueRunners(session):
                raise AssertionError


async def test_summaries_are_named_after_tensors():
    x = ax.constant([[0.0, 1.0]], name="x")
    images = ax.zeros([1, 2, 2, 1], name="images")
    slim.summaries.add_histogram_summaries([x], prefix="p")
    slim.summaries.add_scalar_summary(ax.constant(1.0), "scalar", print_summary=True)
    slim.summaries.add_zero_fraction_summaries([x])
    slim.summaries.add_scalar_summaries([ax.constant(1.0, name="one")], prefix="q")
    slim.summaries.add_image_summaries([images], prefix="p")
    found = [ax.Summary.FromString(text) for text in await evaluated(ax.get_collection(GraphKeys.SUMMARIES))]

    assert [summary.value[0].tag for summary in found] == [
        "p/x",
        "scalar",
        "x/Fraction_of_Zero_Values",
        "q/one",
        "p/images/image/0",
    ]
    assert found[2].value[0].simple_value == 0.5


def test_variables_and_nodes_are_analyzed(capsys: Any, graph: Any):
    ax.get_variable("a", [2, 3])
    ax.get_variable("b", [4], ax.float64)
    ax.placeholder(ax.float32)

    assert slim.model_analyzer.analyze_vars(ax.global_variables(), print_info=True) == (10, 24 + 32)
    lines = capsys.readouterr().out.splitlines()
    assert lines[3:] == [
        "a:0 (float32_ref 2x3) [6, bytes: 24]",
        "b:0 (float64_ref 4) [4, bytes: 32]",
        "Total size of variables: 10",
        "Total bytes of variables: 56",
    ]
    total = slim.model_analyzer.analyze_ops(graph, print_info=True)
    known = [output.shape.num_elements() or 0 for node in graph.get_operations() for output in node.outputs]
    assert total == sum(known)
    assert "a \t-> (float32_ref 2x3) [6]" in capsys.readouterr().out


def test_slim_has_the_names_of_layers_and_variables():
    assert slim.conv2d is ax.contrib.layers.conv2d
    assert slim.variables.model_variable is slim.model_variable is ax.contrib.framework.model_variable
    assert slim.losses is ax.contrib.losses
    assert slim.arg_scope is ax.contrib.framework.arg_scope
