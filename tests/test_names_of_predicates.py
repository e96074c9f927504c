"""A function named as a claim (`is_open`, `has_ended`) returns a bool; an action is named by a verb."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import aioexec

ROOT = Path(aioexec.__file__).parent

CLAIM = re.compile(r"_*(is|has|was|were|can|may|are)_")

BOOLS = {"bool", "builtins.bool", "bool | None"}  # None: it is not known

# What the ops of TensorFlow with these names return, and what compiled code computes for one of them, is a tensor of bools.
OF_TENSORS = {
    "devices/jit/llvm/primitives.py is_nan",
    "distributions/distribution.py is_scalar_batch",
    "distributions/distribution.py is_scalar_event",
    "ops/containers/queue_class.py is_closed",
    "ops/control_flow/checks.py is_non_decreasing",
    "ops/control_flow/checks.py is_strictly_increasing",
    "ops/image/codecs.py is_jpeg",
    "ops/math/comparison.py is_finite",
    "ops/math/comparison.py is_inf",
    "ops/math/comparison.py is_nan",
    "ops/state/assignments.py is_variable_initialized",
    "ops/state/variable.py is_initialized",
}


def wrong_claims(source: str) -> Iterator[str]:
    """Yield the functions of a module that are named as claims but return no bool."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and CLAIM.match(node.name):
            returned = ast.unparse(node.returns) if node.returns is not None else "None"
            if returned not in BOOLS and not returned.startswith(("TypeGuard[", "TypeIs[")):
                yield node.name


@pytest.mark.slow
def test_functions_named_as_claims_return_bools():
    wrong = {
        f"{path.relative_to(ROOT)} {name}"
        for path in ROOT.rglob("*.py")
        for name in wrong_claims(path.read_text(encoding="utf-8"))
    }

    assert wrong == OF_TENSORS


def test_an_action_named_as_a_claim_would_be_found():
    source = "class Part:\n    def _is_over(self) -> None: ...\n    def is_open(self) -> bool: ...\ndef was_closed(): ..."

    assert {*wrong_claims(source)} == {"_is_over", "was_closed"}
