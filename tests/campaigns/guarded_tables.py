"""Native forms of all cases of the tables in tests/ops, in memory that ends before an inaccessible page.

    python -m tests.campaigns.guarded_tables --count 10000

Seeds 2k and 2k + 1 are the k-th pair of a case and a dtype, with the page behind the memory and before it.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from aioexec.graph.kernels.kernel import Spec
from tests.campaigns import campaign
from tests.campaigns.guard_pages import Guards
from tests.ops import harness, native


@functools.cache
def pairs() -> list[tuple[harness.Case, str | None]]:
    """Every case whose op has a native form, in each of its dtypes."""
    cases = [case for case in harness.tables() if case.raises is None and case.native]
    found = [(case, name) for case in cases for name in harness.dtypes_of(case)]
    return [pair for pair in found if harness.setting(*pair).op.row.native is not None]


def case(seed: int) -> str | None:
    chosen, before = pairs()[seed // 2 % len(pairs())], seed % 2 == 1
    guards = Guards(before)

    def garbage(spec: Spec) -> Any:
        return guards.empty(spec.shape, spec.dtype)

    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(native, "garbage", garbage)
        try:
            harness.native_agrees(harness.setting(*chosen), None)
        except AssertionError as error:
            return f"{chosen}: {error}"
    return None


if __name__ == "__main__":
    raise SystemExit(campaign.main(case))
