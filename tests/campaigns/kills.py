"""`kill -9` at random moments of saving, training, serving and cluster steps: nothing acknowledged is lost.

    python -m tests.campaigns.kills --count 1600

Of eight seeds five kill a process that saves, and one each a process that trains, a process that serves, and a task of a
cluster during a step. A process that saves or trains is killed before a random system call on files, or at a random time.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np

from aioexec.errors import UnavailableError
from aioexec.serving import PredictionClient
from aioexec.train import load_checkpoint
from aioexec.train.checkpoints.checkpoint_state import get_checkpoint_state, latest_checkpoint
from tests.campaigns import campaign
from tests.distributed.kills import STEPS, TASKS, Trial
from tests.distributed.processes import servers
from tests.train.kills.lives import Lived, nursery
from tests.train.kills.model import MANNERS, model
from tests.train.kills.nursery import Life
from tests.train.kills.training import SAVE_STEPS
from tests.train.test_saver_kills import SAVES, calls_of, check_after

SLACK = 20.0
"""How many times as long as on an idle machine a cluster may take."""
TRAINED = 10
"""Steps of a process that trains."""
CLIENTS = 3
"""Of a process that serves."""

Kill = Callable[["Bench", Random, Path], Coroutine[Any, Any, "str | None"]]


class Bench:
    """State shared by the cases of a process: the parent of the killed processes, a cluster, and the loop that uses both."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self._ends = ExitStack()
        processes_die_and_not_the_system = patch.object(os, "fsync", lambda descriptor: None)
        self._ends.enter_context(processes_die_and_not_the_system)
        self.nursery = self._ends.enter_context(nursery())
        self.calls: dict[str, int] = {}
        self._trial: Trial | None = None
        self._cluster: Any = None

    async def trial(self, chance: Random) -> Trial:
        """The cluster, whose tasks are restarted after each kill."""
        if self._trial is None:
            self._cluster = servers("ps", "worker", "worker")
            self._trial = await Trial(await self._cluster.__aenter__(), chance, SLACK).__aenter__()
        return self._trial

    def calls_of(self, manner: str, folder: Path) -> int:
        """How many calls that touch the disk a process makes that is not killed."""
        if manner not in self.calls:
            folder.mkdir()
            if manner == "training":
                whole = self.nursery.live(Life(os.fspath(folder), manner, first=1, saves=TRAINED))
                assert whole.calls is not None, whole
                self.calls[manner] = whole.calls
            else:
                self.calls[manner] = calls_of(self.nursery, manner, folder)
        return self.calls[manner]

    def killed(self, chance: Random, life: Life, folder: Path, longest: float) -> Lived:
        """Run a process that is killed at some moment, or that is done before."""
        if chance.random() < 0.5:
            life.die_before = chance.randint(1, self.calls_of(life.manner, folder))
        else:
            life.die_after = chance.uniform(0.0001, longest)
        return self.nursery.live(life)

    def close(self) -> None:
        """End all processes."""
        if self._trial is not None:
            self.runner.run(self._trial.__aexit__())
            self.runner.run(self._cluster.__aexit__(None, None, None))
        self._ends.close()
        self.runner.close()


async def saving(bench: Bench, chance: Random, folder: Path) -> str | None:
    """The checkpoint before is there, or the one that was being written; all that is listed is whole, and nothing is left."""
    manner = chance.choice(MANNERS)
    begun = model(manner)
    (folder / "model").mkdir()
    async with begun.session() as session:
        for step in (1, 2):
            await begun.save(session, os.fspath(folder / "model"), step)
    life = Life(os.fspath(folder / "model"), manner, first=3, saves=SAVES)
    death = bench.killed(chance, life, folder / "whole", longest=0.15)
    await check_after(death, folder / "model", begun, disturbed=3)
    return None


async def training(bench: Bench, chance: Random, folder: Path) -> str | None:
    """The last checkpoint is of an acknowledged step or the next, has as many additions, and training continues from it."""
    (folder / "model").mkdir()
    life = Life(os.fspath(folder / "model"), "training", first=1, saves=TRAINED)
    death = bench.killed(chance, life, folder / "whole", longest=0.4)
    reached = _trained(folder / "model")
    acknowledged = death.acknowledged or 0
    if not acknowledged <= reached <= acknowledged + SAVE_STEPS:
        return f"step {acknowledged} was acknowledged, step {reached} is there: {death}"
    again = bench.nursery.live(Life(os.fspath(folder / "model"), "training", first=1, saves=TRAINED))
    if again.exit_code != 0 or _trained(folder / "model") != reached + TRAINED:
        return f"from step {reached} on came step {_trained(folder / 'model')}: {again}"
    left = [path.name for path in (folder / "model").iterdir() if "temp" in path.name or path.is_dir()]
    return f"left over: {left}" if left else None


def _trained(folder: Path) -> int:
    """The step of the last checkpoint, checked against its variable; 0 if there is none."""
    latest = latest_checkpoint(folder)
    if latest is None:
        return 0
    for path in get_checkpoint_state(folder).all_model_checkpoint_paths:
        load_checkpoint(path).close()
    reader = load_checkpoint(latest)
    step = int(reader.get_tensor("global_step"))
    np.testing.assert_array_equal(reader.get_tensor("total"), np.full((30, 7), step, np.float32))
    return step


async def serving(bench: Bench, chance: Random, folder: Path) -> str | None:
    """Every answer is right, clients get UnavailableError once the server is dead, and another one serves the same."""
    begun = model("numbered")
    step = chance.randint(1, 1000)
    async with begun.session() as session:
        await begun.save(session, os.fspath(folder), step)
    for _ in range(2):
        bench.nursery.begin(Life(os.fspath(folder), "serving", first=1, saves=1))
        said = bench.nursery.said()
        clients = [asyncio.create_task(_ask_until_gone(said["url"], step)) for _ in range(CLIENTS)]
        await asyncio.sleep(chance.uniform(0.0, 0.1))
        os.kill(said["pid"], signal.SIGKILL)
        async with asyncio.timeout(SLACK):
            wrong = [each for each in await asyncio.gather(*clients) if each is not None]
        bench.nursery.end()
        if wrong:
            return wrong[0]
    return None


async def _ask_until_gone(url: str, step: int) -> str | None:
    """Ask one question after the other until the server is gone; what was wrong with an answer."""
    x = np.arange(40.0)
    async with PredictionClient(url) as client:
        try:
            while (answer := await client.predict([x.tolist()])) == [(x + step).tolist()]:
                pass
        except UnavailableError:
            return None
        return f"with step {step} the answer was {answer}"


async def cluster(bench: Bench, chance: Random, folder: Path) -> str | None:
    """The step ends with an error in time, the other tasks let go of it, and all work once the task is back."""
    trial = await bench.trial(chance)
    life = await trial.live("killed", chance.choice(TASKS), chance.choice(STEPS))
    return life.line() if life.failures else None


KINDS: tuple[Kill, ...] = (saving, training, saving, serving, saving, cluster, saving, saving)


@cache
def _bench() -> Bench:
    return Bench()


def case(seed: int) -> str | None:
    """One kill."""
    bench = _bench()
    with tempfile.TemporaryDirectory(prefix="aioexec-kills-") as folder:
        return bench.runner.run(KINDS[seed % len(KINDS)](bench, Random(seed), Path(folder)))


if __name__ == "__main__":
    raise SystemExit(campaign.main(case))
