"""The tables by the name of their file."""

from __future__ import annotations

import importlib
from pathlib import Path

from tests.interop.parity.table import Case

FAMILIES = sorted(path.stem for path in (Path(__file__).parent / "tables").glob("[a-z]*.py"))


def cases_of(family: str) -> list[Case]:
    """The table of a family."""
    cases: list[Case] = importlib.import_module(f"tests.interop.parity.tables.{family}").CASES
    return cases
