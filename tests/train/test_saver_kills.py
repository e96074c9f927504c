"""`kill -9` at any instant of a save: earlier checkpoints exist, acknowledged data is not lost, no files are left over."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from aioexec.train.checkpoints.checkpoint_state import get_checkpoint_state, latest_checkpoint
from aioexec.train.off_loop import off_loop
from tests.train.kills.lives import Lived, Nursery, nursery
from tests.train.kills.model import KEPT, MANNERS, Model, model
from tests.train.kills.nursery import Life

SAVES = 3
"""In a life, after two that were not disturbed: the third and later ones delete older ones."""
KILLS_IN_SUITE = 16
"""Of each manner."""
KILLS_IN_SWEEP = 340


@pytest.fixture(autouse=True)
def nothing_waits_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is processes that die here, not the system."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(scope="module")
def born() -> Iterator[Nursery]:
    with nursery() as found:
        yield found


async def check_after(death: Lived, folder: Path, lived: Model, disturbed: int) -> None:
    """Check the folder after a kill in a save of step `disturbed` or a later one."""
    async with lived.session() as session:
        latest = await off_loop(latest_checkpoint, folder)
        assert latest is not None, "the checkpoint before is gone"
        restored = await lived.restored(session, latest)
        acknowledged = disturbed - 1 if death.acknowledged is None else death.acknowledged
        assert restored in (acknowledged, acknowledged + 1), f"{restored} after {death}"
        state = await off_loop(get_checkpoint_state, folder)
        for path in state.all_model_checkpoint_paths:
            await lived.restored(session, path)

        await off_loop(lived.saver.recover_last_checkpoints, list(state.all_model_checkpoint_paths))
        await lived.save(session, os.fspath(folder), restored + 1)

        latest = await off_loop(latest_checkpoint, folder)
        assert latest is not None
        assert await lived.restored(session, latest) == restored + 1
        await off_loop(assert_no_litter, folder)


def assert_no_litter(folder: Path) -> None:
    state = get_checkpoint_state(folder)
    names = {os.path.basename(path) for path in state.all_model_checkpoint_paths}
    assert len(names) <= KEPT
    rest = {path.name for path in folder.iterdir()} - {"checkpoint"}
    for name in names:
        assert {f"{name}.index", f"{name}.meta"} <= rest
        rest -= {f"{name}.index", f"{name}.meta"}
        data = {each for each in rest if each.startswith(f"{name}.data-")}
        counts = {each.rpartition("-")[2] for each in data}
        assert counts == {f"{len(data):05d}"}, data
        rest -= data
    assert not rest


def calls_of(born: Nursery, manner: str, folder: Path) -> int:
    """How many calls that touch the disk a life has."""
    whole = born.live(Life(os.fspath(folder), manner, first=3, saves=SAVES))
    assert (whole.exit_code, whole.acknowledged) == (0, 2 + SAVES)
    assert whole.calls is not None
    return whole.calls


async def kill_often(born: Nursery, tmp_path: Path, manner: str, deaths: Sequence[Mapping[str, Any]]) -> None:
    for k, death in enumerate(deaths):
        folder = tmp_path / str(k)
        folder.mkdir()
        begun = model(manner)
        async with begun.session() as session:
            for step in (1, 2):
                await begun.save(session, os.fspath(folder), step)
        died = born.live(Life(os.fspath(folder), manner, first=3, saves=SAVES, **death))
        assert died.exit_code < 0 or "die_after" in death, died
        await check_after(died, folder, begun, disturbed=3)


@pytest.mark.slow
@pytest.mark.parametrize("manner", MANNERS)
async def test_a_save_that_is_killed_before_some_call_leaves_the_checkpoints_before(
    born: Nursery, tmp_path: Path, manner: str
) -> None:
    (tmp_path / "whole").mkdir()
    calls = calls_of(born, manner, tmp_path / "whole")

    chosen = random.sample(range(1, calls + 1), KILLS_IN_SUITE)

    await kill_often(born, tmp_path, manner, [{"die_before": k} for k in chosen])


@pytest.mark.slow
@pytest.mark.parametrize("manner", MANNERS)
async def test_a_save_that_is_killed_at_some_time_leaves_the_checkpoints_before(
    born: Nursery, tmp_path: Path, manner: str
) -> None:
    await kill_often(born, tmp_path, manner, [{"die_after": random.uniform(0.001, 0.1)} for _ in range(2)])


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("manner", MANNERS)
async def test_a_save_that_is_killed_anywhere_leaves_the_checkpoints_before(
    born: Nursery, tmp_path: Path, manner: str
) -> None:
    (tmp_path / "whole").mkdir()
    calls = calls_of(born, manner, tmp_path / "whole")
    everywhere: list[dict[str, float]] = [{"die_before": k} for k in range(1, calls + 1)]
    sometimes = [{"die_after": random.uniform(0.0001, 0.15)} for _ in range(KILLS_IN_SWEEP - len(everywhere))]

    await kill_often(born, tmp_path, manner, [*everywhere, *sometimes])
