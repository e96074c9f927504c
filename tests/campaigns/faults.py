"""System faults during saving, event files and steps: errors are canonical, and everything works after the fault.

    python -m tests.campaigns.faults --count 2000

A seed selects a fault and an operation. A fault is real if a process can cause it by itself (limits of memory and descriptors,
signals, a killed child, a small disk if mounting is permitted), and otherwise a failing system call.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np

import aioexec as ax
from aioexec.devices.jit import library as library_module
from aioexec.devices.jit.cache import ObjectCache
from aioexec.devices.jit.library import KernelLibrary
from aioexec.errors import OpError
from aioexec.train import Saver
from aioexec.train.checkpoints.checkpoint_state import get_checkpoint_state, latest_checkpoint
from aioexec.train.off_loop import off_loop
from tests.campaigns import campaign
from tests.thread_faults import no_threads
from tests.train.kills.nursery import TOUCHING

Fault = contextlib.AbstractContextManager[Any]
SIZE = 300
WAITS = 60.0
"""Seconds after which a call hangs."""
DISK_ERRORS = (
    errno.ENOSPC,
    errno.EROFS,
    errno.EIO,
    errno.EDQUOT,
    errno.EMFILE,
    errno.ENFILE,
    errno.EACCES,
    errno.EFBIG,
)


class Program:
    """A session with a variable all of whose elements are equal, and what was acknowledged of it.

    `count` is how often an addition was acknowledged, `uncertain` how many failed; `saved` the last acknowledged checkpoint.
    """

    def __init__(self, session: Any, folder: Path, nodes: dict[str, Any], saver: Saver) -> None:
        self.session, self.folder, self.nodes, self.saver = session, folder, nodes, saver
        self.count = self.uncertain = self.saved = 0
        self._numbers = itertools.count(1)

    async def attempt(self, what: Coroutine[Any, Any, Any]) -> Any:
        """Await something that may fail with a canonical error; then None. Anything else that it raises is a finding."""
        try:
            async with asyncio.timeout(WAITS):
                return await what
        except OpError as error:
            if not error.message:
                raise AssertionError(f"it does not say why: {error!r}") from error
            return None

    async def add(self) -> None:
        if (
            await self.attempt(self.session.run([self.nodes["add"], self.nodes["large"]], self._feeds()))
            is None
        ):
            self.uncertain += 1
        else:
            self.count += 1

    def _feeds(self) -> dict[Any, Any]:
        return {self.nodes["x"]: np.ones((SIZE, SIZE), np.float32)}

    async def save(self) -> None:
        number = next(self._numbers)
        if (
            await self.attempt(self.saver.save(self.session, f"{self.folder}/model", global_step=number))
            is not None
        ):
            self.saved = number

    async def write_events(self) -> None:
        async def write() -> None:
            writer = await off_loop(ax.summary.FileWriter, os.fspath(self.folder / "events"))
            try:
                writer.add_summary(ax.Summary(value=[ax.Summary.Value(tag="a", simple_value=1.0)]), 1)
                await writer.flush()
            finally:
                await writer.close()

        await self.attempt(write())

    async def write_files(self) -> None:
        await self.attempt(self.session.run(self.nodes["write"]))
        await self.attempt(self.session.run(self.nodes["read"]))

    async def open_session(self) -> None:
        """Open a session and have it compile, a loop among other things."""
        config = ax.ConfigProto()
        config.aioexec.jit = "eager"
        with ax.Graph().as_default() as graph:
            x = ax.placeholder(ax.float64, [None])
            y = ax.cumsum(ax.square(x))

        async def run() -> Any:
            async with ax.Session(graph=graph, config=config) as session:
                return await session.run(y, {x: [1.0, 2.0, 3.0]})

        value = await self.attempt(run())
        assert value is None or value.tolist() == [1.0, 5.0, 14.0], value

    async def compute_much(self) -> None:
        """A step whose values take 100 MiB."""
        await self.attempt(self.session.run(self.nodes["large"], {self.nodes["x"]: _much()}))

    async def check(self) -> None:
        """Check the state after the fault."""
        async with asyncio.timeout(WAITS):
            value, total = await self.session.run([self.nodes["value"], self.nodes["large"]], self._feeds())
            added = float(value[0, 0])
            assert (value == added).all(), "torn"
            assert self.count <= added <= self.count + self.uncertain, (added, self.count, self.uncertain)
            np.testing.assert_allclose(total, SIZE**3, rtol=1e-4)
            await off_loop(self._check_checkpoints)
            path = await self.saver.save(
                self.session, f"{self.folder}/model", global_step=next(self._numbers)
            )
            assert path == await off_loop(latest_checkpoint, self.folder)
            await self.saver.restore(self.session, path)
            assert (await self.session.run(self.nodes["value"]) == added).all()
            left = [each.name for each in self.folder.iterdir() if "temp" in each.name]
            assert not left, left

    def _check_checkpoints(self) -> None:
        latest = latest_checkpoint(self.folder)
        if latest is None:
            assert not self.saved, f"the acknowledged checkpoint {self.saved} is gone"
            return
        assert int(latest.rpartition("-")[2]) >= self.saved, (latest, self.saved)
        for path in get_checkpoint_state(self.folder).all_model_checkpoint_paths:
            with contextlib.closing(ax.train.load_checkpoint(path)) as reader:
                value = reader.get_tensor("count")
                assert (value == value[0, 0]).all(), f"{path} is torn"


@contextlib.asynccontextmanager
async def program(folder: Path, jit: str) -> AsyncIterator[Program]:
    """A session that has run, saved and started its threads."""
    config = ax.ConfigProto()
    config.aioexec.jit = jit
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [None, SIZE], name="x")
        count = ax.Variable(ax.zeros([SIZE, SIZE]), name="count", use_resource=True)
        nodes = {
            "x": x,
            "add": count.assign_add(ax.ones([SIZE, SIZE]), read_value=False),
            "large": ax.reduce_sum(ax.matmul(ax.nn.relu(x + 1.0) - 1.0, ax.ones([SIZE, SIZE]))),
            "value": count.read_value(),
            "write": ax.write_file(os.fspath(folder / "file"), "content" * 1000),
            "read": ax.read_file(os.fspath(folder / "file")),
        }
        initial, saver = ax.global_variables_initializer(), Saver(max_to_keep=2)
    async with ax.Session(graph=graph, config=config) as session:
        await session.run(initial)
        _much()  # it is there before the fault
        yield Program(session, folder, nodes, saver)


@cache
def _much() -> np.ndarray[Any, Any]:
    return np.ones((30_000, SIZE), np.float32)


ACTIONS = (
    Program.add,
    Program.add,
    Program.save,
    Program.write_events,
    Program.write_files,
    Program.open_session,
    Program.compute_much,
)


@contextlib.contextmanager
def failing_call(chance: Random) -> Iterator[None]:
    """One call that touches the disk fails, or all from one on."""
    number, error, lasts = chance.randint(1, 40), chance.choice(DISK_ERRORS), chance.random() < 0.5
    count = itertools.count(1)

    def wrap(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            now = next(count)
            if now == number or (lasts and now > number):
                raise OSError(error, os.strerror(error))
            return call(*arguments, **options)

        return wrapped

    with contextlib.ExitStack() as patches:
        for name in TOUCHING:
            patches.enter_context(patch.object(os, name, wrap(getattr(os, name))))
        yield


@contextlib.contextmanager
def short_writes(chance: Random) -> Iterator[None]:
    """Every write takes a part of what it is given."""
    write = os.write

    def some(descriptor: int, data: Any) -> int:
        view = memoryview(data).cast("B")
        return write(descriptor, view[: chance.randint(1, max(1, min(len(view), 5000)))])

    with patch.object(os, "write", some):
        yield


@contextlib.contextmanager
def large_files_refused(chance: Random) -> Iterator[None]:
    """Files may be no larger than a few KiB, by the limit of the process.

    No process writes compiled modules meanwhile, the compiler of kernels included: Python keeps what the limit has cut off.
    """
    compiler = library_module.library().process
    no_modules = patch.object(compiler, "command", [compiler.command[0], "-B", *compiler.command[1:]])
    with no_modules, _limited(resource.RLIMIT_FSIZE, chance.choice([0, 1, 4096, 100_000, 350_000])):
        yield


@contextlib.contextmanager
def no_descriptors(chance: Random) -> Iterator[None]:
    """A few descriptors are left, or none."""
    taken = {int(each) for each in os.listdir("/proc/self/fd")}
    free = [each for each in range(len(taken) + 10) if each not in taken]
    with _limited(resource.RLIMIT_NOFILE, free[chance.randint(0, 6)]):
        yield


@contextlib.contextmanager
def no_memory(chance: Random) -> Iterator[None]:
    """The address space grows by some MiB at most; every MiB of it is meant to be used up by arrays."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    with _limited(resource.RLIMIT_AS, 4096 * pages + chance.randint(20 << 20, 60 << 20)):
        yield


