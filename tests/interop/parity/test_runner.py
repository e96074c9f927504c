"""The parity runner detects differences: an engine with one error does not agree."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.interop.parity.engines import Here, There
from tests.interop.parity.runner import Verdict, compare
from tests.interop.parity.table import Case, case, unknown, variable

pytestmark = pytest.mark.interop

X = np.array([[0.5, -1.0], [2.0, 3.0]], np.float32)


class Wrong(Here):
    """aioexec with one of its answers changed."""

    def __init__(self, wrong: str) -> None:
        super().__init__()
        self.wrong = wrong
        self.runs = 0

    def shape(self, tensor: str) -> Any:
        return None if self.wrong == "shape" else super().shape(tensor)

    def gradients(self, ys: Sequence[str], xs: Sequence[str], grad_ys: Sequence[Any]) -> list[Any]:
        found = super().gradients(ys, xs, grad_ys)
        if self.wrong == "refused gradient":
            raise LookupError("none")
        if self.wrong == "doubled gradient":
            return [2.0 * each for each in found]
        return [None for _ in found] if self.wrong == "no gradient" else found

    def run(self, fetches: Any, feeds: dict[str, Any]) -> list[Any]:
        self.runs += 1
        values = super().run(fetches, feeds)
        if self.wrong == "value":
            return [each + 0.001 for each in values]
        if self.wrong == "dtype":
            return [each.astype(np.float64) for each in values]
        if self.wrong == "error":
            raise ValueError("nothing works")
        return values

    def load(self, graph_def: bytes) -> None:
        if self.wrong == "unknown op":
            raise RuntimeError("no such op")
        super().load(graph_def)


@pytest.fixture(scope="module")
def there(tf: Any) -> There:
    return There()


def verdict(there: There, which: Case, wrong: str = "") -> Verdict:
    with contextlib.closing(Wrong(wrong)) as here:
        (result,) = compare([which], there, here)
    return result.verdict


def test_what_is_the_same_agrees(there):
    for which in (case("Tanh", X), case("MatMul", X, X[:1], bad=True), case("AssignAdd", variable(X), X)):
        assert verdict(there, which) is Verdict.AGREES


WRONG = (
    "shape",
    "value",
    "dtype",
    "error",
    "unknown op",
    "refused gradient",
    "doubled gradient",
    "no gradient",
)


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_in_one_way_differs(there, wrong):
    assert verdict(there, case("Tanh", X), wrong) is Verdict.DIFFERS


def test_an_error_of_another_class_differs(there):
    assert verdict(there, case("MatMul", X, X[:1], bad=True), "unknown op") is Verdict.DIFFERS


def test_the_table_must_say_what_is_bad(there):
    assert verdict(there, case("MatMul", X, X[:1])) is Verdict.DIFFERS
    assert verdict(there, case("MatMul", X, X, bad=True)) is Verdict.DIFFERS


def test_what_differs_on_purpose_says_so_and_does_not_agree(there):
    assert verdict(there, case("Tanh", X, differs="because"), "value") is Verdict.MEANT
    assert verdict(there, case("Tanh", X, differs="because")) is Verdict.AGREES


def test_what_tensorflow_has_no_kernel_for_is_not_counted(there):
    assert verdict(there, case("MatMul", unknown(X.astype(np.uint8)), X.astype(np.uint8))) is Verdict.SKIPPED
