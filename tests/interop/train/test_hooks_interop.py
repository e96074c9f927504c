"""The same training with the stock hooks in TensorFlow and here: the same checkpoints, events, timelines, log and calls.

Orders that TensorFlow leaves undefined are fixed: the global step and the loss are read before variables change.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import aioexec as ax
from aioexec.formats.event_files import summary_iterator
from aioexec.formats.protos import SessionLog
from aioexec.testing.clock import VirtualClockLoop
from aioexec.train.global_steps import _get_or_create_global_step_read

pytestmark = [pytest.mark.interop, pytest.mark.may_block("a test of what files hold")]


@dataclass(frozen=True)
class Training:
    """A training: `runs` sessions, each of at most `steps` steps that advance the global step by `advance`.

    `intervals` are every how many steps, or seconds if so `timed`, each hook acts: saver, summaries, counter, log, profiler.
    Time stands still but for the `seconds` after each step.
    """

    steps: int = 20
    advance: int = 1
    runs: int = 1
    intervals: tuple[int, int, int, int, int] = (3, 4, 5, 2, 6)
    stop: dict[str, int] = field(default_factory=dict)
    keep: int = 3
    listener_stops_at: int = -1
    has_graphs: bool = True
    seconds: float = 1.0
    timed: bool = False


TRAININGS = {
    "to the end of the loop": Training(),
    "stop after a number of steps": Training(stop={"num_steps": 11}),
    "stop at a step": Training(stop={"last_step": 12}),
    "stop at the first step": Training(stop={"last_step": 1}),
    "twice a number of steps": Training(stop={"num_steps": 7}, runs=2),
    "twice to the same step": Training(stop={"last_step": 7}, runs=2),
    "three times": Training(steps=5, runs=3),
    "every step": Training(steps=6, intervals=(1, 1, 1, 1, 1)),
    "only once": Training(steps=6, intervals=(100, 100, 100, 100, 100)),
    "steps that advance by three": Training(advance=3),
    "steps that advance by seven, stop at a step": Training(advance=7, stop={"last_step": 60}),
    "steps that do not advance": Training(advance=0, steps=6),
    "a listener stops": Training(listener_stops_at=6),
    "a listener would stop before the first step": Training(listener_stops_at=0, steps=5),
    "all checkpoints kept": Training(keep=100),
    "every so many seconds": Training(timed=True, seconds=0.75),
    "seconds longer than all intervals": Training(timed=True, seconds=10.0, steps=6),
    "seconds, twice": Training(timed=True, seconds=0.625, runs=2, steps=9),
    "seconds, steps that advance by three": Training(timed=True, seconds=0.875, advance=3),
    "no graphs written": Training(has_graphs=False, steps=7),
}


def random_training(seed: int) -> Training:
    choose = random.Random(seed)
    stop = choose.choice([{}, {"num_steps": choose.randint(1, 12)}, {"last_step": choose.randint(1, 30)}])
    return Training(
        steps=choose.randint(1, 15),
        advance=choose.choice([1, 1, 1, 2, 3, 10]),
        runs=choose.choice([1, 1, 2, 3]),
        intervals=tuple(choose.randint(1, 9) for _ in range(5)),  # type: ignore[arg-type]
        stop=stop,
        keep=choose.randint(1, 5),
        listener_stops_at=choose.randint(-10, 10),
        seconds=choose.choice([0.25, 0.5, 0.75, 1.0, 3.0]),
        timed=choose.random() < 0.5,
    )


@dataclass
class Outcome:
    """The files and log of a training."""

    calls: list[str] = field(default_factory=list)
    final: list[Any] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    state: list[str] = field(default_factory=list)
    events: list[tuple[Any, ...]] = field(default_factory=list)


class Model:
    """The graph of a training, in TensorFlow (`tf`) or here; `read` is the global step before it is counted."""

    def __init__(self, tf: Any, read: Any, training: Training) -> None:
        self.read = read
        self.weight = tf.Variable(1.0, name="weight")
        self.loss = tf.multiply(self.weight, self.weight, name="loss")
        with tf.control_dependencies([self.loss, read]):
            descend = tf.train.GradientDescentOptimizer(0.1).minimize(self.loss)
        with tf.control_dependencies([descend]):
            self.train_op = tf.assign_add(tf.train.get_global_step(), training.advance).op
        tf.summary.scalar("seen", self.loss)
        self.summary = tf.summary.merge_all()


def hooks_of(tf: Any, model: Model, training: Training, folder: str, outcome: Outcome) -> list[Any]:
    saver, summaries, counter, log, profiler = (
        {"secs": each, "steps": None} if training.timed else {"secs": None, "steps": each}
        for each in training.intervals
    )
    calls = outcome.calls

    class Listener(tf.train.CheckpointSaverListener):
        def begin(self) -> None:
            calls.append("begin")

        def before_save(self, session: Any, global_step_value: Any) -> None:
            calls.append(f"before {global_step_value}")

        def after_save(self, session: Any, global_step_value: Any) -> bool:
            calls.append(f"after {global_step_value}")
            return bool(global_step_value == training.listener_stops_at)

        def end(self, session: Any, global_step_value: Any) -> None:
            calls.append(f"end {global_step_value}")

    def line(values: Any) -> str:
        calls.append(f"log {values['loss']:.5f} {values['read']}")
        return ""

    stop = [tf.train.StopAtStepHook(**training.stop)] if training.stop else []
    return [
        tf.train.CheckpointSaverHook(
            folder,
            save_secs=saver["secs"],
            save_steps=saver["steps"],
            saver=tf.train.Saver(max_to_keep=training.keep),
            listeners=[Listener()],
            save_graph_def=training.has_graphs,
        ),
        tf.train.StepCounterHook(counter["steps"], counter["secs"], folder),
        tf.train.SummarySaverHook(summaries["steps"], summaries["secs"], folder, summary_op=model.summary),
        tf.train.LoggingTensorHook(
            {"loss": "loss", "read": model.read}, log["steps"], log["secs"], at_end=True, formatter=line
        ),
        tf.train.ProfilerHook(profiler["steps"], profiler["secs"], folder),
        tf.train.NanTensorHook(model.loss),
        tf.train.GlobalStepWaiterHook(0),
        *stop,
    ]


class Clock:
    """Stands for the module `time` in TensorFlow's hooks."""

    now = 0.0

    def time(self) -> float:
        return self.now


