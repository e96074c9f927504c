"""Savers under faults: failing system calls, cancelled saves, damaged checkpoints, concurrent writers."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aioexec as tf
from aioexec.errors import (
    DataLossError,
    GraphValueError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    PermissionDeniedError,
    ResourceExhaustedError,
)
from aioexec.formats.checkpoint_files import OutputFile
from aioexec.train import Saver, get_checkpoint_state, latest_checkpoint
from aioexec.train.checkpoints import saver as saver_module
from aioexec.train.checkpoints.begun_saves import BegunSave, clean_up_folder
from aioexec.train.off_loop import off_loop
from tests.train.kills.model import MANNERS, Model as KilledModel, model as killed_model
from tests.train.kills.nursery import TOUCHING
from tests.train.saving import Model
from tests.train.test_saver_kills import assert_no_litter

FAILURES_IN_SUITE = 12


@pytest.fixture(autouse=True)
def nothing_waits_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


class Faults:
    """Makes one system call on files fail: the `fail_at`-th, or each one for which `refuses` is true."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.fail_at: int | None = None
        self.refuses: Callable[[str, tuple[Any, ...]], bool] = lambda name, arguments: False
        self.error = errno.ENOSPC
        for name in TOUCHING:
            monkeypatch.setattr(os, name, self._wrap(name, getattr(os, name)))

    def _wrap(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            self.count += 1
            if self.count == self.fail_at or self.refuses(name, arguments):
                raise OSError(self.error, os.strerror(self.error))
            return call(*arguments, **options)

        return wrapped


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    return Faults(monkeypatch)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


async def check_state(lived: KilledModel, session: tf.Session, folder: Path, steps: tuple[int, ...]) -> None:
    """The checkpoints listed are whole, and the latest is of one of these steps."""
    state = await off_loop(get_checkpoint_state, folder)
    for path in state.all_model_checkpoint_paths:
        await lived.restored(session, path)
    assert await lived.restored(session, state.model_checkpoint_path) in steps


@pytest.mark.slow
@pytest.mark.parametrize("manner", MANNERS)
async def test_whatever_call_fails_the_checkpoints_before_are_there_and_nothing_is_left(
    tmp_path: Path, faults: Faults, manner: str
) -> None:
    lived = killed_model(manner)
    async with lived.session() as session:
        for step in (1, 2, 3):
            before = faults.count
            await lived.save(session, os.fspath(tmp_path), step)
        calls = faults.count - before
        for k in random.sample(range(1, calls + 1), FAILURES_IN_SUITE):
            faults.fail_at = faults.count + k
            with contextlib.suppress(
                ResourceExhaustedError
            ):  # not where it is only a file that could not be removed
                await lived.save(session, os.fspath(tmp_path), step + 1)
                step += 1
            faults.fail_at = None
            await check_state(lived, session, tmp_path, (step, step + 1))

            step += 1
            await lived.save(session, os.fspath(tmp_path), step)
            await check_state(lived, session, tmp_path, (step,))
            await off_loop(assert_no_litter, tmp_path)


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (errno.ENOSPC, ResourceExhaustedError, "No space left on device"),
        (errno.EROFS, PermissionDeniedError, "Read-only file system"),
        (errno.EACCES, PermissionDeniedError, "Permission denied"),
        (errno.EDQUOT, ResourceExhaustedError, "quota"),
        (
            errno.EFBIG,
            ResourceExhaustedError,
            "File too large",
        ),  # not OutOfRangeError, which ends training well
    ],
)
@pytest.mark.parametrize("call", ["open", "write"])
async def test_a_failed_write_names_its_cause_and_leaves_all_as_before(
    tmp_path: Path, faults: Faults, error: int, kind: type[OpError], message: str, call: str
) -> None:
    model = Model()
    async with model.session() as session:
        await model.save(session, tmp_path / "m", 1, global_step=1)
        before = contents(tmp_path)
        last = model.saver.last_checkpoints
        faults.error = error

        def refuses(name: str, arguments: tuple[Any, ...]) -> bool:
            writes = name == "write" or (len(arguments) > 1 and arguments[1] & (os.O_WRONLY | os.O_RDWR))
            return name == call and bool(writes)

        faults.refuses = refuses
        with pytest.raises(kind, match=message) as raised:
            await model.save(session, tmp_path / "m", 2, global_step=2)

        faults.refuses = lambda name, arguments: False
        assert os.fspath(tmp_path) in raised.value.message
        assert contents(tmp_path) == before
        assert model.saver.last_checkpoints == last
        assert await model.restored(session, await off_loop(latest_checkpoint, tmp_path)) == 1


