"""A sample of elementwise ops and reductions."""

from __future__ import annotations

from tests.interop.parity.sweeps import binary, reduction, unary
from tests.interop.parity.table import Case

CASES: list[Case] = [
    *unary("Tanh"),
    *unary("Abs"),
    *binary("AddV2"),
    *binary("Mul"),
    *reduction("Sum"),
    *reduction("Any"),
]
