"""A process that trains: every step adds one to all of a variable, so a torn or lost step is detected in its checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import aioexec as ax

SAVE_STEPS = 3
"""Steps between two checkpoints."""


class _Acknowledged(ax.train.CheckpointSaverListener):
    """Says of which step a checkpoint was written."""

    def __init__(self, say: Callable[..., None]) -> None:
        self._say = say

    def after_save(self, session: Any, global_step_value: int) -> None:
        self._say(saved=int(global_step_value))


async def train(folder: str, steps: int, say: Callable[..., None]) -> None:
    """Train so many steps from the last checkpoint of the folder on."""
    with ax.Graph().as_default():
        step = ax.train.get_or_create_global_step()
        total = ax.Variable(ax.zeros([30, 7], ax.float32), name="total", use_resource=True)
        counted = ax.group(total.assign_add(ax.ones([30, 7])), step.assign_add(1))
        saving = ax.train.CheckpointSaverHook(folder, save_steps=SAVE_STEPS, listeners=[_Acknowledged(say)])
        async with ax.train.MonitoredTrainingSession(
            checkpoint_dir=folder,
            save_checkpoint_secs=None,
            save_summaries_steps=2,
            chief_only_hooks=[saving],
        ) as session:
            for _ in range(steps):
                await session.run(counted)
