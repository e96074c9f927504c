"""Barriers: tuples that are completed component by component, taken in order, and closed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.interop.parity.sweeps import sample
from tests.interop.parity.table import Case, Node, case, const, node, unknown

DTYPES = ["float32", "int32", "string", "bool", "complex64", "float64", "int64", "uint8"]
SHAPES: list[tuple[int, ...]] = [(), (3,), (2, 1)]
TYPES = ["float32", "string"]
NAMES = np.array([b"a", b"b", b"c"])


def barrier(types: Sequence[str] = TYPES, shapes: Any = ((), ()), **more: Any) -> Node:
    return node("Barrier", attrs={"component_types": list(types), "shapes": list(shapes), **more})


def insert(made: Node, component: int, keys: Any, values: Any) -> Node:
    return node("BarrierInsertMany", made, keys, values, attrs={"component_index": component})


def take(made: Node, count: Any, types: Sequence[str] = TYPES, **more: Any) -> Node:
    return node("BarrierTakeMany", made, count, attrs={"component_types": list(types), **more})


def verb(name: str, made: Node, **attrs: Any) -> Node:
    return node(f"Barrier{name}", made, attrs=attrs)


def sizes(made: Node) -> list[Node]:
    return [verb("ReadySize", made), verb("IncompleteSize", made)]


def about(op_type: str, *inputs: Any, before: Sequence[Node] = (), after: Any = (), **attrs: Any) -> Case:
    bad, outputs = attrs.pop("bad", False), attrs.pop("outputs", 0)
    return case(
        op_type,
        *inputs,
        attrs=attrs,
        bad=bad,
        steps=lambda made: [
            *[[each] for each in before],
            [made[k] for k in range(outputs)] or [made],
            *([list(after)] if after else []),
        ],
    )


def through(types: Sequence[str], shapes: Any) -> Case:
    """All components of three tuples, taken at once."""

    def steps(made: Node) -> Sequence[Sequence[Any]]:
        taken = take(made, const(3), types)
        return [
            *[
                [insert(made, k, NAMES, sample(dtype, (3, *shape)))]
                for k, (dtype, shape) in enumerate(zip(types, shapes, strict=True))
            ],
            sizes(made),
            [taken[k] for k in range(2 + len(types))],
            sizes(made),
        ]

    return case("Barrier", attrs={"component_types": list(types), "shapes": list(shapes)}, steps=steps)


def making() -> list[Case]:
    cases = [through([dtype], [()]) for dtype in DTYPES]
    cases += [through(["float32", "int32"], [shape, ()]) for shape in SHAPES]
    for bad in ({"capacity": 3}, {"shapes": [(None,)]}, {"shapes": [(), ()]}, {"container": "no name!"}):
        attrs = {"component_types": ["int32"], "shapes": [()], **bad}
        cases.append(case("Barrier", attrs=attrs, bad=True, steps=lambda made: [[verb("ReadySize", made)]]))
    return cases


def inserting() -> list[Case]:
    cases = []
    for dtype in DTYPES:
        for shape in SHAPES:
            made = barrier([dtype, "int32"], [shape, ()])
            values = sample(dtype, (3, *shape))
            cases.append(
                about("BarrierInsertMany", made, NAMES, values, component_index=0, after=sizes(made))
            )
    made, one = barrier(), np.float32([1.0])
    cases += [
        about("BarrierInsertMany", made, NAMES[:0], one[:0], component_index=0, after=sizes(made)),
        about("BarrierInsertMany", made, NAMES[:1], one, component_index=2, bad=True),
        about("BarrierInsertMany", made, NAMES[:1], one, component_index=1, bad=True),
        about("BarrierInsertMany", made, NAMES[:2], one, component_index=0, bad=True),
        about("BarrierInsertMany", made, NAMES[None], one, component_index=0, bad=True),
        about("BarrierInsertMany", made, NAMES[0], one, component_index=0, bad=True),
    ]
    begun = insert(made, 0, NAMES[:2], np.float32([1, 2]))
    completed = insert(made, 1, NAMES[:1], np.array([b"x"]))
    closing = verb("Close", made)
    cancelling = verb("Close", made, cancel_pending_enqueues=True)
    second = {"component_index": 1, "after": sizes(made)}
    word = np.array([b"y"])
    cases += [
        about("BarrierInsertMany", made, NAMES[1:2], word, before=[begun, completed], **second),
        about("BarrierInsertMany", made, NAMES[1:2], word, before=[begun, closing], **second),
        about("BarrierInsertMany", made, NAMES[:1], one, component_index=0, before=[begun], bad=True),
        about("BarrierInsertMany", made, NAMES[2:], one, component_index=0, before=[closing], bad=True),
        about(
            "BarrierInsertMany",
            made,
            NAMES[1:2],
            word,
            component_index=1,
            before=[begun, cancelling],
            bad=True,
        ),
    ]
    return cases


def taking() -> list[Case]:
    cases = []
    made = barrier()
    begun = insert(made, 0, NAMES, np.float32([1, 2, 3]))
    later = insert(made, 0, np.array([b"z"]), np.float32([4]))
    second = insert(made, 1, np.array([b"z", b"c", b"a"]), np.array([b"p", b"q", b"r"]))
    closing = verb("Close", made)
    filled = [begun, later, second]
    for count in (1, 2, 3, 0):
        cases.append(about_take(made, const(count), filled))
        cases.append(about_take(made, unknown(np.int32(count)), filled, allow_small_batch=True))
    cases += [
        about_take(made, const(9), [*filled, closing], allow_small_batch=True),
        about_take(made, const(9), [*filled, closing], allow_small_batch=True, wait_for_incomplete=True),
        about_take(made, const(9), [*filled, closing], bad=True),
        about_take(made, const(1), [closing], bad=True),
        about_take(made, const(1), [closing], bad=True, allow_small_batch=True),
        about_take(made, unknown(np.int32([1])), filled, bad=True),
        about_take(made, const(1), filled, component_types=["float32"], bad=True),
        about_take(made, const(1), filled, timeout_ms=5, bad=True),
    ]
    for dtype in ("int32", "string"):
        for shape in SHAPES:
            single = barrier([dtype], [shape])
            put = insert(single, 0, NAMES, sample(dtype, (3, *shape)))
            cases.append(about_take(single, const(2), [put], component_types=[dtype]))
    return cases


def about_take(made: Node, count: Any, before: Sequence[Node], **attrs: Any) -> Case:
    types = attrs.setdefault("component_types", TYPES)
    return about(
        "BarrierTakeMany", made, count, before=before, after=sizes(made), outputs=2 + len(types), **attrs
    )


def looking() -> list[Case]:
    cases = []
    made = barrier()
    begun = insert(made, 0, NAMES, np.float32([1, 2, 3]))
    one = insert(made, 1, NAMES[:1], np.array([b"x"]))
    rest = insert(made, 1, NAMES[1:], np.array([b"x", b"y"]))
    closing = verb("Close", made)
    cancelling = verb("Close", made, cancel_pending_enqueues=True)
    taken = take(made, const(1))
    for before in (
        *(
            [],
            [begun],
            [begun, one],
            [begun, one, rest],
            [begun, one, taken],
            [begun, rest, taken],
            [closing],
        ),
        *(
            [cancelling],
            [begun, closing],
            [begun, cancelling],
            [begun, one, closing],
            [begun, one, cancelling],
        ),
        [begun, closing, rest],
    ):
        cases.append(about("BarrierReadySize", made, before=before))
        cases.append(about("BarrierIncompleteSize", made, before=before))
        for flag in (False, True):
            closed = {closing, cancelling} & set(before)
            if flag and before == [closing]:
                continue  # TensorFlow crashes
            cases.append(
                about(
                    "BarrierClose",
                    made,
                    before=before,
                    after=() if closed else sizes(made),
                    cancel_pending_enqueues=flag,
                    bad=bool(closed) and (not flag or cancelling in closed),
                )
            )
    return cases


CASES: list[Case] = [*making(), *inserting(), *taking(), *looking()]
