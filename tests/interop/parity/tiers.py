"""The tiers against each other: every case of the tables on the reference tier, and again with everything compiled.

    python -m tests.interop.parity.tiers --results FILE        every op: half an hour of one processor
    python -m tests.interop.parity.tiers --share 1/8           every eighth op
    python -m tests.interop.parity.tiers --family elementwise --op Tanh

For each op the largest difference of an element is shown in units of the last place, for values and for gradients, with its
bound (see `tier_bounds`). TensorFlow is used for signatures only. Ops in the file of results, one per line, are not run again:
a run may be interrupted at any time and continued, and several runs may do a share each. Kernels are cached in
`AIOEXEC_CACHE_DIR`. The exit status reports whether every op is within its bound, and every kernel could be compiled: otherwise
its op would be compared with itself.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aioexec.devices.jit.library import library
from tests.interop.parity.engines import Here
from tests.interop.parity.families import FAMILIES, cases_of
from tests.interop.parity.runner import Failure, Seen, observe
from tests.interop.parity.table import Case
from tests.interop.parity.tier_bounds import Bound, bound_of
from tests.interop.parity.written import written

REAL = {"complex64": np.float32, "complex128": np.float64}
DIGITS = {"float64": (52, -1022), "float32": (23, -126), "bfloat16": (7, -126), "float16": (10, -14)}
"""Of the fraction, and the exponent of the smallest normal number."""
STEP_TIMEOUT_MS = 600_000
"""A step that blocks fails in the end; one that is kept from running, or waits for a compiler that is, does not."""


@dataclass
class Distance:
    """How far the tiers are apart on an op, over the cases so far: ulps of values and of gradients, and where."""

    op_type: str
    cases: int = 0
    values: float = 0.0
    gradients: float = 0.0
    worst: str = ""

    @property
    def within(self) -> bool:
        bound = bound_of(self.op_type)
        return self.values <= bound.values and self.gradients <= bound.gradients

    def add(self, case: Case, values: float, gradients: float, failed: list[Failure]) -> None:
        self.cases += 1
        if max(values, gradients) > max(self.values, self.gradients):
            self.worst = ": ".join([repr(case)[:200], *map(str, failed)])
        self.values, self.gradients = max(self.values, values), max(self.gradients, gradients)


@contextlib.contextmanager
def tiers() -> Iterator[tuple[Here, Here]]:
    """The reference tier, and the one with everything compiled."""
    with (
        contextlib.closing(Here("off", STEP_TIMEOUT_MS)) as reference,
        contextlib.closing(Here("eager", STEP_TIMEOUT_MS)) as native,
    ):
        yield reference, native


def distances(cases: Iterable[Case], reference: Here, native: Here) -> list[Distance]:
    """The distance of each op, in the order of the cases."""
    found: dict[str, Distance] = {}
    for case in cases:
        graph = written(case)
        expected, got = (observe(engine, case, graph, None) for engine in (reference, native))
        left_out = () if case.compared is None else set(range(len(graph.outputs))) - set(case.compared)
        values = of_values(
            [*graph.steps, graph.reads],
            {graph.outputs[k] for k in left_out},
            expected,
            got,
            bound_of(case.op_type),
        )
        gradients = of_gradients(expected, got) if values < np.inf else 0.0
        failed = [
            each
            for seen in (expected, got)
            for each in (seen.failure, seen.gradients)
            if isinstance(each, Failure)
        ]
        found.setdefault(case.op_type, Distance(case.op_type)).add(case, values, gradients, failed)
    return list(found.values())


def of_values(steps: list[list[str]], left_out: set[str], expected: Seen, got: Seen, bound: Bound) -> float:
    if expected.failure or got.failure:
        kinds = [seen.failure.kind if seen.failure else "" for seen in (expected, got)]
        return 0.0 if kinds[0] == kinds[1] else np.inf
    found = 0.0
    for names, ours, theirs in zip(
        steps, expected.values, got.values, strict=False
    ):  # the last step may have none
        for name, one, other in zip(names, ours, theirs, strict=True):
            if name not in left_out:
                found = max(found, apart(one, other, bound.sums))
    return found


def of_gradients(expected: Seen, got: Seen) -> float:
    ours, theirs = expected.gradients, got.gradients
    if isinstance(ours, Failure) or isinstance(theirs, Failure):
        failed = isinstance(ours, Failure) and isinstance(theirs, Failure) and ours.kind == theirs.kind
        return 0.0 if failed else np.inf
    pairs = zip(ours or [], theirs or [], strict=True)
    return max(
        (0.0 if one is other is None else apart(one[1], other[1], sums=True) for one, other in pairs),
        default=0.0,
    )


def apart(expected: Any, got: Any, sums: bool) -> float:
    """The largest difference of two arrays in ulps of each element, or of the largest one; infinite if of another kind."""
    if expected is None or got is None:
        return 0.0 if expected is got else np.inf
    expected, got = np.asarray(expected), np.asarray(got)
    if expected.dtype != got.dtype or expected.shape != got.shape:
        return np.inf
    if expected.dtype.name in REAL:
        real = REAL[expected.dtype.name]
        return apart(np.ascontiguousarray(expected).view(real), np.ascontiguousarray(got).view(real), sums)
    if expected.dtype.name not in DIGITS:
        return 0.0 if np.array_equal(expected, got) else np.inf
    return ulps(expected.astype(np.float64), got.astype(np.float64), sums, *DIGITS[expected.dtype.name])


def ulps(expected: np.ndarray, got: np.ndarray, sums: bool, digits: int, smallest: int) -> float:
    """The same for numbers with so many binary digits; those below the normal ones may be flushed to zero."""
    finite = np.isfinite(expected)
    if not np.array_equal(expected[~finite], got[~finite], equal_nan=True):
        return np.inf
    sizes = np.abs(expected[finite])
    scale = np.maximum(np.max(sizes, initial=0.0), 1.0) if sums else sizes
    exponent = np.maximum(np.frexp(scale)[1] - 1, smallest)
    difference = np.abs(expected[finite] - got[finite])
    difference[np.maximum(sizes, np.abs(got[finite])) < 2.0**smallest] = 0
    difference[np.isnan(difference)] = np.inf
    return float(np.max(np.ldexp(difference, digits - exponent), initial=0.0))


def by_op(families: Iterable[str]) -> Iterator[tuple[str, str, list[Case]]]:
    """A family, an op of its table, and the cases of that op."""
    for family in families:
        found: dict[str, list[Case]] = {}
        for case in cases_of(family):
            found.setdefault(case.op_type, []).append(case)
        yield from ((family, op_type, cases) for op_type, cases in found.items())


class Results:
    """The results, by family and op, stored in a file if there is one."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.found: dict[tuple[str, str], Distance] = {}
        for line in path.read_text().splitlines() if path is not None and path.exists() else []:
            row = json.loads(line)
            family = row.pop("family")
            self.found[family, row["op_type"]] = Distance(**row)

    def add(self, family: str, distance: Distance) -> None:
        self.found[family, distance.op_type] = distance
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps({"family": family, **asdict(distance)}) + "\n")


