"""Runs tables of the parity suite: see the package."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time

from tests.interop.parity.engines import Here, There
from tests.interop.parity.families import FAMILIES, cases_of
from tests.interop.parity.report import REPORT, Tally, tallied, text
from tests.interop.parity.runner import compare


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interop.parity", description=__doc__)
    parser.add_argument(
        "--family", action="append", choices=FAMILIES, help="only this table (may be repeated)"
    )
    parser.add_argument("--op", action="append", help="only this op (may be repeated)")
    parser.add_argument("--jit", default="off", choices=["off", "background", "eager"])
    parser.add_argument(
        "--all", action="store_true", help="show cases that agree and that are not counted, too"
    )
    parser.add_argument("--report", action="store_true", help=f"write {REPORT.name}")
    options = parser.parse_args()
    tallies: list[Tally] = []
    started, there = time.perf_counter(), There()
    with contextlib.closing(Here(options.jit)) as here:
        for family in options.family or FAMILIES:
            by_op: dict[str, list] = {}
            for case in cases_of(family):
                if not options.op or case.op_type in options.op:
                    by_op.setdefault(case.op_type, []).append(case)
            for op_type, cases in by_op.items():
                print(f"{op_type:32}", end="", flush=True)  # first, so that a crash has a name
                (tally,) = tallied(compare(cases, there, here))
                show(tally, everything=options.all)
                tallies.append(tally)
    merged = tallied(result for tally in tallies for result in tally.results)
    counted, agreed = sum(tally.counted for tally in merged), sum(tally.agreed for tally in merged)
    print(f"{len(merged)} ops, {agreed} of {counted} cases agree, {time.perf_counter() - started:.0f} s")
    if options.report:
        REPORT.write_text(text(merged))
    return int(agreed < counted)


def show(tally: Tally, everything: bool) -> None:
    print(
        f" {tally.agreed:4} of {tally.counted:4}"
        + (f", {tally.skipped} not counted" if tally.skipped else "")
    )
    for result in tally.results if everything else tally.others:
        print(f"    {result.case!r} {result.verdict.value}{': ' if result.reason else ''}{result.reason}")


if __name__ == "__main__":
    sys.exit(main())
