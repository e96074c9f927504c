"""The tiers against each other: every case of the tables on the reference tier, and again with everything compiled.

    python -m tests.interop.parity.tiers                       every family: some minutes
    python -m tests.interop.parity.tiers --family math --op Tanh

For each op the largest difference of an element is shown in units of the last place, of values and of gradients apart, and
beside it the bound it is held to (`tier_bounds` says what these are). TensorFlow is asked for signatures only. The exit
status says whether every op is within its bound.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.interop.parity.engines import Here
from tests.interop.parity.families import FAMILIES, cases_of
from tests.interop.parity.runner import Failure, Seen, observe
from tests.interop.parity.table import Case
from tests.interop.parity.tier_bounds import Bound, bound_of
from tests.interop.parity.written import Written, written

REAL = {"complex64": np.float32, "complex128": np.float64}
DIGITS = {"float64": (52, -1022), "float32": (23, -126), "bfloat16": (7, -126), "float16": (10, -14)}
"""Of the fraction, and the exponent of the smallest normal number."""


@dataclass
class Distance:
    """How far the tiers are apart on an op, over the cases so far: ulps of values and of gradients, and where."""

    op_type: str
    values: float = 0.0
    gradients: float = 0.0
    worst: str = ""

    @property
    def within(self) -> bool:
        bound = bound_of(self.op_type)
        return self.values <= bound.values and self.gradients <= bound.gradients

    def add(self, case: Case, values: float, gradients: float) -> None:
        if max(values, gradients) > max(self.values, self.gradients):
            self.worst = repr(case)[:200]
        self.values, self.gradients = max(self.values, values), max(self.gradients, gradients)


def distances(cases: Iterable[Case], reference: Here, native: Here) -> list[Distance]:
    """The distance of each op, in the order of the cases."""
    found: dict[str, Distance] = {}
    for case in cases:
        graph = written(case)
        expected, got = patiently(reference, case, graph), patiently(native, case, graph)
        left_out = () if case.compared is None else set(range(len(graph.outputs))) - set(case.compared)
        values = of_values(
            [*graph.steps, graph.reads],
            {graph.outputs[k] for k in left_out},
            expected,
            got,
            bound_of(case.op_type),
        )
        gradients = of_gradients(expected, got) if values < np.inf else 0.0
        found.setdefault(case.op_type, Distance(case.op_type)).add(case, values, gradients)
    return list(found.values())


def patiently(engine: Here, case: Case, graph: Written) -> Seen:
    """Run a case; once more if a step ran out of time, which it may on a busy machine."""
    seen = observe(engine, case, graph, None)
    late = [each for each in (seen.failure, seen.gradients) if isinstance(each, Failure)]
    if any(failed.kind == "DeadlineExceeded" for failed in late):
        return observe(engine, case, graph, None)
    return seen


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
    if isinstance(expected.gradients, Failure) or isinstance(got.gradients, Failure):
        return 0.0 if type(expected.gradients) is type(got.gradients) else np.inf
    pairs = zip(expected.gradients or [], got.gradients or [], strict=True)
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
    return float(np.max(np.ldexp(difference, digits - exponent), initial=0.0))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interop.parity.tiers", description=__doc__)
    parser.add_argument(
        "--family", action="append", choices=FAMILIES, help="only this table (may be repeated)"
    )
    parser.add_argument("--op", action="append", help="only this op (may be repeated)")
    options = parser.parse_args()
    started, found = time.perf_counter(), []
    with contextlib.closing(Here("off")) as reference, contextlib.closing(Here("eager")) as native:
        for family in options.family or FAMILIES:
            cases = [case for case in cases_of(family) if not options.op or case.op_type in options.op]
            for each in distances(cases, reference, native):
                bound = bound_of(each.op_type)
                print(
                    f"{each.op_type:40}{each.values:12.2f} of {bound.values:6g}"
                    f"{each.gradients:12.2f} of {bound.gradients:6g}"
                    + ("" if each.within else f"   BEYOND: {each.worst}"),
                    flush=True,
                )
                found.append(each)
    beyond = sum(not each.within for each in found)
    print(f"{len(found)} ops, {beyond} beyond their bound, {time.perf_counter() - started:.0f} s")
    return int(beyond > 0)


if __name__ == "__main__":
    sys.exit(main())
