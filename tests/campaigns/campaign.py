"""Runs many seeded cases in a child process, and reports each that crashes, hangs or is wrong.

A campaign is a module with a function `case(seed) -> str | None`: None if the case passes, otherwise a sentence that describes
the failure. If several cases share an expensive setup, `case` is a generator of these results, one for each case of the seed.
The module ends with

    if __name__ == "__main__":
        raise SystemExit(campaign.main(case))

and is run by `python -m tests.campaigns.NAME [--first SEED] [--count N] [--limit SECONDS]`. The cases run in a child process,
which writes the current seed and the number of finished cases to shared memory. A child that dies is a finding, and so is a
case that exceeds the limit: the child then prints its stack and is killed. Either way another child continues after that seed.
If the parent dies, the child ends with all its descendants. The exit status is 1 if there was a finding.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import mmap
import os
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

Case = Callable[[int], "str | Iterator[str | None] | None"]

IDLE = -1  # in shared memory, before the first case
FIRST_CASE_LIMIT_S = 120.0  # a child imports and compiles before its first case ends


@dataclass(frozen=True, slots=True)
class Finding:
    """One case that is not well."""

    seed: int
    message: str

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.message}"


def main(case: Case) -> int:
    """Run the campaign of the command line; return the exit status."""
    arguments = _parser().parse_args()
    if arguments.child is not None:
        _run_cases(case, range(arguments.first, arguments.first + arguments.count), Path(arguments.child))
        return 0
    module = sys.modules[case.__module__].__spec__
    assert module is not None
    began, found = perf_counter(), 0
    campaign = Campaign(module.name, arguments.first, arguments.count, arguments.limit)
    for finding in campaign.findings():
        found += 1
        print(finding, flush=True)
    print(f"{campaign.cases} cases, {found} findings, {perf_counter() - began:.0f} s", flush=True)
    return int(found > 0)


def run(module: str, first: int, count: int, limit: float = 20.0) -> Iterator[Finding]:
    """Run the cases of `count` seeds of a module from seed `first` on."""
    return Campaign(module, first, count, limit).findings()


class Campaign:
    """The cases of `count` seeds of a module, in as many child processes as it takes; `cases` is how many have been run."""

    def __init__(self, module: str, first: int, count: int, limit: float) -> None:
        self.cases = 0
        self._module, self._first, self._end, self._limit = module, first, first + count, limit

    def findings(self) -> Iterator[Finding]:
        first = self._first
        while first < self._end:
            with tempfile.TemporaryDirectory(prefix="aioexec-campaign-") as folder:
                child = _Child(self._module, first, self._end - first, Path(folder))
                yield from child.findings(self._limit)
                first = child.next_seed
                self.cases += child.progress.cases


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="many seeded cases, in a child process")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1000, help="how many seeds")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds that one case may take")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser


def _run_cases(case: Case, seeds: range, folder: Path) -> None:
    """In the child: run the cases, and write what is found to a file of the folder."""
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    progress = _Progress(folder)
    with (folder / "findings").open("a", buffering=1) as findings:
        for seed in seeds:
            progress.seed = seed
            for message in _messages(case, seed):
                progress.cases += 1
                if message is not None:
                    findings.write(f"{seed} {message!r}\n")


def _messages(case: Case, seed: int) -> Iterator[str | None]:
    """The result of each case of a seed."""
    try:
        found = case(seed)
        if found is None or isinstance(found, str):
            yield found
        else:
            yield from found
    except Exception:
        yield traceback.format_exc()


def _end_with_parent() -> None:
    """Kill this process and its descendants, which are a group of their own, when the parent's end of the pipe is closed."""
    os.read(0, 1)  # unbuffered: the lock of `sys.stdin` may not be held when the interpreter ends
    os.killpg(0, signal.SIGKILL)


class _Progress:
    """Two numbers that parent and child share."""

    def __init__(self, folder: Path) -> None:
        path = folder / "progress"
        if not path.exists():
            path.write_bytes(struct.pack("<qq", IDLE, 0))
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), 16)

    @property
    def seed(self) -> int:
        """The seed that is being run."""
        return int.from_bytes(self._shared[:8], "little", signed=True)

    @seed.setter
    def seed(self, value: int) -> None:
        self._shared[:8] = value.to_bytes(8, "little", signed=True)

    @property
    def cases(self) -> int:
        """How many cases have ended."""
        return int.from_bytes(self._shared[8:], "little", signed=True)

    @cases.setter
    def cases(self, value: int) -> None:
        self._shared[8:] = value.to_bytes(8, "little", signed=True)


class _Child:
    """A process that runs cases until they are done, it dies, or one takes too long."""

    def __init__(self, module: str, first: int, count: int, folder: Path) -> None:
        self.next_seed = first + count  # where to go on; earlier if a case ended the process
        self._first = first
        self._folder = folder
        self.progress = _Progress(folder)
        self._errors = folder / "errors"
        command = [sys.executable, "-m", module, "--child", str(folder)]
        command += ["--first", str(first), "--count", str(count)]
        with self._errors.open("wb") as errors:
            # A process group of its own: processes left by a case end with the child.
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stderr=errors, start_new_session=True
            )

    def findings(self, limit: float) -> Iterator[Finding]:
        try:
            hung = self._wait(limit)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            assert self._process.stdin is not None, "a pipe"
            self._process.stdin.close()
        path = self._folder / "findings"
        for line in path.read_text().splitlines() if path.exists() else []:
            number, _, message = line.partition(" ")
            yield Finding(int(number), message)
        if hung or self._process.returncode != 0:
            seed = max(self.progress.seed, self._first)
            self.next_seed = seed + 1
            what = f"took over {limit:g} s" if hung else f"ended with status {self._process.returncode}"
            yield Finding(seed, f"{what}\n{self._errors.read_text(errors='replace')[-8000:]}")

    def _wait(self, limit: float) -> bool:
        """Wait for the process; return True if a case took too long."""
        cases, since = self.progress.cases, perf_counter()
        while True:
            try:
                self._process.wait(timeout=0.5)
                return False
            except subprocess.TimeoutExpired:
                pass
            if self.progress.cases != cases:
                cases, since = self.progress.cases, perf_counter()
            elif perf_counter() - since > (limit if cases else max(limit, FIRST_CASE_LIMIT_S)):
                self._write_where_it_is()
                return True

    def _write_where_it_is(self) -> None:
        """Have the child print its stacks; wait until no more comes, for two seconds at most."""
        before = size = self._errors.stat().st_size
        self._process.send_signal(signal.SIGUSR1)
        for _ in range(20):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=0.1)
            last, size = size, self._errors.stat().st_size
            if before < last == size:
                return
