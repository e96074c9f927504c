"""Every required behaviour has a test that cites it, and no test cites an unlisted one.

Tests are parsed, not imported, so those that need TensorFlow are found too. Behaviours that only these show do not count, since
most runs leave them out.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.behaviours import BEHAVIOURS, REQUIRED

TESTS = Path(__file__).parent
INTEROP = TESTS / "interop"


def cited(source: str) -> Iterator[int]:
    """The numbers in a file's `pytest.mark.behaviour(...)`."""
    tree = ast.parse(source if "behaviour(" in source else "")
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.behaviour":
            for argument in node.args:
                number = ast.literal_eval(argument)  # a plain one, so that it is found without importing
                assert isinstance(number, int)
                yield number


pytestmark = pytest.mark.slow  # all tests are read


@pytest.fixture(scope="module")
def citations() -> dict[int, set[Path]]:
    """The files of tests that cite each number."""
    found: dict[int, set[Path]] = defaultdict(set)
    for path in sorted(TESTS.rglob("test_*.py")):
        if path != Path(__file__):
            for number in cited(path.read_text(encoding="utf-8")):
                found[number].add(path)
    return found


def test_each_behaviour_is_listed_once_and_in_words():
    numbers = [behaviour.number for behaviour in BEHAVIOURS]

    assert numbers == list(range(1, 161))
    assert all(behaviour.text for behaviour in BEHAVIOURS)


def test_every_required_behaviour_has_a_test(citations: dict[int, set[Path]]):
    shown = {
        number for number, paths in citations.items() if any(INTEROP not in path.parents for path in paths)
    }

    missing = [f"{each.number}: {each.text}" for each in BEHAVIOURS if each.number in REQUIRED - shown]

    assert missing == []


def test_at_least_60_behaviours_are_compared_with_tensorflow(citations: dict[int, set[Path]]):
    compared = {
        number for number, paths in citations.items() if any(INTEROP in path.parents for path in paths)
    }

    assert len(compared) >= 60


def test_no_test_cites_a_behaviour_that_is_not_listed(citations: dict[int, set[Path]]):
    unknown = citations.keys() - {behaviour.number for behaviour in BEHAVIOURS}

    assert {number: sorted(map(str, citations[number])) for number in unknown} == {}


def test_a_citation_is_found_wherever_it_stands():
    source = """
@pytest.mark.slow
@pytest.mark.behaviour(3, 4)
async def test_something(): ...

@pytest.mark.parametrize("case", [pytest.param(1, marks=pytest.mark.behaviour(5))])
def test_cases(case): ...
"""

    assert sorted(cited(source)) == [3, 4, 5]
