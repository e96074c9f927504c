"""Sparse tensors as strings."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.parity.sweeps import sample
from tests.interop.parity.table import Case, case, node, unknown

PLACES = np.array([[0, 1], [0, 3], [2, 3]])
VALUES = np.array([1, 2, 3], np.float32)
SHAPE = np.array([3, 4])
KINDS = (
    "float32",
    "float64",
    "int32",
    "int64",
    "uint8",
    "bool",
    "string",
    "complex64",
    "bfloat16",
    "float16",
)
WRITERS = ("SerializeSparse", "SerializeManySparse")
EMPTY = np.zeros((0, 2), np.int64)


def written(
    op: str = "SerializeSparse", values: Any = VALUES, places: Any = PLACES, shape: Any = SHAPE
) -> Any:
    return node(op, places, values, shape)


def packed(*rows: Any) -> Any:
    return node("Pack", list(rows))


def proto(value: Any) -> Any:
    return node("SerializeTensor", value)


OTHER = written(values=VALUES[:1], places=np.array([[1, 1]]), shape=np.array([2, 7]))
ONE_RANK = written(values=VALUES[:1], places=np.array([[1]]), shape=np.array([2]))
READ = {"dtype": "float32"}

WRITTEN = [
    *(case(op, PLACES, sample(kind, (3,)), SHAPE) for op in WRITERS for kind in KINDS),
    *(case(op, EMPTY, VALUES[:0], SHAPE) for op in WRITERS),
    *(case(op, unknown(PLACES), unknown(VALUES), unknown(SHAPE)) for op in WRITERS),
    *(case(op, PLACES[0], VALUES[:2], SHAPE, bad=True) for op in WRITERS),
    *(case(op, unknown(PLACES[0]), unknown(VALUES), unknown(SHAPE), bad=True) for op in WRITERS),
    *(case(op, unknown(PLACES), unknown(VALUES[:, None]), unknown(SHAPE), bad=True) for op in WRITERS),
    *(case(op, unknown(PLACES), unknown(VALUES), unknown(SHAPE[None]), bad=True) for op in WRITERS),
    case("SerializeSparse", PLACES + 7, VALUES, SHAPE),
    case("SerializeSparse", PLACES[:1], np.array([b"a" * 200], object), SHAPE),
    case("SerializeManySparse", EMPTY, VALUES[:0], np.array([0, 4])),
    case("SerializeManySparse", PLACES[:, :1], VALUES, SHAPE[:1], bad=True),
    case("SerializeManySparse", PLACES[::-1], VALUES, SHAPE, bad=True),
    case("SerializeManySparse", PLACES + 7, VALUES, SHAPE, bad=True),
    case("SerializeManySparse", PLACES - 1, VALUES, SHAPE, bad=True),
    case("SerializeManySparse", PLACES, VALUES, np.array([3, 4, 5]), bad=True),
]

DAMAGED = (
    np.array([[b"junk", b"x", b"y"]], object),
    packed(packed(proto(SHAPE), proto(VALUES), proto(SHAPE))),
    packed(packed(proto(PLACES), proto(VALUES[:1]), proto(SHAPE))),
    packed(packed(proto(PLACES), proto(VALUES), proto(PLACES))),
    packed(packed(proto(PLACES), proto(VALUES), proto(np.array([1, 1, 1])))),
    packed(OTHER, ONE_RANK),
    np.zeros((0, 3), object),
    packed(packed(proto(PLACES), proto(VALUES))),
)
READERS = ("DeserializeSparse", "DeserializeManySparse")
READ_BACK = [
    *(
        case(op, written("SerializeManySparse", sample(kind, (3,))), attrs={"dtype": kind})
        for op in READERS
        for kind in KINDS
    ),
    *(case(op, packed(written(), OTHER), attrs=READ) for op in READERS),
    *(case(op, packed(ONE_RANK, ONE_RANK), attrs=READ) for op in READERS),
    *(case(op, unknown(DAMAGED[0]), attrs=READ, bad=True) for op in READERS),
    *(case(op, each, attrs=READ, bad=True) for op in READERS for each in DAMAGED),
    *(case(op, packed(OTHER), attrs={"dtype": "int32"}, bad=True) for op in READERS),
    case("DeserializeSparse", written(), attrs=READ),
    case("DeserializeSparse", packed(packed(written(), OTHER), packed(OTHER, OTHER)), attrs=READ),
    case("DeserializeSparse", proto(VALUES), attrs=READ, bad=True),
]

CASES: list[Case] = [*WRITTEN, *READ_BACK]
