"""Names of `tf.data` take TensorFlow's arguments, in its order."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from tests.names_table import DATA

pytestmark = pytest.mark.interop

GONE = {"experimental.StatsOptions"}
"""Names of 1.15 that 2.x has no more."""
LATER = {
    "stop_on_empty_dataset",
    "encoding",
    "log_warning",
    "name",
    "deterministic",
    "output_signature",
    "rerandomize_each_iteration",
}
"""Arguments that came with 2.x."""
LATER_OF = {
    "map": {"synchronous", "use_unbounded_threadpool"},
    "batch": {"num_parallel_calls"},
    "padded_batch": {"num_parallel_calls"},
    "zip": {"args"},
}
"""The same, of some methods only."""


def resolve(root: Any, name: str) -> Any:
    for part in name.split("."):
        root = getattr(root, part)
    return root


def resolve_here(name: str) -> Any:
    module, _, attribute = f"aioexec.data.{name}".rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def callables(name: str, theirs: Any, ours: Any) -> Iterator[tuple[str, Any, Any]]:
    """A function, or the constructor and the public methods of a class, of both."""
    if not inspect.isclass(theirs):
        if callable(theirs):
            yield name, theirs, ours
        return
    for member in (each for each in dir(theirs) if not each.startswith("_")):
        found = getattr(ours, member, None)
        if inspect.isroutine(found) and inspect.isroutine(getattr(theirs, member)):
            yield member, getattr(theirs, member), found


def parameters(function: Any) -> list[tuple[str, Any]]:
    """Names and kinds, without the receiver."""
    found = inspect.signature(inspect.unwrap(function)).parameters.values()
    return [(each.name, each.default) for each in found if each.name not in ("self", "cls", "kwargs")]


@pytest.mark.parametrize("name", [name for name in DATA if name not in GONE])
def test_a_name_takes_tensorflows_arguments(tf: Any, name: str):
    for member, theirs, ours in callables(name, resolve(tf.data, name), resolve_here(name)):
        later = LATER | LATER_OF.get(member, set())
        expected = [each[0] for each in parameters(theirs)]
        got = [each[0] for each in parameters(ours)]
        expected = [each for each in expected if each not in later or each in got]

        assert got == expected, f"{name}.{member}"