@contextlib.contextmanager
def _limited(what: int, limit: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(what)
    resource.setrlimit(what, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(what, (soft, hard))


@contextlib.contextmanager
def threads_refused(chance: Random) -> Iterator[None]:
    with no_threads():
        yield


@contextlib.contextmanager
def signals(chance: Random) -> Iterator[None]:
    """Signals interrupt the calls of the system of the main thread, thousands in a second."""
    before = signal.signal(signal.SIGALRM, lambda number, frame: None)
    signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def jumping_clock(chance: Random) -> Iterator[None]:
    """The time of day is years away at every other look; the monotonic clock is not."""
    now = time.time
    with patch.object(time, "time", lambda: now() + chance.choice([-1e9, -5000.0, 0.0, 5000.0, 1e9])):
        yield


_libraries: list[KernelLibrary] = []  # programs use their code for as long as they are


@contextlib.contextmanager
def _library(folder: Path) -> Iterator[KernelLibrary]:
    """A library of kernels that has compiled nothing, for the sessions that are opened meanwhile."""
    made = KernelLibrary(ObjectCache(folder))
    _libraries.append(made)
    with patch.object(library_module, "PROCESS_LIBRARY", made):
        try:
            yield made
        finally:
            made.shutdown()


@contextlib.contextmanager
def unusable_cache(chance: Random) -> Iterator[None]:
    """The folder of compiled kernels is a file, or its disk fails."""
    with tempfile.TemporaryDirectory() as folder, _library(Path(folder) / "cache"):
        if chance.random() < 0.5:
            (Path(folder) / "cache").write_bytes(b"")
            yield
        else:
            with failing_call(chance):
                yield


@contextlib.contextmanager
def killed_compiler(chance: Random) -> Iterator[None]:
    """The child that compiles loops is killed occasionally."""
    with tempfile.TemporaryDirectory() as folder, _library(Path(folder)) as made:

        async def kill() -> None:
            for _ in range(chance.randint(1, 4)):
                while (child := made.process._child) is None:
                    await asyncio.sleep(0.01)
                await asyncio.sleep(chance.uniform(0.0, 2.0))
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child.process.pid, signal.SIGKILL)

        killing = asyncio.create_task(kill())
        try:
            yield
        finally:
            killing.cancel()


FAULTS: tuple[Callable[[Random], Fault], ...] = (
    failing_call,
    short_writes,
    large_files_refused,
    no_descriptors,
    no_memory,
    threads_refused,
    signals,
    jumping_clock,
    unusable_cache,
    killed_compiler,
)
DISK_BYTES = 700_000


@contextlib.contextmanager
def folder_of(chance: Random) -> Iterator[tuple[Path, Callable[[], None]]]:
    """A folder for a case, occasionally on a disk that is soon full, and a function that enlarges that disk."""
    with tempfile.TemporaryDirectory(prefix="aioexec-faults-") as name:
        if chance.random() >= 0.2 or not _can_mount():
            yield Path(name), lambda: None
            return

        def mount(options: str) -> None:
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", name], check=True)

        mount(f"size={DISK_BYTES}")
        try:
            yield Path(name), lambda: mount("remount,size=64m")
        finally:
            subprocess.run(["umount", "-l", name], check=True)


@cache
def _can_mount() -> bool:
    with tempfile.TemporaryDirectory() as name:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", name], check=False, capture_output=True)
        if mounted.returncode == 0:
            subprocess.run(["umount", name], check=True)
        return mounted.returncode == 0


async def run(seed: int) -> None:
    """One case: a program, a fault during some of what it does, and what must hold afterwards."""
    chance = Random(seed)
    with folder_of(chance) as (folder, make_room):
        async with program(folder, chance.choice(["off", "background", "eager"])) as running:
            for _ in range(2 if chance.random() < 0.8 else 0):
                await running.add()
                await running.save()
            with patch.object(sys, "dont_write_bytecode", True), FAULTS[seed % len(FAULTS)](chance):
                for _ in range(chance.randint(1, 4)):
                    together = [chance.choice(ACTIONS)(running) for _ in range(chance.randint(1, 3))]
                    await asyncio.gather(*together)
            make_room()
            await running.check()


def case(seed: int) -> str | None:
    """One fault."""
    asyncio.run(run(seed))
    return None


if __name__ == "__main__":
    raise SystemExit(campaign.main(case))
