"""Features of serialized Examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tests.interop.parity.table import Case, case, const, unknown
from tests.ops.io.cases_sequence_examples import EXAMPLE as SEQUENCE
from tests.ops.io.example_bytes import DAMAGED, DAMAGED_INTEGERS, INTEGERS, READABLE, example

NOTHING = np.zeros(0, object)
KINDS = {"f": "float32", "i": "int64", "O": "string"}


def text(*words: Any) -> Any:
    return np.array([word.encode() if isinstance(word, str) else word for word in words], object)


def floats(*values: float) -> Any:
    return np.array(values, np.float32)


class Dense(NamedTuple):
    """A key, its default (empty where it must be there), and the shape of an element."""

    key: str
    default: Any
    shape: Any

    @property
    def dtype(self) -> str:
        return KINDS[self.default.dtype.kind]


A = Dense("a", floats(), [2])
Sparse = tuple[str, str]
Ragged = tuple[str, str, str]


def batch(
    serialized: Any, *dense: Dense, sparse: Sequence[Sparse] = (), names: Any = NOTHING, **options: Any
) -> Case:
    return case(
        "ParseExample",
        serialized,
        names,
        [key.encode() for key, _ in sparse],
        [each.key.encode() for each in dense],
        [each.default for each in dense],
        attrs={
            "Nsparse": len(sparse),
            "Ndense": len(dense),
            "sparse_types": [dtype for _, dtype in sparse],
            "Tdense": [each.dtype for each in dense],
            "dense_shapes": [each.shape for each in dense],
        },
        **options,
    )


def newer(
    serialized: Any,
    *dense: Dense,
    sparse: Sequence[Sparse] = (),
    ragged: Sequence[Ragged] = (),
    names: Any = NOTHING,
    count: int | None = None,
    **options: Any,
) -> Case:
    return case(
        "ParseExampleV2",
        serialized,
        names,
        text(*(key for key, _ in sparse)),
        text(*(each.key for each in dense)),
        text(*(each[0] for each in ragged)),
        [each.default for each in dense],
        attrs={
            "num_sparse": len(sparse) if count is None else count,
            "sparse_types": [dtype for _, dtype in sparse],
            "Tdense": [each.dtype for each in dense],
            "dense_shapes": [each.shape for each in dense],
            "ragged_value_types": [each[1] for each in ragged],
            "ragged_split_types": [each[2] for each in ragged],
        },
        **options,
    )


def single(
    serialized: Any,
    *dense: Dense,
    sparse: Sequence[Sparse] = (),
    count: int | None = None,
    **options: Any,
) -> Case:
    return case(
        "ParseSingleExample",
        serialized,
        [each.default for each in dense],
        attrs={
            "num_sparse": len(sparse) if count is None else count,
            "sparse_keys": [key for key, _ in sparse],
            "dense_keys": [each.key for each in dense],
            "sparse_types": [dtype for _, dtype in sparse],
            "Tdense": [each.dtype for each in dense],
            "dense_shapes": [each.shape for each in dense],
        },
        **options,
    )


ROWS = text(example(a=[1.0], s=[b"x"]), example(i=[7]), example(a=[2.0, 3.0], i=[-1, 2], s=[]))
PAIRS = text(example(a=[1.0, 2.0]), example(a=[3.0, 4.0], b=[1]))
ALL_SPARSE: list[Sparse] = [("a", "float32"), ("i", "int64"), ("s", "string")]
ALL_RAGGED: list[Ragged] = [("a", "float32", "int32"), ("i", "int64", "int64"), ("s", "string", "int32")]
GOOD_DENSE = (
    (PAIRS, A),
    (PAIRS, Dense("a", floats(5, 6), [2]), Dense("c", floats(7), [1])),
    (PAIRS, Dense("a", floats(), [2, 1]), Dense("c", np.float32(7), [])),
    (PAIRS, Dense("a", floats(), [1, 2])),
    (text(example(s=[b"a", b""]), example()), Dense("s", text("b", "c"), [2])),
    (text(example(s=[b"a\0"]), example()), Dense("s", np.array(b"", object), [])),
    (text(example(i=[5])), Dense("i", np.zeros(0, np.int64), [])),
    (ROWS, Dense("a", floats(9), [None])),
    (ROWS, Dense("a", np.float32(9), [None]), Dense("i", np.array([0]), [None])),
    (ROWS, Dense("s", text("pad"), [None])),
    (ROWS, Dense("none", text("pad"), [None, 3])),
    (PAIRS, Dense("a", floats(9), [None, 2])),
    (PAIRS, Dense("a", floats(9), [None, 2, 1])),
    (NOTHING, A, Dense("v", floats(0), [None, 3])),
    (text(example(a=[])), Dense("a", floats(8), [1])),
)
BAD_DENSE = (
    (ROWS, A),
    (ROWS, Dense("none", floats(), [2])),
    (PAIRS, Dense("a", floats(5, 6, 7), [2])),
    (PAIRS, Dense("a", floats(5), [2])),
    (PAIRS, Dense("a", np.float32(5), [2])),
    (PAIRS, Dense("a", floats(5, 6), [1, 2])),
    (PAIRS, Dense("a", floats(), [3])),
    (PAIRS, Dense("a", floats(), [None])),
    (PAIRS, Dense("a", floats(1, 2), [None])),
    (PAIRS, Dense("a", floats(1), [None, 3])),
    (PAIRS, Dense("a", floats(), [2, None])),
    (PAIRS, Dense("a", floats(), None)),
    (PAIRS, Dense("a", text("x", "y"), [2])),
    (PAIRS, Dense("a", np.array([1, 2]), [2])),
    (PAIRS, A, A),
    (text(example(a=[])), Dense("a", floats(), [0])),
)
BATCHES = [
    *(make(*given) for make in (batch, newer) for given in GOOD_DENSE),
    *(make(*given, bad=True) for make in (batch, newer) for given in BAD_DENSE),
    *(make(ROWS, sparse=ALL_SPARSE) for make in (batch, newer)),
    *(make(NOTHING, sparse=ALL_SPARSE) for make in (batch, newer)),
    *(make(ROWS, Dense("i", np.array([0]), [None]), sparse=ALL_SPARSE[:1]) for make in (batch, newer)),
    *(make(ROWS, sparse=[("a", "int64")], bad=True) for make in (batch, newer)),
    *(make(PAIRS, A, sparse=ALL_SPARSE[:1], bad=True) for make in (batch, newer)),
    *(make(PAIRS, A, names=text("n", "m")) for make in (batch, newer)),
    *(make(PAIRS, A, names=text("n"), bad=True) for make in (batch, newer)),
    *(make(ROWS, A, names=text("n", "m", "o"), bad=True) for make in (batch, newer)),
    *(make(unknown(PAIRS), A, sparse=ALL_SPARSE[1:], names=unknown(NOTHING)) for make in (batch, newer)),
    *(make(ROWS.reshape(1, 3), sparse=ALL_SPARSE, bad=True) for make in (batch, newer)),
    batch(ROWS[0], sparse=ALL_SPARSE, bad=True),
    newer(ROWS, ragged=ALL_RAGGED),
    newer(unknown(ROWS), ragged=ALL_RAGGED),
    newer(NOTHING, ragged=ALL_RAGGED),
    newer(PAIRS, A, sparse=[("b", "int64")], ragged=[("c", "string", "int64")]),
    newer(PAIRS, A, ragged=[("a", "float32", "int64")], bad=True),
    newer(ROWS, ragged=[("a", "string", "int64")], bad=True),
    newer(ROWS, sparse=ALL_SPARSE, count=2, bad=True),
]

FORMATS = [
    *(make(text(data), sparse=[("a", "float32")]) for make in (batch, newer) for data in READABLE.values()),
    *(batch(text(data), Dense("a", floats(7), [None])) for data in READABLE.values()),
    *(
        make(text(data), sparse=[("a", "float32")], bad=True)
        for make in (batch, newer)
        for data in DAMAGED.values()
    ),
    *(make(text(data), sparse=[("a", "int64")]) for make in (batch, newer) for data in INTEGERS.values()),
    *(
        make(text(data), sparse=[("a", "int64")], bad=True)
        for make in (batch, newer)
        for data in DAMAGED_INTEGERS.values()
    ),
    *(make(data, sparse=[("a", "float32")]) for make in (single, newer) for data in READABLE.values()),
    *(make(data, Dense("a", floats(7), [None])) for make in (single, newer) for data in READABLE.values()),
    *(
        make(data, sparse=[("a", "float32")], bad=True)
        for make in (single, newer)
        for data in DAMAGED.values()
    ),
    *(
        make(data, Dense("a", np.array([7]), [None]))
        for make in (single, newer)
        for data in INTEGERS.values()
    ),
    *(make(data, sparse=[("a", "int64")]) for make in (single, newer) for data in INTEGERS.values()),
    *(
        make(data, sparse=[("a", "int64")], bad=True)
        for make in (single, newer)
        for data in DAMAGED_INTEGERS.values()
    ),
]

SINGLES = [
    *(make(rows[0], *dense) for make in (single, newer) for rows, *dense in GOOD_DENSE if len(rows)),
    *(make(rows[0], *dense, bad=True) for make in (single, newer) for rows, *dense in BAD_DENSE),
    *(make(row, sparse=ALL_SPARSE) for make in (single, newer) for row in ROWS),
    *(make(ROWS[0], sparse=[("a", "int64")], bad=True) for make in (single, newer)),
    *(make(PAIRS[0], A, sparse=ALL_SPARSE[:1], bad=True) for make in (single, newer)),
    *(make(unknown(PAIRS[0]), A, sparse=ALL_SPARSE[1:]) for make in (single, newer)),
    *(newer(row, ragged=ALL_RAGGED) for row in ROWS),
    newer(PAIRS[0], A, names=const(b"n")),
    newer(PAIRS[0], A, names=text("n"), bad=True),
    single(PAIRS, A, bad=True),
    single(ROWS[0], sparse=ALL_SPARSE, count=2, bad=True),
]


def sequence(
    *dense: Dense,
    sparse: Sequence[Sparse] = (),
    lists: Sequence[Dense] = (),
    sparse_lists: Sequence[Sparse] = (),
    missing: Sequence[str] = (),
    data: Any = SEQUENCE,
    **options: Any,
) -> Case:
    return case(
        "ParseSingleSequenceExample",
        np.array(data, object) if isinstance(data, bytes) else data,
        text(*missing),
        [key.encode() for key, _ in sparse],
        [each.key.encode() for each in dense],
        [key.encode() for key, _ in sparse_lists],
        [each.key.encode() for each in lists],
        [each.default for each in dense],
        b"",
        attrs={
            "Ncontext_sparse": len(sparse),
            "Ncontext_dense": len(dense),
            "Nfeature_list_sparse": len(sparse_lists),
            "Nfeature_list_dense": len(lists),
            "context_sparse_types": [dtype for _, dtype in sparse],
            "Tcontext_dense": [each.dtype for each in dense],
            "context_dense_shapes": [each.shape for each in dense],
            "feature_list_sparse_types": [dtype for _, dtype in sparse_lists],
            "feature_list_dense_types": [each.dtype for each in lists],
            "feature_list_dense_shapes": [each.shape for each in lists],
        },
        **options,
    )


D = Dense("d", floats(), [1])
SEQUENCES = [
    sequence(A, sparse=[("s", "int64")], lists=[D], sparse_lists=[("v", "int64")]),
    sequence(A),
    sequence(sparse=[("s", "int64"), ("a", "float32"), ("none", "string")]),
    sequence(lists=[D, D._replace(shape=[])]),
    sequence(sparse_lists=[("v", "int64"), ("d", "float32"), ("none", "string")]),
    sequence(Dense("none", floats(1, 2), [2])),
    sequence(lists=[D._replace(key="none")], missing=["none"]),
    sequence(lists=[D], data=unknown(np.array(SEQUENCE, object))),
    sequence(A, data=b"", bad=True),
    sequence(sparse_lists=[("v", "int64")], data=b""),
    sequence(Dense("none", floats(), [2]), bad=True),
    sequence(A._replace(shape=[3]), bad=True),
    sequence(Dense("s", floats(), [1]), bad=True),
    sequence(lists=[D._replace(key="none")], bad=True),
    sequence(lists=[D._replace(shape=[2])], bad=True),
    sequence(lists=[D._replace(key="v")], bad=True),
    sequence(sparse_lists=[("d", "int64")], bad=True),
    sequence(sparse_lists=[("v", "int64")], data=b"\x12\xff", bad=True),
    sequence(lists=[D], data=text(SEQUENCE), bad=True),
]

CASES: list[Case] = [*BATCHES, *FORMATS, *SINGLES, *SEQUENCES]