def with_tensorflow(tf: Any, training: Training, folder: str, clock: Clock) -> Outcome:
    from tensorflow.python.training import training_util

    outcome = Outcome()
    for _ in range(training.runs):
        with tf.Graph().as_default():
            tf.train.get_or_create_global_step()
            model = Model(tf, training_util._get_or_create_global_step_read(), training)
            final = tf.train.FinalOpsHook([model.weight, tf.train.get_global_step()])
            hooks = [*hooks_of(tf, model, training, folder, outcome), final]
            creator = tf.train.ChiefSessionCreator(checkpoint_dir=folder)
            with tf.train.MonitoredSession(creator, hooks) as session:
                for _ in range(training.steps):
                    if session.should_stop():
                        break
                    session.run(model.train_op)
                    clock.now += training.seconds
            outcome.final.append([float(each) for each in final.final_ops_values])
        tf.summary.FileWriterCache.clear()
        read_events(outcome, folder)
    return read(outcome, folder)


async def here(training: Training, folder: str) -> Outcome:
    outcome = Outcome()
    for _ in range(training.runs):
        with ax.Graph().as_default():
            ax.train.get_or_create_global_step()
            model = Model(ax, _get_or_create_global_step_read(), training)
            final = ax.train.FinalOpsHook([model.weight, ax.train.get_global_step()])
            hooks = [*hooks_of(ax, model, training, folder, outcome), final]
            creator = ax.train.ChiefSessionCreator(checkpoint_dir=folder)
            async with ax.train.MonitoredSession(creator, hooks) as session:
                for _ in range(training.steps):
                    if session.should_stop():
                        break
                    await session.run(model.train_op)
                    await asyncio.sleep(training.seconds)
            outcome.final.append([float(each) for each in final.final_ops_values])
        await ax.summary.FileWriterCache.clear()
        read_events(outcome, folder)
    return read(outcome, folder)


def read_events(outcome: Outcome, folder: str) -> None:
    """Add what is in the event file; it goes, for TensorFlow's next one may get the same name."""
    (path,) = Path(folder).glob("events.out.tfevents.*")
    outcome.events += [described(event) for event in summary_iterator(str(path))]
    path.unlink()


def read(outcome: Outcome, folder: str) -> Outcome:
    """Add what is in the directory."""
    # A checkpoint saved over one of the same name gets other data files here: the old one is whole till the new one is.
    names = {re.sub(r"\.data-.*", ".data", each) for each in os.listdir(folder)}
    outcome.files = sorted(names)
    outcome.state = re.findall(r'\w+_path\w*: "(?:.*/)?(.*)"', Path(folder, "checkpoint").read_text())
    return outcome


