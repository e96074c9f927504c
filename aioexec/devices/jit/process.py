"""The parent's side of the compiler child: starts it on demand, sends one request at a time, restarts it if it ends."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence

from aioexec.data_classes import dataclass
from aioexec.devices.jit.child import receive, send
from aioexec.devices.jit.objects import ObjectCode
from aioexec.devices.jit.target import Target

START_SECONDS = COMPILE_SECONDS = 600.0
"""A child that takes longer is considered hung; on an overloaded machine one second of work may take a minute."""
STARVED_SECONDS = 5.0
"""If a kernel takes longer at idle priority, other threads use all processors: the child goes on at low priority instead."""


class SourceError(Exception):
    """A body cannot be sent to the child: no source, a closure, or a global that is neither function nor constant."""


class CompileError(Exception):
    """This kernel cannot be compiled; others may."""


class CompilerUnavailableError(Exception):
    """There is no child and none can be started: no kernel can be compiled by it."""


class CompilerClosedError(Exception):
    """The child was ended by `close` while it compiled; it can be started again."""


@dataclass(frozen=True, slots=True, eq=False)
class Child:
    """A running child and our end of its standard input."""

    process: subprocess.Popen[bytes]
    connection: socket.socket


def child_command() -> list[str]:
    """The command that starts the child: by path and isolated, independent of how this process was started."""
    return [sys.executable, "-I", os.path.join(os.path.dirname(__file__), "child.py")]


def child_environment(target: Target | None) -> dict[str, str]:
    """Our environment without variables that would change the generated code, and with one thread for its libraries."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "PYTHON"))
    }
    environment.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    if target is not None:
        environment.update(NUMBA_CPU_NAME=target.cpu, NUMBA_CPU_FEATURES=target.features)
    return environment


class CompilerProcess:
    """The child process, which may not be running.

    `compile` is called from one thread at a time; all other methods from any thread, at any time.

    Attributes:
        command: how to start it.
        target: the processor it compiles for; None leaves it to numba.
    """

    def __init__(self, command: Sequence[str] | None = None) -> None:
        self.command = list(command) if command is not None else child_command()
        self.target: Target | None = None
        self._lock = threading.Lock()  # guards what follows
        self._child: Child | None = None
        self._closings = 0  # how often `close` was called
        self._is_starved = False  # at idle priority the child would get no time

    @property
    def running(self) -> bool:
        """Whether there is a child, alive or not yet reaped."""
        return self._child is not None

    @property
    def descriptor(self) -> int | None:
        """The file descriptor of the connection to it; None if there is no child."""
        child = self._child
        return None if child is None else child.connection.fileno()

    def compile(self, request: str, is_awaited: bool = True) -> ObjectCode:
        """Compile one request; a child that has left since the last one is replaced, and a new one that ends on it once.

        Args:
            is_awaited: a step waits for the kernel; otherwise it is compiled at idle priority if that takes little longer.

        Raises:
            CompileError: the kernel is at fault.
            CompilerUnavailableError: the child cannot be started.
            CompilerClosedError: `close` was called meanwhile.
        """
        closings = self._closings
        is_awaited = is_awaited or self._is_starved
        ended = 0  # how many new children have
        while True:
            child = self._child
            fresh = child is None
            if child is None:
                child = self._start(closings)
            try:
                return exchange(child.connection, request, is_awaited)
            except TimeoutError as error:
                self._drop(child)
                if is_awaited:
                    raise CompileError(f"not compiled within {COMPILE_SECONDS:.0f} s") from error
                is_awaited = self._is_starved = True
            except (OSError, EOFError, ValueError) as error:
                self._drop(child)
                if self._closings != closings:
                    raise CompilerClosedError from error
                ended += fresh
                if ended == 2:  # the first may have been killed for its memory, or by its user
                    raise CompileError(f"the compiler process ended on it: {error}") from error

    def close(self) -> None:
        """End the child and close the connection; a thread that waits for a reply gets CompilerClosedError."""
        with self._lock:
            self._closings += 1
            child = self._child
        if child is not None:
            self._drop(child)

    def reap(self) -> None:
        """Release the resources of a child that ended after it was idle."""
        child = self._child
        if child is not None and child.process.poll() is not None:
            self._drop(child)

    def forget(self) -> None:
        """Drop a child that belongs to the parent process, after a fork."""
        child, self._child = self._child, None
        self._lock = threading.Lock()
        if child is not None:
            child.connection.close()
            child.process.returncode = 0  # this process cannot wait for it

    def _drop(self, child: Child) -> None:
        with self._lock:
            if self._child is child:
                self._child = None
        with contextlib.suppress(OSError):
            child.connection.shutdown(socket.SHUT_RDWR)
        child.connection.close()
        child.process.kill()  # it has no state to save
        child.process.wait()

    def _start(self, closings: int) -> Child:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                process = subprocess.Popen(
                    self.command,
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=child_environment(self.target),
                )
        except (OSError, ValueError) as error:
            ours.close()
            raise CompilerUnavailableError(f"cannot start {self.command[0]!r}: {error}") from error
        child = Child(process, ours)
        with self._lock:
            closed = self._closings != closings
            if not closed:
                self._child = child
        try:
            if not closed:
                greet(ours)
                return child
        except (OSError, EOFError, ValueError) as error:
            self._drop(child)
            if self._closings == closings:
                raise CompilerUnavailableError(f"the compiler process did not come up: {error}") from error
        self._drop(child)
        raise CompilerClosedError


def greet(connection: socket.socket) -> None:
    """Send a new child the paths to import from, and wait until it is ready."""
    connection.settimeout(START_SECONDS)
    send(connection, {"path": [each for each in sys.path if os.path.isabs(each)]})
    document, _ = receive(connection)
    if "error" in document:
        raise ValueError(document["error"])


def exchange(connection: socket.socket, request: str, is_awaited: bool) -> ObjectCode:
    """Send one request, and receive its reply."""
    connection.settimeout(COMPILE_SECONDS if is_awaited else STARVED_SECONDS)
    send(connection, {**json.loads(request), "is_awaited": is_awaited})
    document, image = receive(connection)
    if "error" in document:
        raise CompileError(str(document["error"]))
    return ObjectCode(str(document["symbol"]), image)