def share(text: str) -> tuple[int, int]:
    """The first and the stride of "3/8": the third of each eight."""
    which, of = map(int, text.split("/"))
    if not 1 <= which <= of:
        raise ValueError(text)
    return which - 1, of


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interop.parity.tiers", description=__doc__)
    parser.add_argument(
        "--family", action="append", choices=FAMILIES, help="only this table (may be repeated)"
    )
    parser.add_argument("--op", action="append", help="only this op (may be repeated)")
    parser.add_argument("--share", type=share, default=(0, 1), help="3/8: the third of each eight ops")
    parser.add_argument("--results", type=Path, help="a file of JSON lines: what is in it is not run again")
    options = parser.parse_args()
    started, results = time.perf_counter(), Results(options.results)
    first, stride = options.share
    with tiers() as (reference, native):
        for family, op_type, cases in list(by_op(options.family or FAMILIES))[first::stride]:
            if (options.op and op_type not in options.op) or (family, op_type) in results.found:
                continue
            (found,) = distances(cases, reference, native)
            results.add(family, found)
            print(line_of(found), flush=True)
    beyond = [each for each in results.found.values() if not each.within]
    failed = library().statistics().failed
    print(*map(line_of, beyond), sep="\n")
    print(
        f"{len(results.found)} ops, {sum(each.cases for each in results.found.values())} cases, {len(beyond)} ops beyond "
        f"their bound, {failed} kernels not compiled, {time.perf_counter() - started:.0f} s"
    )
    return int(bool(beyond or failed))


def line_of(found: Distance) -> str:
    bound = bound_of(found.op_type)
    return (
        f"{found.op_type:40}{found.cases:5}{found.values:12.2f} of {bound.values:6g}"
        f"{found.gradients:12.2f} of {bound.gradients:6g}"
        + ("" if found.within else f"   BEYOND: {found.worst}")
    )


if __name__ == "__main__":
    sys.exit(main())
