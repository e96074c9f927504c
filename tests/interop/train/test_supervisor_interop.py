"""Supervisors of both engines: one continues where the other has stopped, and both write the same files and events."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.train.off_loop import off_loop
from tests.interop.train.engines import first_control_flow, kind_of_variables

pytestmark = pytest.mark.interop

STEPS = 5


def model(m: Any) -> tuple[Any, Any]:
    """A training op, and the step tensor."""
    m.set_random_seed(1)
    rows = m.train.input_producer(
        np.arange(12, dtype=np.float32).reshape(6, 2), shuffle=False, capacity=6
    ).dequeue()
    weight = m.get_variable("weight", [2], initializer=m.ones_initializer())
    loss = m.reduce_sum(m.square(rows * weight - 1.0))
    step = m.train.get_or_create_global_step()
    m.summary.scalar("loss", loss)
    train_op = m.train.AdamOptimizer(0.01).minimize(loss, global_step=step)
    return train_op, [step, weight]


def options(folder: str) -> dict[str, Any]:
    """Nothing on a timer."""
    return {"logdir": folder, "save_model_secs": 0, "save_summaries_secs": 0}


def by_tensorflow(tf: Any, folder: str) -> list[Any]:
    with tf.Graph().as_default(), kind_of_variables(tf, resource=False), first_control_flow(tf):
        train_op, state = model(tf)
        supervisor = tf.train.Supervisor(**options(folder))
        with supervisor.managed_session() as session:
            for _ in range(STEPS):
                session.run(train_op)
            supervisor.saver.save(session, supervisor.save_path, global_step=supervisor.global_step)
            return [np.asarray(value).tolist() for value in session.run(state)]


async def by_ours(folder: str) -> list[Any]:
    with ax.Graph().as_default(), kind_of_variables(ax, resource=False):
        train_op, state = model(ax)
        supervisor = ax.train.Supervisor(**options(folder))
        async with supervisor.managed_session() as session:
            for _ in range(STEPS):
                await session.run(train_op)
            await supervisor.saver.save(session, supervisor.save_path, global_step=supervisor.global_step)
            return [np.asarray(value).tolist() for value in await session.run(state)]


def files(folder: Path) -> set[str]:
    """Their names, without the time and the process that wrote them."""
    return {name.split(".tfevents.")[0] for name in os.listdir(folder)}


def events(folder: Path) -> list[Any]:
    """The contents of the first event file, with their steps."""
    path = min(str(each) for each in folder.glob("events.*"))
    return [
        (event.WhichOneof("what"), event.step, event.session_log.status)
        for event in ax.train.summary_iterator(path)
    ]


@pytest.mark.parametrize("first", ["tensorflow", "aioexec"])
async def test_one_goes_on_where_the_other_has_stopped(tf: Any, tmp_path: Path, first: str):
    theirs, mixed = tmp_path / "theirs", tmp_path / "mixed"
    by_tensorflow(tf, str(theirs))
    expected = by_tensorflow(tf, str(theirs))

    if first == "tensorflow":
        by_tensorflow(tf, str(mixed))
        found = await by_ours(str(mixed))
    else:
        await by_ours(str(mixed))
        found = by_tensorflow(tf, str(mixed))

    assert found[0] == expected[0] == 2 * STEPS
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-5)


async def test_both_leave_the_same_files_and_events(tf: Any, tmp_path: Path):
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    by_tensorflow(tf, str(theirs))
    await by_ours(str(ours))

    assert files(ours) == files(theirs)
    assert await off_loop(events, ours) == await off_loop(events, theirs)
