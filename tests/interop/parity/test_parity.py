"""Every table against the real TensorFlow: all cases agree that do not differ on purpose, and they are as many as claimed."""

import contextlib

import pytest

from tests.interop.parity.engines import Here, There
from tests.interop.parity.families import FAMILIES, cases_of
from tests.interop.parity.report import Tally, missing, tallied
from tests.interop.parity.runner import Verdict, compare
from tests.interop.parity.wanted import FEWER_CASES

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

AGREEING = 0.99
AGREEING_OF_A_FAMILY = 0.98  # small ones have their few differences on purpose all the same
AGREEING_OF_AN_OP = 0.90
CASES_OF_AN_OP = 12
OPS = 750
CASES = 17_000


@pytest.fixture(scope="module")
def tallies(tf) -> dict[str, list[Tally]]:
    """The counts so far, by family."""
    return {}


@pytest.fixture
def tallies_of(tallies):
    def found(family: str) -> list[Tally]:
        if family not in tallies:
            with contextlib.closing(Here()) as here:
                tallies[family] = tallied(compare(cases_of(family), There(), here))
        return tallies[family]

    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_cases_agree_with_tensorflow(family, tallies_of):
    found = tallies_of(family)

    problems = [f"{result.case!r}: {result.reason}" for tally in found for result in tally.others]
    differing = [
        f"{result.case!r}: {result.reason}"
        for tally in found
        for result in tally.others
        if result.verdict is Verdict.DIFFERS
    ]
    assert differing == []
    assert sum(t.agreed for t in found) >= AGREEING_OF_A_FAMILY * sum(t.counted for t in found), problems
    assert [t.op_type for t in found if t.share < AGREEING_OF_AN_OP] == [], problems


def test_there_are_as_many_ops_and_cases_as_claimed(tallies_of):
    everything = [tally for family in FAMILIES for tally in tallies_of(family)]
    merged = tallied(result for tally in everything for result in tally.results)

    counted = sum(tally.counted for tally in merged)
    assert len(merged) >= OPS
    assert counted >= CASES
    assert sum(tally.agreed for tally in merged) >= AGREEING * counted
    few = [tally.op_type for tally in merged if tally.counted < CASES_OF_AN_OP]
    assert set(few) <= FEWER_CASES.keys()
    assert missing(merged) == []
