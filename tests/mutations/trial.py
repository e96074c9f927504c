"""Tries mutations: each in a copy of the tree, never in the tree itself, with the most relevant tests first."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from tests.mutations.mutator import Mutation

REPOSITORY = Path(__file__).parents[2]
COPIED = ("aioexec", "tests", "pyproject.toml", "README.md", "CHANGELOG.md")
TESTS = (
    "tests/sessions",
    "tests/execution",
    "tests/planning",
    "tests/resources",
    "tests/devices",
    "tests/observability",
    "tests/ops/containers/test_queues.py",
    "tests/ops/functions/test_python.py",
    "tests/ops/control_flow/test_cond.py",
    "tests/ops/control_flow/test_while_loop.py",
    "tests/ops/control_flow/test_control_flow.py",
    "tests/ops/state/test_variables.py",
    "tests/gradients",
    "tests/train",
    "tests/soak",
)
"""The tests of the three packages, direct or indirect; the whole suite would take minutes for each survivor."""

TEST_SECONDS = 20
TIMEOUT_FACTOR = 4  # times as long as the tests take unchanged


@dataclass(frozen=True)
class Mutant:
    """A mutation of a file, named from the repository."""

    path: str
    mutation: Mutation

    def __str__(self) -> str:
        return f"{self.path}:{self.mutation.line}: {self.mutation}"


@dataclass(frozen=True)
class Verdict:
    """The outcome of a mutant: the failing test, or another failure; None if it survived."""

    mutant: Mutant
    killed_by: str | None
    seconds: float


class Tree:
    """A copy of the repository in which one mutant at a time lives."""

    def __init__(self, root: Path, cache: Path) -> None:
        self.root = root
        self._environment = {**os.environ, "PYTHONPATH": str(root), "AIOEXEC_CACHE_DIR": str(cache)}
        self._environment["PYTHONDONTWRITEBYTECODE"] = (
            "1"  # two texts of one second would share their bytecode
        )

    def run_tests(self, first: Sequence[str], timeout: float | None = None) -> str | None:
        """Run the tests until one turns red: its name, or what else went wrong; None if all are green."""
        paths = [*first, *(path for path in TESTS if path not in first)]
        present = [path for path in paths if (self.root / path).exists()]
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"]
        command += [f"--timeout={TEST_SECONDS}", "--no-header", "-rfE", "--tb=no", *present]
        process = subprocess.Popen(
            command,
            cwd=self.root,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # so that what it starts ends with it
        )
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return "the time it took"
        return None if process.returncode == 0 else _red(output)

    def try_mutant(self, mutant: Mutant, timeout: float) -> Verdict:
        """Put the mutant into the tree, run the tests, and take it out again."""
        file = self.root / mutant.path
        source = file.read_text(encoding="utf-8")
        began = perf_counter()
        try:
            file.write_text(mutant.mutation.apply(source), encoding="utf-8")
            killed_by = self.run_tests(nearest(mutant.path), timeout)
        finally:
            file.write_text(source, encoding="utf-8")
        return Verdict(mutant, killed_by, perf_counter() - began)


def nearest(path: str) -> list[str]:
    """Tests of this module, then of its package."""
    _, package, module = Path(path).parts
    return [f"tests/{package}/test_{module}", f"tests/{package}"]


def _red(output: str) -> str:
    lines = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if lines:
        return lines[0].split(" - ")[0].split(" ", 1)[1]
    return (output.strip().splitlines() or ["no output"])[-1]


@contextmanager
def copies(count: int) -> Iterator[list[Tree]]:
    """So many copies of the repository, which share compiled kernels."""
    with tempfile.TemporaryDirectory(prefix="aioexec-mutants-", ignore_cleanup_errors=True) as folder:
        trees = []
        for number in range(count):
            root = Path(folder) / str(number)
            root.mkdir()
            for name in COPIED:
                _copy(REPOSITORY / name, root / name)
            trees.append(Tree(root, Path(folder) / "kernels"))
        yield trees


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    elif source.exists():
        shutil.copy(source, target)
