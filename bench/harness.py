"""Runs one benchmark: each peer in its own process, their rounds interleaved, their results compared."""

import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Self

import numpy as np

from bench.peers import PEERS, function_of
from bench.workload import FOLDER, Case

REPOSITORY = Path(__file__).parents[1]
DEFAULT_TOLERANCE = 1e-3
"""Relative to the largest value: float32 results of different summation orders and polynomials."""


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    rounds: int = 7
    seconds: float = 0.4


QUICK = Effort(rounds=3, seconds=0.1)


def _environment(folder: Path) -> dict[str, str]:
    """This process's, but peers keep their bytecode: installed packages have theirs, a source tree must be no slower."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, FOLDER: str(folder)}


@dataclass
class Figures:
    """The results of one peer for one case."""

    seconds: list[float] = field(default_factory=list)  # one minimum a round
    medians: list[float] = field(default_factory=list)  # one median a round
    notes: dict[str, list[float]] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)
    error: str | None = None

    @property
    def minimum(self) -> float:
        return min(self.seconds)

    @property
    def median(self) -> float:
        return statistics.median(self.medians)

    def add(self, answer: dict[str, Any]) -> None:
        self.seconds.append(min(answer["seconds"]))
        self.medians.append(statistics.median(answer["seconds"]))
        for name, value in answer["notes"].items():
            self.notes.setdefault(name, []).append(value)

    def as_json(self) -> dict[str, Any]:
        if self.error is not None:
            return {"error": self.error, **self.about}
        notes = {name: statistics.median(values) for name, values in self.notes.items()}
        return {
            "minimum_s": self.minimum,
            "median_s": self.median,
            "rounds": self.seconds,
            **notes,
            **self.about,
        }


@dataclass
class Report:
    """The results of one benchmark: figures by case, then by peer."""

    name: str
    question: str
    measures: str
    cases: dict[str, dict[str, Figures]]
    references: list[str]  # shown, but no rivals
    absent: list[str]  # not installed
    unit: str = "s"  # of the figures


class PeerError(RuntimeError):
    """A peer's process failed or died."""


class PeerProcess:
    """A worker process, asked one thing at a time, and stopped in between where the system can do that: threads that look for
    work for a while, as some peers' do, would take a processor from the peer that is measured next."""

    def __init__(self, benchmark: str, peer: str, folder: Path) -> None:
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 (closed in __exit__)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.worker", benchmark, peer],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=REPOSITORY,
            env=_environment(folder),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._signal("SIGCONT")
            self._process.stdin.close()
            self._process.wait(timeout=10)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._log.close()

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Send a request and return the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._signal("SIGCONT")
            print(json.dumps({"do": do, **arguments}), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
            self._signal("SIGSTOP")
        except BrokenPipeError:
            line = ""
        if not line:
            raise PeerError(f"the process ended with status {self._process.wait()}: {self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise PeerError(answer["error"])
        return answer

    def _signal(self, name: str) -> None:
        if hasattr(signal, name):
            self._process.send_signal(getattr(signal, name))

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = self._log.read().strip().splitlines()
        return lines[-1] if lines else "(no message)"


def run(name: str, only: Sequence[str], effort: Effort, parts: Sequence[str] = ()) -> Report:
    """Run one benchmark with the peers that are installed, all of them or those named in `only`.

    Of its cases those run whose name contains one of `parts`; all if there are none.
    """
    module = import_module(f"bench.{name}")
    offered = [peer for peer in PEERS if callable(function_of(module, peer))]  # asyncio may be the module
    on_demand = getattr(module, "ON_DEMAND", [])
    wanted = [peer for peer in offered if peer in only or (not only and peer not in on_demand)]
    present = [peer for peer in wanted if PEERS[peer].is_installed()]
    rounds = min(effort.rounds, getattr(module, "ROUNDS", effort.rounds))
    effort = Effort(rounds, effort.seconds)
    chosen = [case for case in module.CASES if not parts or any(part in case.name for part in parts)]
    groups = [[case] for case in chosen] if getattr(module, "PROCESS_PER_CASE", False) else [chosen]
    cases = {}
    for group in groups:
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            start = partial(PeerProcess, name, folder=Path(folder))
            processes = {peer: stack.enter_context(start(peer)) for peer in present}
            for number, case in enumerate(group):
                cases[case.name] = _run_case(module, case, processes, effort, Path(folder) / str(number))
    measures = getattr(module, "MEASURES", "time of a step")
    absent = [peer for peer in wanted if peer not in present]
    references, unit = getattr(module, "REFERENCES", []), getattr(module, "UNIT", "s")
    return Report(name, module.QUESTION, measures, cases, references, absent, unit)


def _run_case(
    module: ModuleType, case: Case, processes: dict[str, PeerProcess], effort: Effort, folder: Path
) -> dict[str, Figures]:
    folder.mkdir()
    figures = {peer: Figures() for peer in processes}
    for peer, process in processes.items():
        with _noting(figures[peer]):
            figures[peer].about = process.ask("open", case=case.name, outputs=str(folder / f"{peer}.npz"))
    figures = {peer: figure for peer, figure in figures.items() if figure.about.pop("takes_part", True)}
    processes = {peer: processes[peer] for peer in figures}
    _compare(figures, folder, getattr(module, "TOLERANCE", DEFAULT_TOLERANCE))
    order = itertools.cycle(processes)
    for _ in range(effort.rounds):
        for peer in itertools.islice(order, len(processes)):
            if figures[peer].error is None:
                with _noting(figures[peer]):
                    figures[peer].add(processes[peer].ask("round", seconds=effort.seconds))
        next(order)  # another peer goes first each time
    for peer, process in processes.items():
        with _noting(figures[peer]):
            process.ask("close")
    return figures


@contextmanager
def _noting(figures: Figures) -> Iterator[None]:
    try:
        yield
    except PeerError as error:
        figures.error = figures.error or str(error)


def _compare(figures: dict[str, Figures], folder: Path, tolerance: float) -> None:
    """Hold each peer's results against the reference's: NumPy's where it takes part, else TensorFlow's."""
    loaded = {peer: _load(folder / f"{peer}.npz") for peer, figure in figures.items() if figure.error is None}
    loaded = {peer: arrays for peer, arrays in loaded.items() if arrays}
    reference = next((peer for peer in ("numpy", "tensorflow", *loaded) if peer in loaded), None)
    for peer, arrays in loaded.items():
        figures[peer].about["compared_with"] = reference
        assert reference is not None, "some peer was loaded"
        difference = _difference(arrays, loaded[reference])
        figures[peer].about["difference"] = difference
        if not difference <= tolerance:
            figures[
                peer
            ].error = f"results differ from {reference}'s by {difference:.1e} (allowed {tolerance:.0e})"


def _load(path: Path) -> list[np.ndarray]:
    with np.load(path, allow_pickle=False) as file:
        return [file[name] for name in file.files]


def _difference(got: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """Return the largest difference, relative to the largest value; infinite where shapes differ."""
    if [array.shape for array in got] != [array.shape for array in expected]:
        return float("inf")
    differences = [
        float(np.max(np.abs(a.astype(np.float64) - b)) / max(float(np.max(np.abs(b))), 1e-30))
        for a, b in zip(got, expected, strict=True)
        if b.size
    ]
    return max(differences, default=0.0)
