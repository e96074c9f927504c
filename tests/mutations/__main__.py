"""`python -m tests.mutations [--count 50] [--seed S] [--jobs 2] [PATH…]`: the share of small code changes that tests detect.

The seed draws mutations from `sessions`, `planning` and `execution`, or from the given files; each is tried in a copy of the
tree. The exit status is 1 if more than one in ten survives.
"""

from __future__ import annotations

import argparse
import queue
import random
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from time import perf_counter

from tests.mutations.mutator import mutations
from tests.mutations.trial import REPOSITORY, TIMEOUT_FACTOR, Mutant, Tree, Verdict, copies

PACKAGES = ("sessions", "planning", "execution")
WANTED = 0.9


def main() -> int:
    """Draw mutants, try them, and report each."""
    arguments = _parser().parse_args()
    mutants = _drawn(arguments.paths or _files(), arguments.count, arguments.seed)
    if arguments.list:
        print(*mutants, sep="\n")
        return 0
    with copies(arguments.jobs) as trees:
        began = perf_counter()
        red = trees[0].run_tests([])
        if red is not None:
            print(f"the tests are red without a mutation: {red}")
            return 1
        took = perf_counter() - began
        print(f"green in {took:.0f} s; {len(mutants)} mutants of seed {arguments.seed}")
        verdicts = _try_all(mutants, trees, TIMEOUT_FACTOR * took + 60)
    return _summary(verdicts, arguments.seed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutations", description="do the tests notice mistakes?"
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="default: " + ", ".join(PACKAGES))
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="tests run side by side")
    parser.add_argument("--list", action="store_true", help="show the mutants, try none")
    return parser


def _files() -> list[str]:
    return [
        str(file.relative_to(REPOSITORY))
        for package in PACKAGES
        for file in sorted((REPOSITORY / "aioexec" / package).rglob("*.py"))
        if file.name != "explain.py"
    ]


def _drawn(paths: Sequence[str], count: int, seed: int) -> list[Mutant]:
    everything = [
        Mutant(path, mutation)
        for path in paths
        for mutation in mutations((REPOSITORY / path).read_text(encoding="utf-8"))
    ]
    return random.Random(seed).sample(everything, min(count, len(everything)))


def _try_all(mutants: Sequence[Mutant], trees: Sequence[Tree], timeout: float) -> list[Verdict]:
    idle: queue.SimpleQueue[Tree] = queue.SimpleQueue()
    for tree in trees:
        idle.put(tree)

    def attempt(mutant: Mutant) -> Verdict:
        tree = idle.get()
        try:
            return tree.try_mutant(mutant, timeout)
        finally:
            idle.put(tree)

    verdicts = []
    with ThreadPoolExecutor(len(trees)) as pool:
        for done in as_completed([pool.submit(attempt, mutant) for mutant in mutants]):
            verdict = done.result()
            verdicts.append(verdict)
            word = "SURVIVED" if verdict.killed_by is None else "killed  "
            print(f"{word} {verdict.mutant}  ({verdict.killed_by}, {verdict.seconds:.0f} s)", flush=True)
    return verdicts


def _summary(verdicts: Sequence[Verdict], seed: int) -> int:
    survivors = [verdict.mutant for verdict in verdicts if verdict.killed_by is None]
    killed = len(verdicts) - len(survivors)
    print(f"killed {killed} of {len(verdicts)} (seed {seed})")
    for mutant in survivors:
        print(f"survived: {mutant}")
    return 0 if killed >= WANTED * len(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