def described(event: Any) -> tuple[Any, ...]:
    what = event.WhichOneof("what")
    if what == "summary":
        values = [(each.tag, f"{each.simple_value:.5f}") for each in event.summary.value]
        return event.step, what, *values
    if what == "session_log":
        log = event.session_log
        return event.step, SessionLog.SessionStatus.Name(log.status), os.path.basename(log.checkpoint_path)
    if what == "tagged_run_metadata":
        return event.step, what, event.tagged_run_metadata.tag
    return event.step, what


def compare(tf: Any, folder: Path, training: Training, monkeypatch: Any) -> None:
    from tensorflow.python.training import basic_session_run_hooks

    clock = Clock()
    monkeypatch.setattr(basic_session_run_hooks, "time", clock)
    theirs, ours = folder / "theirs", folder / "ours"
    theirs.mkdir()
    ours.mkdir()

    expected = with_tensorflow(tf, training, str(theirs), clock)
    with asyncio.Runner(loop_factory=VirtualClockLoop) as runner:
        outcome = runner.run(here(training, str(ours)))

    assert outcome.calls == expected.calls
    assert outcome.final == [pytest.approx(each, rel=1e-6) for each in expected.final]
    assert outcome.files == expected.files
    assert outcome.state == expected.state
    assert outcome.events == expected.events


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAININGS)
def test_a_training_with_the_stock_hooks_leaves_the_same_behind(tf, tmp_path, name, caplog, monkeypatch):
    caplog.set_level(logging.CRITICAL, logger="tensorflow")

    compare(tf, tmp_path, TRAININGS[name], monkeypatch)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(100))
def test_any_training_with_the_stock_hooks_leaves_the_same_behind(tf, tmp_path, seed, caplog, monkeypatch):
    caplog.set_level(logging.CRITICAL, logger="tensorflow")

    compare(tf, tmp_path, random_training(seed), monkeypatch)


# Evaluation

EVALUATIONS = {
    "no ops": (None, None),
    "three times": (3, "one"),
    "in a list": (2, "list"),
    "in a dictionary": (2, "dict"),
    "logged each tenth": (25, "one"),
    "until the end of input": (None, "one"),
}


def saved(tf: Any, folder: Path) -> str:
    """A checkpoint by TensorFlow of a model whose weight is 7, at step 5."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.Variable(7.0, name="weight")
        tf.train.get_or_create_global_step()
        session.run(tf.global_variables_initializer())
        session.run(tf.assign(tf.train.get_global_step(), 5))
        path: str = tf.train.Saver().save(session, str(folder / "model"))
    return path


def evaluation(tf: Any, ops: str | None) -> dict[str, Any]:
    """The ops that evaluate the model, whose input has thirty elements."""
    weight = tf.Variable(0.0, name="weight")
    step = tf.train.get_or_create_global_step()
    total = tf.Variable(0, name="total", collections=[tf.GraphKeys.LOCAL_VARIABLES], trainable=False)
    element = tf.train.range_input_producer(30, num_epochs=1, shuffle=False).dequeue()
    count = tf.assign_add(total, element)
    shapes = {None: None, "one": count, "list": [count], "dict": {"count": count}}
    return {"eval_ops": shapes[ops], "final_ops": {"weight": weight, "step": step, "total": total}}


async def evaluated_here(path: str, evals: int | None, ops: str | None) -> Any:
    with ax.Graph().as_default():
        hooks = [ax.train.StopAfterNEvalsHook(evals)] if ops else []
        return await ax.train.evaluate_once(path, hooks=hooks, **evaluation(ax, ops))


@pytest.mark.slow
@pytest.mark.parametrize("name", EVALUATIONS)
def test_an_evaluation_gives_the_same_and_logs_the_same(tf, tmp_path, name, caplog):
    from tensorflow.python.training import evaluation as theirs

    evals, ops = EVALUATIONS[name]
    path = saved(tf, tmp_path)

    def lines() -> list[str]:
        logged = [each.getMessage() for each in caplog.records if each.getMessage().startswith("Evaluation")]
        caplog.clear()
        return logged

    with caplog.at_level(logging.INFO, "tensorflow"), caplog.at_level(logging.INFO):
        with tf.Graph().as_default():
            hooks = [theirs._StopAfterNEvalsHook(evals)] if ops else []
            expected = theirs._evaluate_once(path, hooks=hooks, **evaluation(tf, ops)), lines()
        assert (asyncio.run(evaluated_here(path, evals, ops)), lines()) == expected
