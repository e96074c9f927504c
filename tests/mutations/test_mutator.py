"""The mutator: the code it changes, and the code it excludes."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import dedent

import pytest

from tests.mutations.mutator import mutations
from tests.mutations.trial import REPOSITORY, nearest


def changed(body: str) -> list[str]:
    """Every mutation of a function body, as the mutated body."""
    lines = "".join(f"    {line}\n" for line in dedent(body).strip().splitlines())
    source = f"def function(a, b):\n{lines}"
    texts = [each.apply(source).splitlines()[1:] for each in mutations(source)]
    return ["\n".join(line[4:] for line in text if line.strip()) for text in texts]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("while a < b: go", ["while (a <= b): go"]),
        ("while a is not b: go", ["while (a is b): go"]),
        ("while a and b: go", ["while (a or b): go"]),
        ("while not a: go", ["while (a): go"]),
        ("while a: go", ["while (not a): go"]),
        ("x = a + b", ["x = (a - b)"]),
        ("x = a - b", ["x = (a + b)"]),
        ("x += a", ["pass", "x -= a"]),
        ("x = 4", ["x = 5"]),
        ("x = True", ["x = False"]),
        ("return a", ["return None"]),
        ("a.b = b", ["pass"]),
        ("a(b)", ["pass"]),
        ("x = a(a, b, *b)", ["x = (a(b, a, *b))"]),
    ],
)
def test_each_place_is_changed_in_each_way(body: str, expected: list[str]):
    assert changed(body) == expected


@pytest.mark.parametrize(
    "body",
    [
        '"""1 < 2."""',
        "assert a < b, 1",
        "raise ValueError(f'{a + 1}') from None",
        "x = f'{a + 1}'",
        "x: list[1] = a",
        "x = a",
        "x = a == b == a",
        "logger.info(a)",
        "await a(b)",
        "x = a(b, b)",
        "return None",
        "x = zip(a, strict=True)",
        "if TYPE_CHECKING: a()",
        "x = 'one' + 'other'",
    ],
)
def test_what_no_test_should_notice_is_left_alone(body: str):
    assert changed(body) == []


def test_a_change_over_several_lines_leaves_the_others_where_they_are():
    source = "def function(a):\n    if (\n        a\n        < 1\n    ):\n        return\n    last = a\n"
    tree = ast.parse(source)
    (function,) = tree.body
    assert isinstance(function, ast.FunctionDef)
    last = ast.get_source_segment(source, function.body[-1])

    for mutation in mutations(source):
        assert mutation.apply(source).splitlines()[6].strip() == last


@pytest.mark.parametrize("module", ["sessions/session", "planning/partition", "execution/propagator"])
def test_mutants_of_a_module_are_other_programs(module: str):
    source = (REPOSITORY / "aioexec" / f"{module}.py").read_text(encoding="utf-8")
    program = ast.dump(ast.parse(source))

    found = mutations(source)

    assert len(found) > 100
    for mutation in found[::25]:
        assert ast.dump(ast.parse(mutation.apply(source))) != program


def test_tests_of_the_module_come_first():
    first, second = nearest("aioexec/sessions/feeds.py")

    assert (REPOSITORY / first).is_file()
    assert second == str(Path(first).parent)
