"""Makes trials and prints violations: `python -m tests.interop.mutants --count 2000 --seed 1`."""

from __future__ import annotations

import argparse
import asyncio
import os
import time


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=20, help="breaches to print in full")
    arguments = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow.compat.v1 as tf

    from tests.interop.mutants.sources import sources
    from tests.interop.mutants.trials import make_trials

    found = sources(tf)
    print(len(found), "graphs")
    started = time.perf_counter()
    seeds = range(arguments.seed, arguments.seed + arguments.count)
    report = asyncio.run(make_trials(found, seeds))
    print("\n".join(report.breaches[: arguments.show]))
    print(dict(report.endings), len(report.breaches), "breaches", f"{time.perf_counter() - started:.1f} s")


if __name__ == "__main__":
    main()
