"""Each round of the long soak test once, and the slope by which it judges."""

from __future__ import annotations

from random import Random

import pytest

from tests.distributed.grpc_process import grpc_runs as grpc_runs
from tests.soak.__main__ import MOST_GROWTH, slopes
from tests.soak.rounds import LOCAL


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.may_block
@pytest.mark.parametrize("name", sorted(LOCAL))
async def test_a_round_is_right_and_leaves_nothing(name: str):
    await LOCAL[name](Random(5))


def test_a_slope_is_that_of_the_second_half_whatever_single_measurements_say():
    samples = [{"CPU s": float(k), **dict.fromkeys(MOST_GROWTH, min(k, 10) + k / 3600)} for k in range(40)]
    samples[30] = {**samples[30], **dict.fromkeys(MOST_GROWTH, 1000.0)}

    assert slopes(samples) == pytest.approx(dict.fromkeys(MOST_GROWTH, 1.0))
