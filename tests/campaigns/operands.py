"""Hostile operands and attributes for every registered op, on every tier.

    python -m tests.campaigns.operands --first 0 --count 100000

A seed gives an op, a call of it with ordinary operands (from the tables of tests/ops, or from its signature), a few mutations
of operands and attributes, what of each operand is known when the graph is built, and whether the call is alone, in a loop
(whose later rounds may have other operands), or in a branch. Whatever comes of it, all exceptions are those of
`aioexec.errors`, the tiers agree on the class of the error or on the values, no run takes more than 5 seconds of the
processor, and no process more memory than it began with and 3 GiB.
"""

from __future__ import annotations

import functools
import os
import resource
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import numpy as np

from aioexec.graph import registry
from tests.campaigns import campaign
from tests.campaigns.operand_calls import Call, copied, described, from_ops_table, from_signature, mutate
from tests.campaigns.operand_runs import (
    Builder,
    ForeignExceptionError,
    Outcome,
    Runs,
    Steps,
    built_of,
    tier_differences,
    where_of,
)
from tests.ops import harness

MOST_MEMORY = 3 << 30
"""What a process may take beyond what it begins with."""
LEFT_OUT = frozenset(
    {"_Send", "_Recv", "_HostSend", "_HostRecv", "_Arg", "_Retval", "_Loop", "_Conditional", "Abort"}
)
"""What planning makes, and no program."""

Source = Callable[[str, Random], "tuple[Call, Steps | None]"]
"""An op to a call of it, with ordinary operands, and what to fetch in each step."""


@functools.cache
def ops() -> tuple[str, ...]:
    return tuple(sorted({row.name for row in registry.registered()} - LEFT_OUT))


@functools.cache
def _cases() -> dict[str, list[harness.Case]]:
    found: dict[str, list[harness.Case]] = {}
    for case in harness.tables():
        if case.raises is None:
            found.setdefault(case.op_type, []).append(case)
    return found


def from_tables(op_type: str, random: Random) -> tuple[Call, Steps | None]:
    cases = _cases().get(op_type, ())
    if cases and random.random() < 0.8:
        return from_ops_table(random.choice(cases), random), None
    return from_signature(op_type, random), None


@functools.cache
def runs() -> Runs:
    """What is made once in a process: its event loop, a folder for files, and the bound on memory."""
    folder = tempfile.TemporaryDirectory(prefix="aioexec-operands-")
    os.chdir(folder.name)
    runs_of_folder[folder.name] = folder
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    bound = pages * resource.getpagesize() + MOST_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (bound, resource.RLIM_INFINITY))
    np.seterr(all="ignore")
    return Runs()


runs_of_folder: dict[str, tempfile.TemporaryDirectory[str]] = {}


def outcome_of(
    seed: int, source: Source, names: Sequence[str], always_native: bool
) -> tuple[str, Outcome, str | None]:
    """The op of a seed, what came of it on the reference tier, and what is wrong."""
    random = Random(seed)
    op_type = names[seed % len(names)]
    base, steps = source(op_type, random)
    call = copied(base) if steps is None else base
    mutate(call, random)
    where = "plain" if steps is not None else where_of(call, random)
    taken = random.random() < 0.8
    native = always_native or registry.lookup(op_type).native is not None or random.random() < 0.25
    try:
        built = built_of(lambda: Builder(call, steps, where, taken).build())
        if isinstance(built, Outcome):
            return op_type, built, None
        expected, wrong = tier_differences(runs(), call, built, random, native)
    except ForeignExceptionError as error:
        cause = error.__cause__
        return op_type, Outcome("foreign"), f"{where} {described(call)}: {error}{_place(cause)}"
    if wrong is None and expected.error in ("UnknownError", "InternalError"):
        wrong = str(expected)
    return op_type, expected, None if wrong is None else f"{where} {described(call)}: {wrong}"


def _place(cause: BaseException | None) -> str:
    """Where an exception comes from."""
    where = None if cause is None else cause.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    return "" if where is None else f" at {where.tb_frame.f_code.co_filename}:{where.tb_lineno}"


def case(seed: int) -> str | None:
    _, _, wrong = outcome_of(seed, from_tables, ops(), always_native=False)
    return wrong


if __name__ == "__main__":
    raise SystemExit(campaign.main(case))
