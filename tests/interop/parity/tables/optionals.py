"""Optionals: values that may be missing."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.parity.sweeps import COMPLEX, FLOATS, INTEGERS, SHAPES, sample
from tests.interop.parity.table import Case, Node, case, node, unknown

DTYPES = (*FLOATS, *COMPLEX, *INTEGERS, "bool", "string")
X = sample("float32", (2, 3), 1)
LIST = node("TensorListReserve", [2], 3, attrs={"element_dtype": "float32"})


def some(*components: Any) -> Node:
    return node("OptionalFromValue", list(components))


NONE = node("OptionalNone")


def got(optional: Any, dtypes: Any = ("float32",), shapes: Any = (None,), **options: Any) -> Case:
    attrs = {"output_types": list(dtypes), "output_shapes": list(shapes)}
    return case("OptionalGetValue", optional, attrs=attrs, **options)


def seen(**attrs: Any) -> Any:
    """Steps that look at what an optional holds."""
    return lambda op: [
        [node("OptionalHasValue", op), *([node("OptionalGetValue", op, attrs=attrs)] if attrs else [])]
    ]


CASES: list[Case] = [
    *(got(some(sample(name, (2, 3))), (name,), [(2, 3)]) for name in DTYPES),
    *(got(some(sample("float32", shape, 2)), shapes=[shape]) for shape in SHAPES),
    *(got(some(X), shapes=[dims]) for dims in (None, (2, None), (None, None))),
    got(some(X, 3, b"a"), ("float32", "int32", "string"), [(2, 3), (), None]),
    got(some(X, sample("float64", (3,))), ("float32", "float64"), [None, (3,)]),
    got(some(unknown(X))),
    got(NONE, bad=True),
    got(some(X), ("int32",), bad=True),
    got(some(X), shapes=[(2, 4)], bad=True),
    got(some(X), ("float32", "float32"), [None, None], bad=True),
    got(some(X), ("float32",), [None, None], bad=True),
    got(LIST, bad=True),
    got(node("ZerosLike", some(X))),
    got(node("AddN", [some(X), some(2 * X)])),
    got(node("AddN", [some(X), NONE]), bad=True),
    *(case("OptionalHasValue", some(sample(name, (2,)))) for name in DTYPES[:8]),
    case("OptionalHasValue", NONE),
    case("OptionalHasValue", some(np.zeros((0, 2), np.float32), 1)),
    case("OptionalHasValue", node("ZerosLike", NONE)),
    case("OptionalHasValue", node("AddN", [NONE, NONE])),
    case("OptionalHasValue", LIST, bad=True),
    case(
        "OptionalHasValue",
        node("OptionalGetValue", some(some(X)), attrs={"output_types": ["variant"], "output_shapes": [()]}),
    ),
    *(
        case(
            "OptionalFromValue", [sample(name, (2, 3))], steps=seen(output_types=[name], output_shapes=[None])
        )
        for name in DTYPES
    ),
    case("OptionalFromValue", [sample("float32", (0, 3))], steps=seen()),
    case("OptionalFromValue", [X, X, 1], steps=seen()),
    case("OptionalFromValue", [], bad=True),
    case("OptionalNone", steps=seen()),
]
