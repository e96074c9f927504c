"""Hostile operands and attributes for every registered op, on every tier.

    python -m tests.campaigns.operands --first 0 --count 100000

A seed selects an op and a call of it with ordinary operands (from the tables of tests/ops, or from its signature). Most seeds
build one graph of it, which is fed many mutants of the operands (`fed_operands`). The others mutate operands and attributes in
a graph of their own; they also select which operands are static, and whether the call is alone, in a loop (whose later
iterations may have other operands), or in a branch. In each case, all exceptions are those of `aioexec.errors`, the tiers agree
on the class of the error or on the values, no run takes more than 5 seconds of processor time, and the memory of the process
grows by at most 1 GiB.
"""

from __future__ import annotations

import ctypes
import functools
import os
import resource
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import numpy as np

from aioexec.graph import registry
from tests.campaigns import campaign
from tests.campaigns.fed_operands import fed_cases, is_unexpected
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

MOST_MEMORY = 1 << 30
"""The most growth of a process's memory."""
ARENA_MAX = -8
"""The number of the option of the C library's allocator."""
LEFT_OUT = frozenset(
    {"_Send", "_Recv", "_HostSend", "_HostRecv", "_Arg", "_Retval", "_Loop", "_Conditional", "Abort"}
    | {"_Attention", "_LayerNorm"}
)
"""Ops that only planning makes."""

BUILT_SHARE = 0.15
"""Of the seeds, those whose mutant has a graph of its own."""


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
    """Per-process state: the event loop, a folder for files, and the bound on memory."""
    ctypes.CDLL(None).mallopt(
        ARENA_MAX, 2
    )  # each reserves 64 MiB of addresses, and threads would have one each
    folder = tempfile.TemporaryDirectory(prefix="aioexec-operands-")
    os.chdir(folder.name)
    runs_of_folder[folder.name] = folder
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    bound = pages * resource.getpagesize() + MOST_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (bound, resource.RLIM_INFINITY))
    np.seterr(all="ignore")
    return Runs()


runs_of_folder: dict[str, tempfile.TemporaryDirectory[str]] = {}


def cases(seed: int, names: Sequence[str], always_native: bool) -> Iterator[str | None]:
    """The failures of the cases of a seed."""
    random = Random(seed)
    op_type = names[seed % len(names)]
    base, _ = from_tables(op_type, random)
    call = copied(base)
    native = always_native or registry.lookup(op_type).native is not None or random.random() < 0.25
    if random.random() < BUILT_SHARE:
        mutate(call, random)
        yield built_case(call, random, native)
    else:
        if random.random() < 0.3:
            mutate(call, random)
        yield from fed_cases(runs(), call, random, native)


def built_case(call: Call, random: Random, native: bool) -> str | None:
    """The failure of a call in a graph of its own."""
    where, taken = where_of(call, random), random.random() < 0.8
    try:
        built = built_of(lambda: Builder(call, None, where, taken).build())
        if isinstance(built, Outcome):
            return None
        expected, wrong = tier_differences(runs(), call, built, random, native)
    except ForeignExceptionError as error:
        wrong = str(error)
    else:
        if wrong is None and is_unexpected(call, expected):
            wrong = str(expected)
    return None if wrong is None else f"{where} {described(call)}: {wrong}"


def case(seed: int) -> Iterator[str | None]:
    return cases(seed, ops(), always_native=False)


if __name__ == "__main__":
    raise SystemExit(campaign.main(case))
