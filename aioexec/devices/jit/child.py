"""The compiler child: reads loop kernels as text from its standard input, answers with object files.

A process of its own because numba holds the interpreter's lock for 20 to 100 ms a kernel. It runs at low
priority, and ends when its parent does, or after half a minute without work. A kernel that no step waits for is compiled at
idle priority, in time that no other thread on the machine needs. Its standard input is a socket,
used both ways, so that nothing a library prints gets into an answer. This file and `loops.py` import nothing
of aioexec: the child is started by path and must not pay for, or depend on, the rest of the package.

A message is two lengths (4 bytes each, big endian), a JSON document, and raw bytes.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

IDLE_SECONDS = 30.0
NICENESS = 5
LENGTHS = struct.Struct(">II")
LONGEST = 2**28

Document = dict[str, Any]


def send(connection: socket.socket, document: Document, blob: bytes = b"") -> None:
    """Write one message."""
    text = json.dumps(document).encode("utf-8")
    connection.sendall(LENGTHS.pack(len(text), len(blob)) + text + blob)


def receive(connection: socket.socket) -> tuple[Document, bytes]:
    """Read one message.

    Raises:
        EOFError: the other side is gone.
        TimeoutError: nothing came within the connection's timeout.
        ValueError: what came is no message.
    """
    text_length, blob_length = LENGTHS.unpack(receive_exactly(connection, LENGTHS.size))
    if max(text_length, blob_length) > LONGEST:
        raise ValueError(f"message of {text_length} + {blob_length} bytes is too long")
    document = json.loads(receive_exactly(connection, text_length))
    if not isinstance(document, dict):
        raise ValueError(f"expected a JSON object, got {document!r}")
    return document, receive_exactly(connection, blob_length)


def receive_exactly(connection: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = connection.recv(count - len(parts))
        if not part:
            raise EOFError("the other side has closed the connection")
        parts += part
    return bytes(parts)


def load_compiler() -> ModuleType:
    """Import `loops.py` from beside this file, outside its package."""
    sys.modules["scipy"] = None  # type: ignore[assignment]  # numba would take 0.3 s to load what no kernel may call
    spec = importlib.util.spec_from_file_location(
        "aioexec_loops", os.path.join(os.path.dirname(__file__), "loops.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_at_idle_priority(call: Callable[[], None]) -> None:
    """Make a call in a thread of idle priority, where the system has one, and wait for it.

    A thread may lower its priority but not raise it again; so each call gets one of its own.
    """

    def run() -> None:
        if hasattr(os, "SCHED_IDLE"):
            with contextlib.suppress(OSError):
                os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        call()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def answer(connection: socket.socket, compiler: ModuleType, document: Document) -> None:
    reply: Document = {}
    image = b""

    def compile_loop() -> None:
        nonlocal image
        try:
            reply["symbol"], image = compiler.compile_loop(document)
        except Exception as error:  # whatever is wrong with one kernel must not end the child
            reply["error"] = f"{type(error).__name__}: {error}"

    if document.pop("is_awaited", True):
        compile_loop()
    else:
        run_at_idle_priority(compile_loop)
    send(connection, reply, image)


def serve(connection: socket.socket) -> None:
    """Greet, then answer requests until there are no more."""
    with contextlib.suppress(EOFError, TimeoutError, ConnectionError):
        greeting, _ = receive(connection)
        sys.path.extend(each for each in greeting["path"] if each not in sys.path)
        try:
            compiler = load_compiler()
        except Exception as error:
            send(connection, {"error": f"{type(error).__name__}: {error}"})
            return
        send(connection, {"ready": True})
        while True:  # the first request is on its way, however slow this machine is
            document, _ = receive(connection)
            answer(connection, compiler, document)
            connection.settimeout(IDLE_SECONDS)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    with socket.socket(fileno=0) as connection:
        serve(connection)


if __name__ == "__main__":
    main()
