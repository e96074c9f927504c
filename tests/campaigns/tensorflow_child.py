"""TensorFlow in a child process, which may crash: returns the outcome of a graph there."""

from __future__ import annotations

import os
import pickle
import resource
import select
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
DIED = "died"
LIMIT_S = 10.0
MOST_MEMORY = 4 << 30
"""The most growth of the process's memory."""


@dataclass(frozen=True, slots=True)
class Request:
    """A graph, what to run before, the steps' fetches and feeds: all by name."""

    graph: bytes
    init: list[str]
    steps: list[list[str]]
    feeds: dict[str, Any]
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The class and text of an error, or the shapes of the values."""

    error: str = ""
    message: str = ""
    shapes: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.error}: {self.message[:200]}" if self.error else f"shapes {self.shapes}"


class TensorFlowChild:
    """Answers requests, one at a time, each in an empty working directory; a process that has died is replaced."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def answer(self, request: Request) -> Answer:
        with tempfile.TemporaryDirectory(prefix="aioexec-tensorflow-") as folder:
            return self._answer(request, folder)

    def _answer(self, request: Request, folder: str) -> Answer:
        process = self._process
        if process is None or process.poll() is not None:
            process = self._process = subprocess.Popen(
                [sys.executable, "-c", f"from {__name__} import serve; serve()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                cwd=_ROOT,  # `tests` is found from there only
            )
            assert process.stdout is not None
            pickle.load(process.stdout)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(pickle.dumps((request, folder)))
            if not select.select([process.stdout], [], [], LIMIT_S)[0]:
                raise EOFError
            found: Answer = pickle.load(process.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            process.kill()
            process.wait()
            return Answer(DIED)
        return found

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


def serve() -> None:
    """In the child: answer until the other end of the pipe is closed."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what TensorFlow prints is no answer
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = (
        "1"  # TensorFlow's default; a test of the parent may have changed it
    )
    import tensorflow

    tf = tensorflow.compat.v1
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    bound = pages * resource.getpagesize() + MOST_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (bound, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    message: Any = "ready"
    while True:
        out.write(pickle.dumps(message))
        out.flush()
        try:
            request, folder = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        os.chdir(folder)
        message = _answer(tf, request)


def _answer(tf: Any, request: Request) -> Answer:
    config = tf.ConfigProto(
        intra_op_parallelism_threads=1,
        inter_op_parallelism_threads=1,
        operation_timeout_in_ms=request.timeout_ms,
    )
    config.graph_options.place_pruned_graph = True
    config.graph_options.optimizer_options.opt_level = -1
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf.Graph().as_default() as graph:
        try:
            tf.import_graph_def(tf.GraphDef.FromString(request.graph), name="")
        except Exception as error:
            return Answer("InvalidArgumentError", f"building: {error}")
        values: list[Any] = []
        with tf.Session(graph=graph, config=config) as session:
            try:
                if request.init:
                    session.run(request.init)
                for step in request.steps:
                    values += session.run(step, request.feeds)
            except Exception as error:
                return Answer(type(error).__name__, str(error)[-3000:])
    return Answer(shapes=tuple(_shape(value) for value in values if value is not None))


def _shape(value: Any) -> Any:
    return getattr(value, "shape", ())
