"""A TensorFlow server process, which tests may kill and restart at the same address."""

from __future__ import annotations

import os
import subprocess
import sys
from types import TracebackType
from typing import Self

from tests.distributed.processes import free_addresses

_PROGRAM = """
import sys
import tensorflow.compat.v1 as tf

server = tf.train.Server({"localhost": [sys.argv[1]]}, job_name="localhost", task_index=0)
print("serves", flush=True)
sys.stdin.read()
"""


class TensorFlowServer:
    """`with` it the server is there; it ends with this process."""

    def __init__(self) -> None:
        self.address = free_addresses(1)[0]
        self._process: subprocess.Popen[str] | None = None

    @property
    def target(self) -> str:
        return f"grpc://{self.address}"

    def start(self) -> None:
        """Start it and wait until it serves."""
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, self.address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"},
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "serves\n", "TensorFlow's server did not start"

    def kill(self) -> None:
        """End it as `kill -9` does."""
        process, self._process = self._process, None
        assert process is not None, "it was started"
        process.kill()
        process.communicate()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.kill()
