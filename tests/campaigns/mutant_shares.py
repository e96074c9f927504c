"""Some seeds of each campaign of mutants, in one child process, whose start takes longer than the cases.

    python -m tests.campaigns.mutant_shares --count 1300

The n-th seed is a seed of one of the campaigns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.campaigns import cache_entries, campaign, checkpoints, decoders, graphs, records

SHARES: Final[tuple[tuple[Callable[[int], str | None], range], ...]] = (
    (graphs.case, range(100, 200)),
    (checkpoints.case, range(10, 210)),
    (records.case, range(10, 310)),
    (decoders.case, range(10, 310)),
    (cache_entries.case, range(10, 410)),
)
CASES: Final = tuple((share, seed) for share, seeds in SHARES for seed in seeds)


def case(number: int) -> str | None:
    """Run the n-th case; what is wrong names the campaign and the seed in it."""
    share, seed = CASES[number]
    wrong = share(seed)
    return wrong and f"{share.__module__} seed {seed}: {wrong}"


if __name__ == "__main__":
    raise SystemExit(campaign.main(case))
