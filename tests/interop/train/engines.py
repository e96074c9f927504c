"""Runs one program in both engines and compares the results.

A program is a `Builder`, called with the module `tensorflow.compat.v1` and with `aioexec`; it may raise, then in both.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError, OpError
from tests.interop.building import Builder, Built

RELATIVE = {"float64": 1e-12, "float32": 1e-6, "float16": 2e-3, "bfloat16": 2e-2}


@dataclass(frozen=True, eq=False)
class Measured(Built):
    """A program with fetches for a last run, after the others."""

    after: Sequence[Any] = ()


@dataclass
class Outcome:
    """The outcome of a program: a failure's class, or values, static shapes and the names in its collections."""

    failure: str = ""
    results: list[list[Any]] = field(default_factory=list)
    after: list[Any] = field(default_factory=list)
    shapes: list[Any] = field(default_factory=list)
    collections: dict[str, list[str]] = field(default_factory=dict)


@contextlib.contextmanager
def kind_of_variables(module: Any, resource: bool) -> Iterator[None]:
    """New variables are resources, or references."""
    was = module.resource_variables_enabled()
    (module.enable_resource_variables if resource else module.disable_resource_variables)()
    try:
        yield
    finally:
        (module.enable_resource_variables if was else module.disable_resource_variables)()


@contextlib.contextmanager
def first_control_flow(tf: Any) -> Iterator[None]:
    """New conditionals and loops are of Switch and Merge nodes, as in 1.x."""
    was = tf.control_flow_v2_enabled()
    tf.disable_control_flow_v2()
    try:
        yield
    finally:
        (tf.enable_control_flow_v2 if was else tf.disable_control_flow_v2)()


def with_tensorflow(tf: Any, build: Builder, resource: bool = True) -> Outcome:
    outcome = Outcome()
    try:
        with tf.Graph().as_default() as graph:
            with kind_of_variables(tf, resource), first_control_flow(tf):
                built = build(tf)
            _describe(outcome, graph, built)
            with tf.Session(graph=graph) as session:
                if built.init is not None:
                    session.run(built.init)
                for feed in built.feeds:
                    outcome.results.append(session.run(_fetched(built), feed)[0])
                if isinstance(built, Measured):
                    outcome.after = session.run(list(built.after))
    except (tf.errors.OpError, ValueError, TypeError, RuntimeError) as error:
        outcome.failure = _kind(error, tf.errors.OpError)
    return outcome


async def here(build: Builder, resource: bool = True) -> Outcome:
    outcome = Outcome()
    try:
        with ax.Graph().as_default() as graph:
            with kind_of_variables(ax, resource):
                built = build(ax)
            _describe(outcome, graph, built)
            async with ax.Session(graph=graph) as session:
                if built.init is not None:
                    await session.run(built.init)
                for feed in built.feeds:
                    outcome.results.append((await session.run(_fetched(built), feed))[0])
                if isinstance(built, Measured):
                    outcome.after = await session.run(list(built.after))
    except (OpError, ValueError, TypeError, RuntimeError) as error:
        outcome.failure = _kind(error, OpError)
    return outcome


def _fetched(built: Built) -> list[Any]:
    return [list(built.fetches), [] if built.train is None else built.train]


def _describe(outcome: Outcome, graph: Any, built: Built) -> None:
    after = built.after if isinstance(built, Measured) else ()
    outcome.shapes = [_dims(tensor) for tensor in (*built.fetches, *after)]
    outcome.collections = {
        str(name): [
            getattr(item, "handle", item).name for item in graph.get_collection(name) if hasattr(item, "name")
        ]
        for name in sorted(map(str, graph.get_all_collection_keys()))
        if name not in ("cond_context", "while_context", "__variable_store")
    }


def _dims(tensor: Any) -> Any:
    shape = getattr(tensor, "shape", None)
    return None if shape is None or shape.ndims is None else shape.as_list()


