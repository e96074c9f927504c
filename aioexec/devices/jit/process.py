"""The parent's end of the compiler child: started on demand, asked one kernel at a time, restarted."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from aioexec.devices.jit.child import receive, send
from aioexec.devices.jit.objects import ObjectCode

START_SECONDS = 60.0
COMPILE_SECONDS = 120.0


class CompileError(Exception):
    """This kernel cannot be compiled; others may."""


class CompilerUnavailableError(Exception):
    """No kernel can be compiled this way: there is no child, or it was told to end."""


def child_command() -> list[str]:
    """How to start the child: by path and isolated, whatever started us (a script, stdin, a program)."""
    return [sys.executable, "-I", str(Path(__file__).with_name("child.py"))]


def child_environment(features: str) -> dict[str, str]:
    """Our environment without what would change the child's code, and one thread for what it loads."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "PYTHON"))
    }
    environment.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    if features:
        environment["NUMBA_CPU_FEATURES"] = features
    return environment


class CompilerProcess:
    """The child, or the lack of one.

    `compile` is called from one thread at a time; `close` from any, at any time.

    Attributes:
        command: how to start it.
        features: CPU features it compiles for; "" leaves it to numba.
        running: whether a child exists that we have not closed.
    """

    def __init__(self, command: Sequence[str] | None = None) -> None:
        self.command = list(command) if command is not None else child_command()
        self.features = ""
        self._lock = threading.Lock()  # guards the two fields below
        self._child: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None  # there while _child is

    @property
    def running(self) -> bool:
        return self._child is not None

    def compile(self, request: str) -> ObjectCode:
        """Compile one request; a child that has left since the last one is replaced once.

        Raises:
            CompileError: the kernel is at fault.
            CompilerUnavailableError: the child cannot be started.
        """
        for last in (False, True):
            connection = self._connection
            fresh = connection is None
            if connection is None:
                connection = self._start()
            try:
                return exchange(connection, request)
            except TimeoutError as error:
                self.close()
                raise CompileError(f"not compiled within {COMPILE_SECONDS:.0f} s") from error
            except (OSError, EOFError, ValueError) as error:
                self.close()
                if last or fresh:
                    raise CompileError(f"the compiler process ended on it: {error}") from error
        raise AssertionError("unreachable")

    def close(self) -> None:
        """End the child and free its pipe; safe while another thread waits for an answer."""
        with self._lock:
            child, connection = self._child, self._connection
            self._child = self._connection = None
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        if child is not None:
            child.kill()  # it keeps nothing: no need to ask
            child.wait()

    def reap(self) -> None:
        """Free what is left of a child that ended for lack of work."""
        child = self._child
        if child is not None and child.poll() is not None:
            self.close()

    def forget(self) -> None:
        """Let go of a child that belongs to the process we were forked from."""
        child, connection = self._child, self._connection
        self._lock = threading.Lock()
        self._child = self._connection = None
        if connection is not None:
            connection.close()
        if child is not None:
            child.returncode = 0  # not ours to wait for

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                child = subprocess.Popen(
                    self.command,
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=child_environment(self.features),
                )
        except (OSError, ValueError) as error:
            ours.close()
            raise CompilerUnavailableError(f"cannot start {self.command[0]!r}: {error}") from error
        with self._lock:
            self._child, self._connection = child, ours
        try:
            greet(ours)
        except (OSError, EOFError, ValueError) as error:
            self.close()
            raise CompilerUnavailableError(f"the compiler process did not come up: {error}") from error
        return ours


def greet(connection: socket.socket) -> None:
    """Tell a new child where to import from; wait until it is ready."""
    connection.settimeout(START_SECONDS)
    send(connection, {"path": [each for each in sys.path if os.path.isabs(each)]})
    document, _ = receive(connection)
    if "error" in document:
        raise ValueError(document["error"])
    connection.settimeout(COMPILE_SECONDS)


def exchange(connection: socket.socket, request: str) -> ObjectCode:
    """One question, one answer."""
    send(connection, json.loads(request))
    document, image = receive(connection)
    if "error" in document:
        raise CompileError(str(document["error"]))
    return ObjectCode(str(document["symbol"]), image)