async def test_a_disk_that_fills_up_late_leaves_no_part_of_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faults: Faults
) -> None:
    model = Model()
    async with model.session() as session:
        await model.save(session, tmp_path / "m", 1, global_step=1)
        before = contents(tmp_path)
        for written in range(1, 9):
            left = written

            def refuses(name: str, arguments: tuple[Any, ...]) -> bool:
                nonlocal left
                left -= name == "write"
                return name == "write" and left < 0

            faults.refuses = refuses
            with pytest.raises(ResourceExhaustedError, match="No space left"):
                await model.save(session, tmp_path / "m", 2, global_step=2)
            faults.refuses = lambda name, arguments: False
            await off_loop(clean_up_folder, os.fspath(tmp_path))
            assert contents(tmp_path) == before, written


async def test_a_folder_that_is_not_there_or_is_a_file_is_an_error(tmp_path: Path) -> None:
    model = Model()
    (tmp_path / "file").write_bytes(b"x")
    async with model.session() as session:
        for folder in (tmp_path / "no" / "where", tmp_path / "file"):
            with pytest.raises(GraphValueError, match=r"Parent directory of .* doesn't exist, can't save"):
                await model.save(session, folder / "m", 1)
    assert os.listdir(tmp_path) == ["file"]


async def test_a_folder_is_made_in_one_that_is_there(tmp_path: Path) -> None:
    model = Model()
    async with model.session() as session:
        path = await model.save(session, tmp_path / "new" / "m", 6)

        assert await model.restored(session, path) == 6


async def test_a_folder_that_vanishes_while_it_is_saved_into_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model()
    (tmp_path / "runs").mkdir()
    commit = OutputFile.commit

    def vanishing(file: OutputFile) -> None:
        shutil.rmtree(tmp_path / "runs")
        commit(file)

    async with model.session() as session:
        monkeypatch.setattr(OutputFile, "commit", vanishing)
        with pytest.raises(GraphValueError, match=r"Parent directory of .* doesn't exist"):
            await model.save(session, tmp_path / "runs" / "m", 1)
        monkeypatch.setattr(OutputFile, "commit", commit)

        path = await model.save(session, tmp_path / "runs" / "m", 2)
        assert await model.restored(session, path) == 2


# Damaged checkpoints


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 4
    path.write_bytes(content)


def remove(path: Path) -> None:
    path.unlink()


def later_version(path: Path) -> None:
    from tests.formats.bundles import rewrite_index

    header = bytes.fromhex("08011a0408011002")  # one shard, for readers of version 2 and later
    rewrite_index(os.fspath(path).removesuffix(".index"), lambda entries: entries.update({b"": header}))


@pytest.mark.parametrize(
    ("damage", "ending", "kind", "message"),
    [
        (cut, "index", DataLossError, "Perhaps the file is corrupt"),
        (cut, "data-00000-of-00001", DataLossError, "Read less bytes than requested"),
        (flip, "index", DataLossError, "Perhaps the file is corrupt"),
        (flip, "data-00000-of-00001", DataLossError, "Checksum does not match"),
        (remove, "index", GraphValueError, "not a valid checkpoint"),
        (remove, "data-00000-of-00001", NotFoundError, "No such file or directory"),
        (later_version, "index", InvalidArgumentError, "min consumer version 2 above current version 1"),
    ],
)
async def test_a_damaged_checkpoint_is_not_restored(
    tmp_path: Path, damage: Callable[[Path], None], ending: str, kind: type[OpError], message: str
) -> None:
    model = Model()
    async with model.session() as session:
        path = await model.save(session, tmp_path / "m", 4)
        await session.run(model.set_all, {model.number: 5})
        await off_loop(damage, Path(f"{path}.{ending}"))

        with pytest.raises(kind, match=message):
            await model.saver.restore(session, path)

        assert await model.value(session) == 5


