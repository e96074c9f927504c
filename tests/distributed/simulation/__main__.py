"""Many simulations: `python -m tests.distributed.simulation --seeds 10000 --from 0`; `--show` prints the events of one seed."""

import argparse
import sys
import time
from collections import Counter

from tests.distributed.simulation.runner import simulate


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.distributed.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000, help="how many (default: %(default)s)")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first (default: %(default)s)")
    parser.add_argument("--show", type=int, help="print the story of this seed alone")
    options = parser.parse_args()
    if options.show is not None:
        print(simulate(options.show))
        return 0
    breaches: Counter[str] = Counter()
    began = time.monotonic()
    for done, seed in enumerate(range(options.first, options.first + options.seeds), 1):
        story = simulate(seed)
        if story.breach:
            breaches[story.scenario] += 1
            print(f"\rseed {seed} ({story.scenario}): {story.breach[:300]}")
        if done % 20 == 0 and (sys.stderr.isatty() or done % 1000 == 0):
            print(f"\r{done} seeds, {time.monotonic() - began:.0f} s", end="", file=sys.stderr, flush=True)
    seconds = time.monotonic() - began
    print(f"\r{options.seeds} seeds in {seconds:.1f} s; breaches: {dict(breaches) or 'none'}")
    return 1 if breaches else 0


sys.exit(main())
