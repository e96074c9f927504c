"""A server of ours in a separate process, for TensorFlow's clients, whose calls hold the interpreter lock of their process."""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType, TracebackType
from typing import Any, Self

from tests.distributed.processes import REPOSITORY, free_addresses
from tests.interop.behaviours.both import Program, disagreement
from tests.interop.distributed.served import NOT_ON_TENSORFLOW, ThereOnServer, of_program

_PROGRAM = """
import asyncio, json, sys
import aioexec as ax

async def serve():
    cluster, job, index, config = json.loads(sys.argv[1])
    async with ax.train.Server(cluster, job, index) as server:
        print("serves", flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(serve())
"""


class ServerProcess:
    """`with` it the server is there; it can be killed and started again at its address.

    Args:
        cluster: by job, the addresses of the tasks.
    """

    def __init__(
        self, cluster: dict[str, list[str]] | None = None, job: str = "localhost", task: int = 0
    ) -> None:
        self._cluster = cluster or {"localhost": free_addresses(1)}
        self._job, self._task = job, task
        self.target = f"grpc://{self._cluster[job][task]}"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it; `wait` until it serves."""

        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, json.dumps([self._cluster, self._job, self._task, None])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
            env={**os.environ, "AIOEXEC_JIT": "off"},
        )

    def wait(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "serves\n", "the server did not start"

    def kill(self) -> None:
        """End it as `kill -9` does."""
        process, self._process = self._process, None
        assert process is not None, "it was started"
        process.send_signal(signal.SIGKILL)
        process.communicate()

    def __enter__(self) -> Self:
        self.start()
        self.wait()
        return self

    @contextmanager
    def started(self) -> Iterator[Self]:
        """`with` it a server that was started serves, and ends with the block."""
        try:
            self.wait()
            yield self
        finally:
            self.stop()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End it, if it was not killed."""
        process, self._process = self._process, None
        if process is not None:
            process.communicate(timeout=20)
            assert process.returncode == 0, "the server ended badly"


async def agreed_of_servers(tf: Any, tf_target: str, our_target: str, program: Program) -> Any:
    """Run a program with TensorFlow's client on both servers; the result with ours, which is the same."""
    results = []
    for target in (tf_target, our_target):
        engine = ThereOnServer(tf, target)
        await engine.reset()
        try:
            results.append(await of_program(engine, program))
        except Exception as error:
            error.add_note(f"on {'aioexec' if target == our_target else 'TensorFlow'}'s server")
            raise
    theirs, ours = results
    problem = disagreement(ours, theirs)
    assert not problem, problem
    return ours


def programs_of(*modules: ModuleType, without: frozenset[str] = frozenset()) -> dict[str, Callable[..., Any]]:
    """The tests of these modules that want both engines to agree, where TensorFlow's servers agree with its sessions."""
    return {
        name: test
        for module in modules
        for name, test in vars(module).items()
        if name.startswith("test_")
        and name not in NOT_ON_TENSORFLOW | without
        and "agree" in inspect.signature(test).parameters
    }
