"""The hostile operands of `operands`, for ops with native forms, in memory that ends before an inaccessible page.

    python -m tests.campaigns.guarded_operands --first 0 --count 100000

Seeds that are odd have the inaccessible page before the memory instead of behind it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from aioexec.graph import registry
from tests.campaigns import campaign, operands
from tests.campaigns.guard_pages import guarded


@functools.cache
def native_ops() -> tuple[str, ...]:
    return tuple(name for name in operands.ops() if registry.lookup(name).native is not None)


def case(seed: int) -> Iterator[str | None]:
    with guarded(before=seed % 2 == 1):
        yield from operands.cases(seed, native_ops(), always_native=True)


if __name__ == "__main__":
    raise SystemExit(campaign.main(case))
