"""Nothing of what this project grew from is forgotten: each row of the tables has its counterpart and test, or a reason."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.seeds_devices_table import DEVICES
from tests.seeds_table import SESSIONS
from tests.seeds_training_table import TRAINING

TESTS = Path(__file__).parent


@dataclasses.dataclass
class Row:
    """A member of the seeds: what is ours and the tests that show it, or why there is none."""

    member: str
    ours: str = ""
    tests: list[str] = dataclasses.field(default_factory=list)
    reason: str = ""


def rows(table: str) -> list[Row]:
    found: list[Row] = []
    owner = ""
    for line in filter(None, table.splitlines()):
        text = line.strip()
        match len(line) - len(line.lstrip()):
            case 0:
                owner = text
            case 4:
                found.append(_row(owner, text))
            case 8 if found[-1].ours:
                found[-1].tests.append(text)
            case 8:
                found[-1].reason += f" {text}"
            case _:
                raise AssertionError(f"neither class nor member nor detail: {line!r}")
    return found


def _row(owner: str, text: str) -> Row:
    for separator in (" = ", ": "):
        member, found, rest = text.partition(separator)
        if found:
            row = Row(f"{owner} {member}")
            if separator == " = ":
                row.ours = rest
            else:
                row.reason = rest
            return row
    return Row(f"{owner} {text.removesuffix(':')}")


@cache
def exists(name: str) -> bool:
    """Whether a dotted name below `aioexec` means a module, or something in it: also a field that instances have."""
    parts = ["aioexec", *name.removeprefix("aioexec.").split(".")]
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        return _has(found, parts[length:])
    return False


def _has(found: Any, parts: list[str]) -> bool:
    for place, part in enumerate(parts):
        if not hasattr(found, part):
            return inspect.isclass(found) and place == len(parts) - 1 and part in fields_of(found)
        found = getattr(found, part)
    return True


def fields_of(owner: type) -> set[str]:
    """What instances of a class and its bases have: declared in their bodies, or assigned to `self`."""
    found: set[str] = set()
    for each in owner.__mro__[:-1]:
        if not each.__module__.startswith("aioexec"):
            continue
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(each)))):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
    return found


@cache
def functions_of(path: Path) -> set[str]:
    if not path.exists():
        return set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def is_a_test(name: str) -> bool:
    file, _, test = name.partition("::")
    return test.startswith("test_") and test in functions_of(TESTS / file)


ROWS = rows(SESSIONS) + rows(DEVICES) + rows(TRAINING)


def test_no_row_is_empty_and_none_comes_twice():
    members = [row.member for row in ROWS]

    assert [row.member for row in ROWS if not (row.ours and row.tests) and not row.reason] == []
    assert sorted(set(members)) == sorted(members)


@pytest.mark.slow
def test_every_counterpart_is_there():
    named = {row.member: [row.ours] if row.ours else re.findall(r"`(.+?)`", row.reason) for row in ROWS}

    assert [
        member for member, names in named.items() if not names
    ] == []  # a reason names what takes the place
    assert [(member, name) for member, names in named.items() for name in names if not exists(name)] == []


@pytest.mark.slow
def test_every_test_that_shows_a_row_is_there():
    assert [(row.member, test) for row in ROWS for test in row.tests if not is_a_test(test)] == []


def test_what_is_not_there_is_noticed():
    assert exists("sessions.steps.StepScope.deadline")
    assert exists("sessions.options.SessionOptions.target")
    assert not exists("sessions.steps.StepScope.dead_line")
    assert not exists("sessions.nowhere")
    assert not exists("sessions.session.Session.graph.nodes")
    assert not is_a_test("test_seeds_table.py::test_nowhere")
    assert rows("Class\n    member:\n    other = \n") == [Row("Class member"), Row("Class other =")]