@pytest.mark.parametrize("use_resource", [False, True])
async def test_a_variable_of_another_shape_or_dtype_leaves_all_as_they_were(
    tmp_path: Path, use_resource: bool
) -> None:
    model = Model(use_resource)
    async with model.session() as session:
        path = await model.save(session, tmp_path / "m", 4)
    for shape, dtype in (([5], tf.float32), ([4], tf.float64)):
        with tf.Graph().as_default() as graph:
            kept = tf.Variable(tf.zeros([2, 3]), name="v", use_resource=use_resource)
            tf.Variable(tf.zeros(shape, dtype), name="w", use_resource=use_resource)
            other, initializer = Saver(), tf.global_variables_initializer()
        async with tf.Session(graph=graph) as session:
            await session.run(initializer)
            with pytest.raises(InvalidArgumentError, match="Restoring from checkpoint failed"):
                await other.restore(session, path)

            assert not np.any(await session.run(kept))


# Given up, and at once with others


class Cancelling:
    """Cancels the running task where it goes off the loop for the `at`-th time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.at: int | None = None
        monkeypatch.setattr(saver_module, "off_loop", self._call)

    async def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        self.count += 1
        if self.count == self.at:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        return await off_loop(function, *arguments)


@pytest.mark.parametrize("manner", MANNERS)
async def test_a_save_that_is_cancelled_anywhere_leaves_nothing_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manner: str
) -> None:
    cancelling = Cancelling(monkeypatch)
    lived = killed_model(manner)
    async with lived.session() as session:
        await lived.save(session, os.fspath(tmp_path), 1)
        awaits = cancelling.count
        await lived.save(session, os.fspath(tmp_path), 2)
        for k, step in enumerate(range(3, 3 + awaits), start=1):
            cancelling.at = cancelling.count + k
            with pytest.raises(asyncio.CancelledError):
                await asyncio.create_task(lived.save(session, os.fspath(tmp_path), step))
            cancelling.at = None
            await check_state(lived, session, tmp_path, tuple(range(2, step + 1)))
            await off_loop(assert_no_litter, tmp_path)


async def test_a_step_that_is_cancelled_while_it_saves_leaves_the_checkpoint_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model()
    write, writing, go_on = OutputFile.write, asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slow(file: OutputFile, data: Any) -> None:
        loop.call_soon_threadsafe(writing.set)
        go_on.wait()
        write(file, data)

    async with model.session() as session:
        await model.save(session, tmp_path / "m", 1)
        before = contents(tmp_path)
        monkeypatch.setattr(OutputFile, "write", slow)
        saving = asyncio.create_task(model.save(session, tmp_path / "m", 2))
        await writing.wait()
        saving.cancel()
        loop.call_soon(go_on.set)
        with pytest.raises(asyncio.CancelledError):
            await saving
        monkeypatch.setattr(OutputFile, "write", write)

        assert contents(tmp_path) == before
        assert await model.restored(session, tmp_path / "m") == 1


@pytest.mark.parametrize("use_resource", [False, True])
async def test_steps_that_run_meanwhile_do_not_change_what_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use_resource: bool
) -> None:
    with tf.Graph().as_default() as graph:
        variable = tf.Variable(tf.zeros([1000, 1000]), name="v", use_resource=use_resource)
        add, saver = variable.assign_add(tf.ones([1000, 1000])), Saver()
    write, writing, go_on = OutputFile.write, asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slow(file: OutputFile, data: Any) -> None:
        loop.call_soon_threadsafe(writing.set)
        go_on.wait()
        write(file, data)

    async with tf.Session(graph=graph) as session:
        await session.run(variable.initializer)
        await session.run(add.op if use_resource else add)
        monkeypatch.setattr(OutputFile, "write", slow)
        saving = asyncio.create_task(saver.save(session, tmp_path / "m"))
        await writing.wait()
        for _ in range(3):
            await session.run(add.op if use_resource else add)
        go_on.set()
        path = await saving
        await saver.restore(session, path)

        assert np.unique(await session.run(variable)).tolist() == [1.0]


async def test_saves_of_one_saver_at_once_are_all_listed(tmp_path: Path) -> None:
    model = Model()
    async with model.session() as session:
        await session.run(model.set_all, {model.number: 1})
        saves = (model.saver.save(session, tmp_path / "m", global_step=k) for k in range(4))
        paths = await asyncio.gather(*saves)

    assert model.saver.last_checkpoints == paths
    state = await off_loop(get_checkpoint_state, tmp_path)
    assert list(state.all_model_checkpoint_paths) == paths


# Leftovers of dead processes, and running saves


@pytest.fixture
def living(tmp_path: Path) -> Iterator[BegunSave]:
    """A save of checkpoint `other` that is under way, with a data file and no index yet."""
    begun = BegunSave(os.fspath(tmp_path / "other"), 2, "checkpoint", "meta")
    begun.begin()
    (tmp_path / "other.data-00000-of-00001").write_bytes(b"data")
    yield begun
    begun.end()


async def test_what_others_are_writing_is_left_alone(tmp_path: Path, living: BegunSave) -> None:
    model = Model()
    with await off_loop(OutputFile, os.fspath(tmp_path / "file")) as file:
        await off_loop(file.write, b"whole")
        async with model.session() as session:
            await model.save(session, tmp_path / "m", 1)
        await off_loop(file.commit)

    assert (tmp_path / "other.data-00000-of-00001").exists()
    assert (tmp_path / "file").read_bytes() == b"whole"
    assert any(".saving" in name for name in os.listdir(tmp_path))


def test_what_was_begun_and_not_finished_is_removed(tmp_path: Path, living: BegunSave) -> None:
    living.end()

    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "journal", [b"", b"{", b"[]\n", b'{"name": "../../x"}\n', b"\xff\n", b"null\n", b'{"name": 1}\n']
)
def test_a_journal_without_a_record_is_removed(tmp_path: Path, journal: bytes) -> None:
    (tmp_path / "x.index").write_bytes(b"kept")
    (tmp_path / f"x.saving{'0' * 32}").write_bytes(journal)

    clean_up_folder(os.fspath(tmp_path))

    assert os.listdir(tmp_path) == ["x.index"]


def test_a_folder_that_is_not_there_has_nothing_to_clear_away(tmp_path: Path) -> None:
    clean_up_folder(os.fspath(tmp_path / "nowhere"))


async def test_what_users_deleted_is_not_deleted_further(tmp_path: Path) -> None:
    """The `checkpoint` file is removed after a kill: all the checkpoints stay."""
    model = Model(max_to_keep=1)
    async with model.session() as session:
        for step in (1, 2):
            await model.save(session, tmp_path / "m", step, global_step=step)
        dead = BegunSave(os.fspath(tmp_path / "m-3"), 2, "checkpoint", "meta")
        await off_loop(dead.begin)
        await model.save(session, tmp_path / "m", 3, global_step=3, write_state=False)
        await off_loop(dead.replaces, [os.fspath(tmp_path / "m-2")])
        os.close(dead._descriptor)
        dead._descriptor = -1
        (tmp_path / "checkpoint").unlink()

        await off_loop(clean_up_folder, os.fspath(tmp_path))

        assert await model.restored(session, tmp_path / "m-2") == 2
        assert await model.restored(session, tmp_path / "m-3") == 3
