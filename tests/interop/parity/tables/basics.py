"""Constants, placeholders, checks, printing, no-ops, and tensors kept in the session."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.parity.sweeps import COMPLEX, FLOATS, INTEGERS, SHAPES, sample
from tests.interop.parity.table import Case, Node, case, const, node, partly, unknown, variable

DTYPES = (*FLOATS, *COMPLEX, *INTEGERS, "bool", "string")
X = sample("float32", (2, 3), 1)


def constant(value: Any, differs: str = "", **attrs: Any) -> Case:
    made = const(value)
    return case("Const", attrs={**made.attrs, **attrs}, bad=bool(attrs), differs=differs)


CONSTANTS = [
    *(constant(sample(name, shape, 1)) for name in DTYPES for shape in ((2, 3), ())),
    *(constant(sample("float32", shape, 1)) for shape in SHAPES),
    *(
        constant(sample(name, (3,), 1), differs="quantized values are fetched with their dtype")
        for name in ("qint8", "quint8", "qint32")
    ),
    constant(np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45], np.float32)),
    constant(np.full((40, 40), 7, np.int64)),
    constant(X, dtype="float64"),
    case("Const", attrs={"dtype": "float32"}, bad=True, note="no value"),
]


PLACEHOLDERS = [
    *(case("Placeholder", attrs={"dtype": name, "shape": (2,)}, bad=True, note="not fed") for name in DTYPES),
    *(
        case("Placeholder", attrs={"dtype": "float32", "shape": shape}, bad=True)
        for shape in (None, (), (None, 2))
    ),
    case("Placeholder", bad=True, note="no dtype"),
    *(case("PlaceholderWithDefault", sample(name, (2, 3)), attrs={"shape": (2, 3)}) for name in DTYPES),
    *(
        case("PlaceholderWithDefault", X, attrs={"shape": shape})
        for shape in (None, (2, 3), (None, 3), (None, None), (2, None))
    ),
    *(case("PlaceholderWithDefault", sample("float32", shape), attrs={"shape": shape}) for shape in SHAPES),
    case("PlaceholderWithDefault", unknown(X), attrs={"shape": (None, 3)}),
    case("PlaceholderWithDefault", partly(X, (None, 3)), attrs={"shape": (2, None)}),
    case("PlaceholderWithDefault", X, attrs={"shape": (2, 4)}, bad=True),
    case("PlaceholderWithDefault", X, attrs={"shape": (2, 3, 1)}, bad=True),
]

BAD_NUMBERS = ((np.nan,), (np.inf,), (1.0, -np.inf), (np.nan, np.inf))

CHECKS = [
    *(case("CheckNumerics", sample(name, (2, 3)), attrs={"message": "m"}) for name in FLOATS),
    *(case("CheckNumerics", sample("float32", shape), attrs={"message": "m"}) for shape in SHAPES),
    *(
        case("CheckNumerics", np.array(bad, name), attrs={"message": "m"}, bad=True)
        for bad in BAD_NUMBERS
        for name in ("float32", "float64")
    ),
    case("CheckNumerics", unknown(X), attrs={"message": ""}),
    case("CheckNumerics", X, bad=True, note="no message"),
    case("CheckNumerics", sample("int32", (2,)), attrs={"message": "m"}, bad=True),
    *(case("Assert", True, [sample(name, (3,))]) for name in DTYPES),
    *(case("Assert", False, [sample(name, (3,))], bad=True) for name in DTYPES),
    *(case("Assert", pred, [X, 3, b"text"], attrs={"summarize": 2}, bad=not pred) for pred in (True, False)),
    case("Assert", unknown(True), [unknown(X)]),
    case("Assert", True, [], bad=True, note="no data"),
    case("Assert", [True, False], [X], bad=True, note="no scalar"),
    case("Assert", np.float32(1), [X], bad=True),
]

PRINTING = [
    *(case("Print", sample(name, (2,)), [], attrs={"first_n": 0}) for name in DTYPES),
    *(case("Print", sample("float32", shape), [], attrs={"first_n": 0}) for shape in SHAPES),
    case("Print", X, [X, b"text", 3], attrs={"message": "seen: ", "first_n": 1, "summarize": 2}, grad=False),
    case("Print", unknown(X), [unknown(X)], attrs={"first_n": 0}),
    case("Print", variable(X), [X], attrs={"first_n": 0}),
]


def after(waiting: str) -> Case:
    """An operation that waits for a change of a variable, and one that waits for it."""
    held = variable([1.0, 2.0])
    change = node("AssignAdd", held, const([1.0, 1.0]))

    def steps(op: Node) -> Any:
        return [[op], [node("Identity", const(3), after=[op])]]

    return case(waiting, after=[change], steps=steps)


NOTHING = [*(after(name) for name in ("NoOp", "ControlTrigger")), case("NoOp"), case("ControlTrigger")]


def handle_of(name: str) -> Node:
    """The handle of the first tensor that the node of this name keeps in a session."""
    return const(f"{name};0;/job:localhost/replica:0/task:0/device:CPU:0".encode())


def named(value: Any) -> str:
    return "string" if value.dtype == object else str(value.dtype.name)


def handed(value: Any) -> Case:
    """A later step finds what an earlier one has stored."""

    def steps(handle: Node) -> Any:
        return [[handle], [node("GetSessionTensor", handle_of("op"), attrs={"dtype": named(value)})]]

    return case("GetSessionHandle", value, steps=steps)


def kept(value: Any, dtype: str | None = None, **options: Any) -> Case:
    """The handle is the second node that is written, after this one."""
    handle = node("GetSessionHandle", value)
    attrs = {"dtype": dtype or named(value)}
    return case("GetSessionTensor", KEPT, attrs=attrs, steps=lambda op: [[handle], [op], [op]], **options)


def forgotten(value: Any) -> Case:
    handle = node("GetSessionHandle", value)
    return case("DeleteSessionTensor", KEPT, steps=lambda op: [[handle], [op]])


def found_again(value: Any) -> Case:
    """It is gone after it was deleted."""
    handle, found = (
        node("GetSessionHandle", value),
        node("GetSessionTensor", KEPT, attrs={"dtype": named(value)}),
    )
    return case("DeleteSessionTensor", KEPT, steps=lambda op: [[handle], [found], [op], [found]], bad=True)


KEPT = handle_of("n2")

HANDLES = [
    *(kept(sample(name, (2, 3))) for name in DTYPES),
    *(kept(sample("float32", shape)) for shape in SHAPES),
    kept(X, "int32", bad=True, note="of another dtype"),
    case("GetSessionTensor", b"unknown", attrs={"dtype": "float32"}, bad=True),
    case("GetSessionTensor", [b"no", b"scalar"], attrs={"dtype": "float32"}, bad=True),
    case(
        "GetSessionTensor",
        node("GetSessionHandle", X),
        attrs={"dtype": "float32"},
        bad=True,
        differs="a tensor is found in the step that keeps it, too",
    ),
    *(forgotten(sample(name, (2, 3))) for name in DTYPES),
    found_again(X),
    case("DeleteSessionTensor", b"unknown", bad=True),
    case("DeleteSessionTensor", [b"no", b"scalar"], bad=True),
    *(handed(sample(name, (2, 3))) for name in DTYPES),
    *(case("GetSessionHandleV2", sample(name, (2, 3))) for name in DTYPES),
]

CASES: list[Case] = [*CONSTANTS, *PLACEHOLDERS, *CHECKS, *PRINTING, *NOTHING, *HANDLES]
