"""Training on one machine with a monitored session: hooks save and summarise, the loop trains.

It may be stopped at any time, also with `kill -9`: the next start continues from the last checkpoint. TensorBoard reads
DIRECTORY.

    python examples/monitored_training.py DIRECTORY
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import numpy as np

import aioexec as ax

STEPS = 200
RANDOM = np.random.default_rng(0)
INPUTS = RANDOM.normal(size=[64, 3]).astype(np.float32)
WEIGHTS = np.array([[1.0], [-2.0], [0.5]], np.float32)


def build() -> tuple[ax.Operation, ax.Tensor]:
    """A linear model: what trains it, and its loss."""
    weights = ax.get_variable("weights", [3, 1], initializer=ax.zeros_initializer())
    loss = ax.reduce_mean(ax.square(ax.matmul(INPUTS, weights) - INPUTS @ WEIGHTS))
    ax.summary.scalar("loss", loss)
    optimizer = ax.train.AdamOptimizer(0.1)
    return optimizer.minimize(loss, global_step=ax.train.get_or_create_global_step()), loss


async def train(checkpoint_dir: str, steps: int = STEPS) -> Any:
    """With the hooks a training session has by itself; the loss after the last step."""
    master = ""  # this process
    is_chief = True
    hooks = [ax.train.StopAtStepHook(last_step=steps)]  # of chief and workers
    with ax.Graph().as_default():
        train_op, loss_tensor = build()
        async with ax.train.MonitoredTrainingSession(
            master,
            is_chief=is_chief,
            scaffold=None,
            hooks=hooks,
            chief_only_hooks=None,
            checkpoint_dir=checkpoint_dir,
            save_checkpoint_secs=600,
            save_summaries_steps=100,
            save_summaries_secs=None,
            config=None,
            stop_grace_period_secs=120,
            log_step_count_steps=100,
        ) as sess:
            loss = None
            while not sess.should_stop():
                _, loss = await sess.run([train_op, loss_tensor])
    return loss


async def train_with_hooks_of_ones_own(directory: str, steps: int = STEPS) -> Any:
    """The same, each hook chosen by hand."""
    with ax.Graph().as_default():
        train_op, loss_tensor = build()
        saver_hook = ax.train.CheckpointSaverHook(directory, save_steps=50)
        summary_hook = ax.train.SummarySaverHook(
            save_steps=10, output_dir=directory, summary_op=ax.summary.merge_all()
        )
        stop_hook = ax.train.StopAtStepHook(last_step=steps)
        async with ax.train.SingularMonitoredSession(
            hooks=[saver_hook, summary_hook, stop_hook], checkpoint_dir=directory, stop_grace_period_secs=120
        ) as sess:
            loss = None
            while not sess.should_stop():
                _, loss = await sess.run([train_op, loss_tensor])
    return loss


if __name__ == "__main__":
    print("loss:", asyncio.run(train(sys.argv[1])))
