"""Staging areas and maps: put, get, peek, partial tuples, and errors.

TensorFlow's methods block a thread while they wait, so no case waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.interop.parity.sweeps import sample
from tests.interop.parity.table import Case, Node, case, node, unknown

DTYPES = ["float32", "int32", "string", "bool", "complex64", "float16", "bfloat16", "uint8"]
SHAPES: list[tuple[int, ...]] = [(), (3,), (2, 3), (0,), (0, 2)]
FAMILIES = ["Map", "OrderedMap"]


def area(op_type: str, *inputs: Any, dtypes: Sequence[str] = ("float32",), **attrs: Any) -> Node:
    return node(op_type, *inputs, attrs={"dtypes": list(dtypes), "shared_name": "here", **attrs})


def about(
    op_type: str, *inputs: Any, before: Sequence[Node] = (), after: Sequence[Any] = (), **attrs: Any
) -> Case:
    """A verb after others, and what is seen behind it."""
    bad = attrs.pop("bad", False)
    outputs = attrs.pop("outputs", 0)
    made = area(op_type, *inputs, **attrs)
    return case(
        op_type,
        *inputs,
        attrs=made.attrs,
        bad=bad,
        steps=lambda verb: [
            *[[each] for each in before],
            [verb[k] for k in range(outputs)] or [verb],
            *[[each] for each in after],
        ],
    )


def staging() -> list[Case]:
    cases = []
    size = area("StageSize")
    for dtype, shape in [*[(dtype, (2,)) for dtype in DTYPES], *[("float32", shape) for shape in SHAPES]]:
        value = [sample(dtype, shape)]
        types = {"dtypes": [dtype]}
        put = area("Stage", value, **types)
        cases += [
            about("Stage", value, **types, after=[area("StageSize", **types), area("Unstage", **types)]),
            about("Unstage", **types, before=[put, put], after=[area("StageSize", **types)], outputs=1),
            about("StagePeek", np.int32(0), **types, before=[put], outputs=1),
            about("StageSize", **types, before=[put] * len(shape)),
            about("StageClear", **types, before=[put] * len(shape), after=[area("StageSize", **types)]),
        ]
    two = {"dtypes": ["float32", "string"]}
    values = [sample("float32", (2,)), sample("string", (3,))]
    put, more = area("Stage", values, **two), area("Stage", [np.float32([9]), np.array([b"z"])], **two)
    cases += [
        about("Stage", values, **two, after=[area("StageSize", **two)]),
        about("Stage", values, **two, memory_limit=1000, capacity=3, after=[area("StageSize", **two)]),
        about("Stage", values, **two, memory_limit=9, bad=True),
        about("Unstage", **two, before=[put, more, put], outputs=2),
        about("Unstage", dtypes=["float32"], before=[put], bad=True),
        about("StagePeek", np.int32(1), **two, before=[put, more], outputs=2),
        about("StagePeek", unknown(np.int32(0)), **two, before=[put, more], outputs=2),
        about("StagePeek", np.int32(0), dtypes=["float32"], before=[put], bad=True),
        about("StageSize", dtypes=[]),
        about("StageSize", **two, before=[put, more]),
        about("StageSize", **two, before=[put, area("Unstage", **two)]),
        about("StageClear", dtypes=[], after=[size]),
        about("Stage", values, dtypes=["float32", "string"], container="there", after=[size]),
    ]
    for name, inputs in (("Stage", [values]), ("Unstage", []), ("StageSize", []), ("StageClear", [])):
        cases.append(about(name, *inputs, **two, container="no name!", bad=True))
    cases.append(about("StagePeek", np.int32(0), **two, container="no name!", bad=True))
    return cases


def key(value: int) -> Any:
    return np.int64(value)


def indices(*values: int) -> Any:
    return np.array(values, np.int32)


def put_of(
    family: str, k: int, values: Sequence[Any], *places: int, dtypes: Sequence[str], **more: Any
) -> Node:
    return area(f"{family}Stage", key(k), indices(*places), list(values), dtypes=dtypes, **more)


def maps(family: str) -> list[Case]:
    cases = []
    for dtype, shape in [*[(dtype, (2,)) for dtype in DTYPES], *[("float32", shape) for shape in SHAPES]]:
        value = [sample(dtype, shape)]
        types = {"dtypes": [dtype]}
        puts = [put_of(family, k, value, 0, **types) for k in (5, 3)]
        size, missing = area(f"{family}Size", **types), area(f"{family}IncompleteSize", **types)
        places = indices(0)
        cases += [
            about(f"{family}Stage", key(7), places, value, **types, after=[size, missing]),
            about(f"{family}Unstage", key(5), places, **types, before=puts, after=[size], outputs=1),
            about(f"{family}Peek", key(3), places, **types, before=puts, after=[size], outputs=1),
            about(f"{family}UnstageNoKey", places, **types, before=puts[:1], after=[size], outputs=2),
            about(f"{family}Size", **types, before=puts[: len(shape)]),
            about(f"{family}IncompleteSize", **types, before=puts[: len(shape)]),
            about(f"{family}Clear", **types, before=puts[: len(shape)], after=[size]),
        ]
    return [*cases, *parts(family), *refused(family)]


TWO = {"dtypes": ["float32", "int32"]}
VALUES = [np.float32(1.5), np.int32(4)]


def parts(family: str) -> list[Case]:
    """Tuples that come and go component by component."""
    size, missing = area(f"{family}Size", **TWO), area(f"{family}IncompleteSize", **TWO)
    whole = [put_of(family, k, VALUES, 0, 1, **TWO) for k in (5, 3, 9)]
    first, second = (put_of(family, 5, VALUES[k : k + 1], k, **TWO) for k in (0, 1))
    take_first = area(f"{family}Unstage", key(5), indices(0), dtypes=["float32"])
    one = {"dtypes": ["int32"], "outputs": 1}
    cases = [
        about(f"{family}Stage", key(5), indices(0), VALUES[:1], **TWO, after=[size, missing]),
        about(f"{family}Stage", key(5), indices(1), VALUES[1:], **TWO, before=[first], after=[size, missing]),
        about(f"{family}Stage", key(5), indices(0, 1), VALUES, **TWO, before=whole, after=[size]),
        about(f"{family}Stage", key(5), indices(0), VALUES[:1], **TWO, before=[first], bad=True),
        about(
            f"{family}Stage", key(8), indices(0, 1), VALUES, **TWO, memory_limit=8, capacity=2, after=[size]
        ),
        about(f"{family}Stage", key(8), indices(0, 1), VALUES, **TWO, memory_limit=3, bad=True),
        about(
            f"{family}Unstage", key(5), indices(0, 1), **TWO, before=[first, second], after=[size], outputs=2
        ),
        about(f"{family}Unstage", key(5), indices(1), before=whole, after=[size], **one),
        about(f"{family}Unstage", key(5), indices(1), before=[*whole, take_first], after=[size], **one),
        about(f"{family}Unstage", unknown(key(9)), unknown(indices(0, 1)), **TWO, before=whole, outputs=2),
        about(f"{family}Peek", key(5), indices(0, 1), **TWO, before=whole, after=[size], outputs=2),
        about(f"{family}Peek", key(5), indices(1), before=[*whole, take_first], after=[size], **one),
        about(f"{family}UnstageNoKey", indices(0, 1), **TWO, before=whole[:1], after=[size], outputs=3),
        about(
            f"{family}UnstageNoKey", indices(1), dtypes=["int32"], before=whole[:1], after=[size], outputs=2
        ),
        about(f"{family}Size", **TWO, before=[*whole, first]),
        about(f"{family}IncompleteSize", **TWO, before=[*whole, first]),
        about(f"{family}IncompleteSize", **TWO, before=[first, second]),
        about(f"{family}Clear", **TWO, before=[*whole, first], after=[size, missing]),
    ]
    if family == "OrderedMap":
        cases += [
            about("OrderedMapUnstageNoKey", indices(0, 1), **TWO, before=whole[:count], outputs=3)
            for count in (2, 3)
        ]
    return cases


def refused(family: str) -> list[Case]:
    whole = [put_of(family, 5, VALUES, 0, 1, **TWO)]
    take = area(f"{family}Unstage", key(5), indices(1), dtypes=["int32"])
    float_, int_ = {"dtypes": ["float32"], "bad": True}, {"dtypes": ["int32"], "bad": True}
    cases = []
    for verb in ("Unstage", "Peek"):
        cases += [
            about(
                f"{family}{verb}", key(5), indices(1, 0), dtypes=["int32", "float32"], before=whole, bad=True
            ),
            about(f"{family}{verb}", key(5), indices(0, 0), dtypes=["float32"] * 2, before=whole, bad=True),
            about(f"{family}{verb}", key(5), indices(2), before=whole, **float_),
            about(f"{family}{verb}", key(5), indices(-1), before=whole, **float_),
            about(f"{family}{verb}", key(5), indices(1), before=[*whole, take], **int_),
        ]
    cases += [
        about(f"{family}UnstageNoKey", indices(1, 0), dtypes=["int32", "float32"], before=whole, bad=True),
    ]
    for places in ((1, 0), (0, 0), (2,), (-1,)):
        values = VALUES[: len(places)]
        cases.append(about(f"{family}Stage", key(6), indices(*places), values, **TWO, bad=True))
    for verb in ("Size", "IncompleteSize", "Clear"):
        cases.append(about(f"{family}{verb}", **TWO, container="no name!", bad=True))
    return cases


CASES: list[Case] = [*staging(), *(each for family in FAMILIES for each in maps(family))]
