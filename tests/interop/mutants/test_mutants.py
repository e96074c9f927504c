"""Every mutant of a real GraphDef ends in a result or an `OpError`, within bounds of time and memory."""

import pytest

from tests.interop.mutants.sources import Source, sources
from tests.interop.mutants.trials import make_trials

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(3600)]

CHUNKS = 10


@pytest.fixture(scope="module")
def real(tf) -> list[Source]:
    return sources(tf)


@pytest.mark.parametrize("chunk", range(CHUNKS))
async def test_mutants_end_in_a_result_or_an_op_error(chunk, real):
    report = await make_trials(real, range(200 * chunk, 200 * (chunk + 1)))

    assert report.breaches == []
    assert min(report.endings["refused"], report.endings["ran"]) > 30  # both are tried


@pytest.mark.sweep
@pytest.mark.parametrize("chunk", range(CHUNKS))
async def test_a_hundred_thousand_mutants_end_in_a_result_or_an_op_error(chunk, real):
    report = await make_trials(real, range(10_000 * (chunk + 1), 10_000 * (chunk + 2)))

    assert report.breaches == []
