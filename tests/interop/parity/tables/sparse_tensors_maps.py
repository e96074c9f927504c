"""Maps of sparse tensors: adding and taking by key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.interop.parity.sweeps import all_dtypes, sample
from tests.interop.parity.table import Case, Node, case, const, node, unknown

ADD, ADD_MANY, TAKE = "AddSparseToTensorsMap", "AddManySparseToTensorsMap", "TakeManySparseFromTensorsMap"
PLACES = np.array([[0, 1], [2, 0], [2, 3]])
SHAPE = np.array([3, 4])
SHARED = {"shared_name": "map"}


def take(handles: Any, dtype: str = "float32", **attrs: Any) -> Node:
    return node(TAKE, handles, attrs={"dtype": dtype, **SHARED, **attrs})


def row(handle: Node) -> Node:
    return node("ExpandDims", handle, const(0))


def one(dtype: str, indices: Any, values: Any, shape: Any) -> Case:
    """A tensor is put by, and taken out with another one."""

    def steps(added: Node) -> Sequence[Sequence[Any]]:
        other = node(ADD, indices, values, np.asarray(shape) + 1, attrs=SHARED)
        taken = take(node("ConcatV2", [row(added), row(other)], const(0)), dtype)
        return [[taken[k] for k in range(3)], [other]]

    return case(ADD, indices, values, shape, attrs=SHARED, steps=steps)


def many(indices: Any, values: Any, shape: Any, dtype: str = "float32", **more: Any) -> Case:
    def steps(added: Node) -> Sequence[Sequence[Any]]:
        taken = take(added, dtype)
        return [[added], [taken[k] for k in range(3)]]

    return case(ADD_MANY, indices, values, shape, attrs=SHARED, steps=steps, **more)


def adding() -> list[Case]:
    cases = [one(dtype, PLACES, sample(dtype, (3,)), SHAPE) for dtype in all_dtypes(ADD)[:10]]
    floats = sample("float32", (3,))
    cases += [
        one("float32", np.zeros((0, 2), np.int64), floats[:0], SHAPE),
        one("float32", np.zeros((1, 0), np.int64), floats[:1], np.zeros(0, np.int64)),
        one("float32", PLACES[::-1].copy(), floats, SHAPE),
        one("float32", PLACES + 5, floats, SHAPE),
        case(ADD, PLACES, floats, SHAPE),
        case(ADD, unknown(PLACES), unknown(floats), unknown(SHAPE)),
        case(ADD, unknown(PLACES), floats[:2], SHAPE, bad=True),
        case(ADD, PLACES, floats, unknown(SHAPE[:1]), bad=True),
        case(ADD, PLACES[0], floats, SHAPE, bad=True),
        case(ADD, PLACES, floats, SHAPE.reshape(1, 2), bad=True),
        case(ADD, PLACES, floats, SHAPE, attrs={"container": "no name!"}, bad=True),
    ]
    return cases


def adding_many() -> list[Case]:
    floats = sample("float32", (3,))
    cases = [many(PLACES, sample(dtype, (3,)), SHAPE, dtype) for dtype in all_dtypes(ADD)[:10]]
    cases += [
        many(np.zeros((0, 2), np.int64), floats[:0], SHAPE),
        many(np.array([[0, 1, 2], [0, 2, 0], [4, 0, 0]]), floats, np.array([5, 3, 3])),
        case(ADD_MANY, np.zeros((0, 2), np.int64), floats[:0], np.array([0, 4])),
        case(ADD_MANY, PLACES, floats, SHAPE),
        case(ADD_MANY, unknown(PLACES), unknown(floats), unknown(SHAPE)),
        case(ADD_MANY, PLACES[:, :1], floats, SHAPE[:1], bad=True),
        case(ADD_MANY, PLACES + [3, 0], floats, SHAPE, bad=True),
        case(ADD_MANY, PLACES - [1, 0], floats, SHAPE, bad=True),
        case(ADD_MANY, PLACES[::-1].copy(), floats, SHAPE, bad=True),
        case(ADD_MANY, unknown(PLACES), floats[:2], SHAPE, bad=True),
        case(ADD_MANY, PLACES[0], floats, SHAPE, bad=True),
    ]
    return cases


def taking() -> list[Case]:
    def through(dtype: str = "float32", asked: str | None = None, **attrs: Any) -> Case:
        added = node(ADD_MANY, PLACES, sample(dtype, (3,)), SHAPE, attrs=SHARED)
        return case(TAKE, added, attrs={"dtype": asked or dtype, **SHARED, **attrs}, bad=bool(asked or attrs))

    def handles(value: Any, **more: Any) -> Case:
        return case(TAKE, value, attrs={"dtype": "float32", **SHARED}, **more)

    ranks = node("ConcatV2", [
        row(node(ADD, PLACES, sample("float32", (3,)), SHAPE, attrs=SHARED)),
        row(node(ADD, PLACES[:, :1], sample("float32", (3,)), SHAPE[:1], attrs=SHARED)),
    ], const(0))  # fmt: skip
    return [
        *(through(dtype) for dtype in all_dtypes(ADD)[:10]),
        through("float32", "int32"),
        through("float32", shared_name="another"),
        handles(np.array([7]), bad=True),
        handles(np.array([-1]), bad=True),
        handles(np.zeros(0, np.int64), bad=True),
        handles(np.int64(0), bad=True),
        handles(np.zeros((1, 1), np.int64), bad=True),
        handles(unknown(np.array([3])), bad=True),
        handles(ranks, bad=True),
    ]


CASES: list[Case] = [*adding(), *adding_many(), *taking()]
