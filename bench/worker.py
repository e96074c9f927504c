"""Runs one peer in its own process: `python -m bench.worker BENCHMARK PEER`, JSON lines over stdin and stdout.

Requests: `{"do": "open", "case": name, "outputs": path}`, `{"do": "round", "seconds": s}`, `{"do": "close"}`. The reply to each
is one line; to an exception `{"error": text}`. Output of libraries goes to stderr.
"""

import asyncio
import inspect
import json
import os
import sys
import traceback
from contextlib import AsyncExitStack
from dataclasses import asdict
from importlib import import_module
from typing import Any, TextIO

import numpy as np

from bench.peers import BEFORE, PEERS, function_of, threads
from bench.workload import Case, Workload, call


class Worker:
    """Holds the open case."""

    def __init__(self, benchmark: str, peer: str) -> None:
        module = import_module(f"bench.{benchmark}")
        self._peer = peer
        self._cases: dict[str, Case] = {case.name: case for case in module.CASES}
        self._build = function_of(module, peer)
        self._stack = AsyncExitStack()
        self._workload: Workload | None = None

    async def open(self, case: str, outputs: str) -> dict[str, Any]:
        if inspect.iscoroutinefunction(self._build):
            workload = await self._build(self._cases[case], self._stack)
        else:
            workload = self._build(self._cases[case])
        if workload is None:
            return {"takes_part": False}
        self._workload = workload
        values = await call(workload.outputs or workload.step)
        arrays = [np.asarray(value) for value in (values if isinstance(values, list | tuple) else [values])]
        np.savez(outputs, *arrays)
        await workload.warm_up()
        return {
            "takes_part": True,
            "version": PEERS[self._peer].version(),
            "threads": threads(self._peer),
            "dtypes": sorted({str(array.dtype) for array in arrays}),
            "native_share": await call(workload.native_share) if workload.native_share else None,
        }

    async def round(self, seconds: float) -> dict[str, Any]:
        assert self._workload is not None, "the parent opens a case first"
        return asdict(await self._workload.round(seconds))

    async def close(self) -> dict[str, Any]:
        self._workload = None
        await self._stack.aclose()
        return {}


async def serve(worker: Worker, answers: TextIO) -> None:
    """Answer requests until stdin ends. Reading blocks the loop on purpose: a peer that waits is still."""
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = await getattr(worker, request.pop("do"))(**request)
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


def main() -> None:
    """Serve one peer of one benchmark."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if sys.argv[2] == "aioexec_before":
        sys.path.insert(0, os.environ[BEFORE])
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(serve(Worker(sys.argv[1], sys.argv[2]), answers))


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


if __name__ == "__main__":
    main()