def _kind(error: BaseException, op_error: type) -> str:
    """The class of an error; errors of building graphs count as Python's."""
    for kind, name in ((GraphTypeError, "TypeError"), (GraphValueError, "ValueError")):
        if isinstance(error, kind):
            return name
    if isinstance(error, op_error):
        return type(error).__name__
    return next(kind.__name__ for kind in (ValueError, TypeError, RuntimeError) if isinstance(error, kind))


def differences(theirs: Outcome, ours: Outcome, tolerance: float = 1.0) -> Iterator[str]:
    """The differences from TensorFlow."""
    if theirs.failure != ours.failure:
        yield f"failure {ours.failure or 'none'} instead of {theirs.failure or 'none'}"
    if theirs.failure or ours.failure:
        return
    if not all(map(_is_as_precise, ours.shapes, theirs.shapes)):
        yield f"static shapes {ours.shapes} instead of {theirs.shapes}"
    for name in sorted({*theirs.collections, *ours.collections}):
        if name.startswith("__") or "scope" in name:
            continue
        got, expected = ours.collections.get(name, []), theirs.collections.get(name, [])
        if got != expected:
            yield f"collection {name}: {got} instead of {expected}"
    for k, (got_all, expected_all) in enumerate(
        zip(_by_fetch(ours.results), _by_fetch(theirs.results), strict=True)
    ):
        scale = max((_largest(value) for value in expected_all), default=0.0)
        for run, (got, expected) in enumerate(zip(got_all, expected_all, strict=True)):
            problem = difference(got, expected, tolerance, scale)
            if problem:
                yield f"run {run}, fetch {k}: {problem}"
    for k, (got, expected) in enumerate(zip(ours.after, theirs.after, strict=True)):
        problem = difference(got, expected, tolerance, _largest(expected))
        if problem:
            yield f"fetch {k} of the last run: {problem}"


def _is_as_precise(ours: Any, theirs: Any) -> bool:
    """Whether a static shape is the expected one, or more precise."""
    if theirs is None or ours is None:
        return theirs is None
    return len(ours) == len(theirs) and all(
        expected in (None, got) for got, expected in zip(ours, theirs, strict=True)
    )


def _by_fetch(results: list[list[Any]]) -> list[tuple[Any, ...]]:
    return list(zip(*results, strict=True))


def _largest(value: Any) -> float:
    array = np.asarray(value)
    if array.dtype.kind not in "fV":
        return 0.0
    array = array.astype(np.float64)
    return float(np.max(np.abs(array[np.isfinite(array)]), initial=0.0))


def difference(got: Any, expected: Any, tolerance: float, scale: float) -> str:
    """The difference of a value; small values may differ by the rounding of `scale`, the largest of all runs."""
    got, expected = np.asarray(got), np.asarray(expected)
    if got.dtype != expected.dtype or got.shape != expected.shape:
        return f"{got.dtype}{list(got.shape)} instead of {expected.dtype}{list(expected.shape)}"
    relative = tolerance * RELATIVE.get(expected.dtype.name, 0.0)
    if not relative:
        return "" if np.array_equal(got, expected) else f"{got} instead of {expected}"
    absolute = relative * scale * (1.0 if expected.dtype.itemsize == 2 else 0.2)
    near = np.allclose(
        got.astype(np.float64), expected.astype(np.float64), relative, absolute, equal_nan=True
    )
    return "" if near else f"{got} instead of {expected}"


async def compare(tf: Any, build: Builder, tolerance: float = 1.0, resource: bool = True) -> list[str]:
    """Run a program in both engines; what differs."""
    theirs, ours = with_tensorflow(tf, build, resource), await here(build, resource)
    return list(differences(theirs, ours, tolerance))


def table() -> tuple[dict[str, Builder], Callable[[str, Builder], None]]:
    """An empty table of programs by name, and what adds a row to it."""
    rows: dict[str, Builder] = {}

    def add(name: str, build: Builder) -> None:
        assert name not in rows, f"{name} is there already"
        rows[name] = build

    return rows, add
