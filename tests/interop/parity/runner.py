"""Runs cases in both engines and reports differences.

Compared are values (to the tolerance of their dtype), dtypes, static shapes, classes of errors, and gradients with respect to
every floating input, for the same gradients of the outputs. The first difference is reported.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from aioexec import dtypes as dt, errors
from tests.interop.parity.engines import Engine
from tests.interop.parity.table import Case
from tests.interop.parity.written import Written, written

TOLERANCES = {
    "float64": 1e-11, "complex128": 1e-11, "float32": 1e-5, "complex64": 1e-5, "float16": 4e-3, "bfloat16": 3e-2,
}  # fmt: skip
"""Allowed difference of an element, relative to it, and absolute as a share of the largest element or of 1."""


class Verdict(Enum):
    AGREES = "agrees"
    DIFFERS = "differs"
    MEANT = "differs on purpose"
    SKIPPED = "not in TensorFlow"


@dataclass(frozen=True)
class Result:
    """The result of a case."""

    case: Case
    verdict: Verdict
    reason: str = ""


@dataclass(frozen=True)
class Failure:
    """An error: its class in the words of the canonical codes, and its message."""

    kind: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"

    @property
    def is_missing_kernel(self) -> bool:
        """Whether TensorFlow has nothing to run here."""
        missing = (
            "No OpKernel was registered",
            "Could not find device for node",
            "does not support",
            "not supported",
        )
        return self.kind == "UNIMPLEMENTED" or any(text in self.message for text in missing[:2])


@dataclass
class Seen:
    """The outcome of a case in one engine."""

    failure: Failure | None = None
    shapes: list[Any] = field(default_factory=list)
    values: list[list[Any]] = field(default_factory=list)
    gradients: list[Any] | Failure | None = None


def compare(cases: Iterable[Case], theirs: Engine, ours: Engine) -> Iterable[Result]:
    """Each case in turn."""
    for case in cases:
        reason, skipped = difference(case, theirs, ours)
        if skipped:
            yield Result(case, Verdict.SKIPPED, reason)
        elif not reason:
            yield Result(case, Verdict.AGREES)
        elif case.differs:
            yield Result(case, Verdict.MEANT, f"{case.differs} ({reason})")
        else:
            yield Result(case, Verdict.DIFFERS, reason)


def difference(case: Case, theirs: Engine, ours: Engine) -> tuple[str, bool]:
    """Where the engines differ ("" if nowhere), and whether the case is none, for lack of a kernel in TensorFlow."""
    graph = written(case)
    expected = observe(theirs, case, graph, None)
    if expected.failure and expected.failure.is_missing_kernel and not case.bad:
        return str(expected.failure)[:200], True
    if expected.failure and not case.bad:
        return f"the table expects values, TensorFlow raises {expected.failure}", False
    if case.bad and not expected.failure:
        return "the table expects an error, TensorFlow raises none", False
    got = observe(ours, case, graph, expected)
    if expected.failure or got.failure:
        return failures_differ(expected.failure, got.failure), False
    return values_differ(case, graph, expected, got) or gradients_differ(case, expected, got), False


def observe(engine: Engine, case: Case, graph: Written, other: Seen | None) -> Seen:
    """Import and run a case; gradients unless the other engine got none for want of a kernel."""
    seen = Seen()
    with engine.case():
        try:
            engine.load(graph.graph_def.SerializeToString())
            seen.shapes = [engine.shape(name) for name in graph.outputs]
            if graph.init:
                engine.run(graph.init, {})
            seen.values = [engine.run(step, graph.feeds) for step in graph.steps]
            seen.values += [engine.run(graph.reads, {})] if graph.reads else []
        except Exception as error:
            seen.failure = failure(error)
            return seen
        wanted = case.grad and case.steps is None and (other is None or other.gradients is not None)
        seen.gradients = gradients(engine, case, graph, seen) if wanted else None
    return seen


def gradients(engine: Engine, case: Case, graph: Written, seen: Seen) -> list[Any] | Failure | None:
    """The gradient by each floating feed as an array; None if there is nothing to differentiate or to run it."""
    outputs = dict(zip(graph.steps[0], seen.values[0], strict=True))
    ys = [
        name
        for k, (name, dtype) in enumerate(zip(graph.outputs, graph.output_dtypes, strict=True))
        if is_continuous(dtype) and (case.differentiated is None or k in case.differentiated)
    ]
    xs = [
        name
        for name, value in graph.feeds.items()
        if value.dtype.kind in "fcV" and is_continuous(value.dtype)
    ]
    xs += graph.variables
    if not ys or not xs:
        return None
    draw = np.random.default_rng(7)
    try:
        found = engine.gradients(ys, xs, [weights(draw, outputs[name]) for name in ys])
        parts = [
            [] if each is None else [each.values, each.indices] if engine.is_slices(each) else [each]
            for each in found
        ]
        flat = iter(engine.run([part for each in parts for part in each], graph.feeds))
        arrays = [[next(flat) for _ in each] for each in parts]
        return [dense(each, graph.feeds.get(x)) for each, x in zip(arrays, xs, strict=True)]
    except Exception as error:
        failed = failure(error)
        return None if failed.is_missing_kernel else failed


def is_continuous(dtype: Any) -> bool:
    wanted = dt.as_dtype(dtype)
    return not wanted.is_quantized and (wanted.is_floating or wanted.is_complex)


def weights(draw: np.random.Generator, like: Any) -> Any:
    """A gradient of an output: neither all alike, nor all positive."""
    shape = np.shape(like)
    drawn = draw.uniform(0.25, 1.5, shape) * draw.choice([-1.0, 1.0], shape)
    if like.dtype.kind == "c":
        drawn = drawn + 1j * draw.uniform(-1.0, 1.0, shape)
    return np.asarray(drawn).astype(like.dtype)


def dense(parts: list[Any], value: Any) -> Any:
    """("dense" or "slices", array) of a gradient by a feed (None for a variable); None if there is none."""
    if not parts:
        return None
    if len(parts) == 1:
        return "dense", parts[0]
    values, indices = parts
    rows = np.max(indices, initial=-1) + 1 if value is None else value.shape[0]
    total = np.zeros((rows, *values.shape[1:]), values.dtype)
    np.add.at(total, indices, values)
    return "slices", total


def failure(error: Exception) -> Failure:
    """An exception of either engine in the words of the canonical codes."""
    message = str(error).replace("\n", " ").removeprefix("Graph execution error: ")[:400]
    if isinstance(error, LookupError) and not isinstance(error, errors.OpError):
        return Failure("Lookup", message)
    code = error.code if isinstance(error, errors.OpError) else getattr(error, "error_code", None)
    if isinstance(code, int):
        return Failure(errors.exception_type_from_error_code(code).__name__.removesuffix("Error"), message)
    if isinstance(error, ValueError | TypeError):
        return Failure("InvalidArgument", message)
    return Failure(type(error).__name__, message)


def failures_differ(expected: Failure | None, got: Failure | None) -> str:
    if expected and got and expected.kind == got.kind:
        return ""
    return f"raises {got or 'nothing'}; TensorFlow {expected or 'nothing'}"


def values_differ(case: Case, graph: Written, expected: Seen, got: Seen) -> str:
    left_out = (
        set() if case.compared is None else {n for k, n in enumerate(graph.outputs) if k not in case.compared}
    )
    for name, theirs, ours in zip(graph.outputs, expected.shapes, got.shapes, strict=True):
        if theirs != ours and name not in left_out:
            return f"{name}: static shape {ours}, TensorFlow's {theirs}"
    names = [*graph.steps, *([graph.reads] if graph.reads else [])]
    for step, theirs_of, ours_of in zip(names, expected.values, got.values, strict=True):
        for name, theirs, ours in zip(step, theirs_of, ours_of, strict=True):
            problem = "" if name in left_out else array_differs(theirs, ours, case.tolerance)
            if problem:
                return f"{name}: {problem}"
    return ""


def gradients_differ(case: Case, expected: Seen, got: Seen) -> str:
    if expected.gradients is None:
        return ""
    if isinstance(expected.gradients, Failure) or isinstance(got.gradients, Failure) or got.gradients is None:
        theirs = expected.gradients if isinstance(expected.gradients, Failure) else None
        ours = got.gradients if isinstance(got.gradients, Failure) else None
        problem = failures_differ(theirs, ours)
        return f"gradient {problem}" if problem else ""
    for k, (theirs, ours) in enumerate(zip(expected.gradients, got.gradients, strict=True)):
        if theirs is None or ours is None:
            problem = (
                ""
                if theirs is ours
                else f"{'none' if ours is None else 'one'}, in TensorFlow the other way round"
            )
        elif theirs[0] != ours[0]:
            problem = f"is {ours[0]}, in TensorFlow {theirs[0]}"
        else:
            problem = array_differs(theirs[1], ours[1], case.tolerance)
        if problem:
            return f"gradient by floating input (or variable) {k}: {problem}"
    return ""


def array_differs(expected: Any, got: Any, factor: float) -> str:
    """How a value differs from the expected one; "" if it does not."""
    if expected is None or got is None:
        return "" if expected is got else f"{got!r} instead of {expected!r}"
    expected, got = np.asarray(expected), np.asarray(got)
    if got.dtype != expected.dtype and {got.dtype.kind, expected.dtype.kind} - set("OSU"):
        return f"dtype {got.dtype} instead of {expected.dtype}"
    if got.shape != expected.shape:
        return f"shape {list(got.shape)} instead of {list(expected.shape)}"
    tolerance = factor * TOLERANCES.get(expected.dtype.name, 0.0)
    if not tolerance:
        return "" if np.array_equal(got, expected) else f"{brief(got)} instead of {brief(expected)}"
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    expected, got = expected.astype(wide), got.astype(wide)
    return "" if all_close(expected, got, tolerance) else f"{brief(got)} instead of {brief(expected)}"


def all_close(expected: Any, got: Any, tolerance: float) -> bool:
    finite = np.isfinite(expected)
    if not np.array_equal(finite, np.isfinite(got)):
        return False
    if not np.array_equal(got[~finite], expected[~finite], equal_nan=True):
        return bool(expected.dtype.kind == "c" and np.array_equal(np.isnan(got), np.isnan(expected)))
    scale = min(float(np.max(np.abs(expected[finite]), initial=0.0)), 1.0)
    return bool(
        np.all(np.abs(got[finite] - expected[finite]) <= tolerance * (np.abs(expected[finite]) + scale))
    )


def brief(array: Any) -> str:
    return " ".join(str(array).split())[:120]
