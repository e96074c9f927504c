"""Lookup tables: immutable, mutable, and dense ones; errors."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.interop.parity.sweeps import sample
from tests.interop.parity.table import Case, Node, case, const, node, partly, unknown

VERSIONS = ["", "V2"]
PAIRS = [
    ("string", "int64"), ("int64", "string"), ("string", "float32"), ("int64", "int64"), ("int64", "float32"),
    ("string", "int32"), ("int32", "int32"), ("string", "string"), ("string", "bool"), ("int32", "float64"),
    ("string", "float64"), ("int32", "string"), ("int64", "int32"), ("int64", "float64"),
]  # fmt: skip
"""Dtypes of keys and values that TensorFlow has tables for."""


def keys_of(dtype: str, count: int) -> Any:
    if dtype == "string":
        return np.array([f"key {k}".encode() for k in range(count)], object)
    return np.arange(10, 10 + count).astype(dtype)


def values_of(dtype: str, shape: Any, seed: int = 1) -> Any:
    return sample(dtype, shape, seed)


def default_of(dtype: str, shape: tuple[int, ...] = ()) -> Any:
    return np.full(shape, b"none" if dtype == "string" else 1, object if dtype == "string" else dtype)


def made_by(op_type: str, key: str, value: str, *inputs: Any, **more: Any) -> Node:
    return node(op_type, *inputs, attrs={"key_dtype": key, "value_dtype": value, **more})


def verb(name: str, version: str, table: Node, *inputs: Any, **attrs: Any) -> Node:
    return node(f"{name}{version}", table, *inputs, attrs=attrs)


def size(version: str, table: Node) -> Node:
    return verb("LookupTableSize", version, table)


def about(
    op_type: str, *inputs: Any, before: Sequence[Node] = (), after: Any = (), outputs: int = 0, **options: Any
) -> Case:
    return case(
        op_type,
        *inputs,
        **options,
        steps=lambda made: [
            *[[each] for each in before],
            [made[k] for k in range(outputs)] or [made],
            *[[each] for each in after],
        ],
    )


# Filled once


def hash_tables(version: str) -> list[Case]:
    cases = []
    for key, value in PAIRS:
        attrs = {"key_dtype": key, "value_dtype": value}
        table = made_by(f"HashTable{version}", key, value)
        keys, values = keys_of(key, 4), values_of(value, (4,))
        fill = verb("InitializeTable", version, table, keys[:3], values[:3])
        default = default_of(value)
        cases += [
            case(
                f"HashTable{version}",
                attrs=attrs,
                steps=lambda own, fill=(keys, values): [
                    [verb("InitializeTable", version, own, *fill)],
                    [size(version, own)],
                ],
            ),
            about(f"InitializeTable{version}", table, keys, values, after=[size(version, table)]),
            about(f"LookupTableFind{version}", table, keys, default, before=[fill], outputs=1),
            about(f"LookupTableFind{version}", table, keys.reshape(2, 2), default, before=[fill], outputs=1),
            about(f"LookupTableSize{version}", table, before=[fill]),
        ]
    for bad in ({"container": "no name!"}, {"shared_name": "_x"}):
        attrs = {"key_dtype": "string", "value_dtype": "int64", **bad}
        cases.append(
            case(f"HashTable{version}", attrs=attrs, bad=True, steps=lambda own: [[size(version, own)]])
        )
    return [*cases, *filling(version), *finding(version)]


def text_and_number(version: str) -> tuple[Node, Any, Any]:
    return made_by(f"HashTable{version}", "string", "int64"), keys_of("string", 3), np.array([5, 6, 7])


def filling(version: str) -> list[Case]:
    table, keys, values = text_and_number(version)
    fill = verb("InitializeTable", version, table, keys, values)
    name = f"InitializeTable{version}"
    look = [size(version, table), verb("LookupTableFind", version, table, keys, np.int64(0))]
    twice = np.array([b"a", b"a"], object)
    return [
        about(name, table, keys[:0], values[:0], bad=True),
        about(name, table, twice, np.array([1, 1]), after=look),
        about(name, table, twice, np.array([1, 2]), bad=True),
        about(name, table, keys, values, before=[fill], after=look),
        about(
            name, table, keys, values + 1, before=[fill], after=look, note="as many entries: nothing is done"
        ),
        about(name, table, keys[:2], values[:2], before=[fill], bad=True),
        about(name, table, keys, values[:2], bad=True),
        about(name, table, unknown(keys), unknown(values[:2]), bad=True),
        about(name, table, unknown(keys[None]), unknown(values[None]), bad=True),
        about(name, table, keys[None], values[None], bad=True),
        about(name, table, values, values, bad=True),
        about(name, table, keys, keys, bad=True),
    ]


def finding(version: str) -> list[Case]:
    table, keys, values = text_and_number(version)
    fill = [verb("InitializeTable", version, table, keys, values)]
    other = np.array([b"key 1", b"other"], object)
    name = f"LookupTableFind{version}"
    exported = {"attrs": {"Tkeys": "string", "Tvalues": "int64"}}
    one = verb("InitializeTable", version, table, keys[:1], values[:1])
    return [
        about(name, table, other, np.int64(-1), bad=True),
        about(name, table, unknown(other), np.int64(-1), before=fill, outputs=1),
        about(name, table, partly(other, [None]), np.int64(-1), before=fill, outputs=1),
        about(name, table, other[0], np.int64(-1), before=fill, outputs=1),
        about(name, table, other[:0], np.int64(-1), before=fill, outputs=1),
        about(name, table, other, unknown(np.array([3, 4])), before=fill, outputs=1),
        about(name, table, other, unknown(np.array([3])), before=fill, bad=True),
        about(name, table, other, np.float32(1), before=fill, bad=True),
        about(name, table, values, np.int64(1), before=fill, bad=True),
        about(f"LookupTableSize{version}", table),
        about(f"LookupTableExport{version}", table, **exported, bad=True),
        about(f"LookupTableExport{version}", table, **exported, before=[one], outputs=2),
        about(f"LookupTableInsert{version}", table, keys, values, bad=True),
        about(f"LookupTableImport{version}", table, keys, values, after=[size(version, table)]),
        about(f"LookupTableImport{version}", table, keys, values, before=[one], bad=True),
        *([about("LookupTableRemoveV2", table, keys, bad=True)] if version else []),
    ]


# From a file


@functools.cache
def file_of(content: bytes) -> bytes:
    with tempfile.NamedTemporaryFile(suffix=".txt", delete=False) as file:
        file.write(content)
    return file.name.encode()


FILES: list[tuple[str, str, bytes, dict[str, Any], bool]] = [
    ("string", "int64", b"a\nb\nc\n", {"key_index": -2, "value_index": -1}, False),
    ("string", "int64", b"a\r\nb", {"key_index": -2, "value_index": -1}, False),
    ("int64", "string", b"a\nb\na\n", {"key_index": -1, "value_index": -2}, False),
    ("string", "int64", b"x\t1\ny\t 2 \n", {"key_index": 0, "value_index": 1}, False),
    ("string", "int32", b"x,1,9\ny,2,9\n", {"key_index": 0, "value_index": 1, "delimiter": ","}, False),
    ("string", "float32", b"x 1.5\ny -2e3\n", {"key_index": 0, "value_index": 1, "delimiter": " "}, False),
    ("string", "string", b"x\ty\n", {"key_index": 1, "value_index": 0}, False),
    ("int64", "int64", b"5\n6\n", {"key_index": -2, "value_index": -1}, False),
    ("string", "int64", b"a\nb\nc\n", {"key_index": -2, "value_index": -1, "vocab_size": 2}, False),
    ("string", "int64", b"a\nb\n", {"key_index": -2, "value_index": -1, "offset": 10}, False),
    ("string", "int64", b"a\n\nb\n", {"key_index": -2, "value_index": -1}, True),
    ("string", "int64", b"a\nb\na\n", {"key_index": -2, "value_index": -1}, True),
    ("string", "int64", b"a\nb\n", {"key_index": -2, "value_index": -1, "vocab_size": 5}, True),
    ("string", "int64", b"", {"key_index": -2, "value_index": -1}, True),
    ("string", "int64", b"x\n", {"key_index": 0, "value_index": 1}, True),
    ("string", "int64", b"x\t1q\n", {"key_index": 0, "value_index": 1}, True),
    ("string", "int32", b"x\t9999999999\n", {"key_index": 0, "value_index": 1}, True),
    ("string", "float64", b"x\tq\n", {"key_index": 0, "value_index": 1}, True),
    ("string", "int64", b"x\t1\n", {"key_index": 0, "value_index": 1, "delimiter": "::"}, True),
    ("string", "int32", b"a\n", {"key_index": -2, "value_index": -1}, True),
    ("string", "int64", b"a\n", {"key_index": -1, "value_index": -1}, True),
    ("string", "bool", b"a\ttrue\n", {"key_index": 0, "value_index": 1}, True),
]


def files(version: str) -> list[Case]:
    name = f"InitializeTableFromTextFile{version}"
    cases = []
    for key, value, content, attrs, bad in FILES:
        table = made_by(f"HashTable{version}", key, value)
        known = np.array([b"a", b"b", b"x", b"y"], object) if key == "string" else np.arange(7)
        find = verb("LookupTableFind", version, table, known, default_of(value))
        after = [] if bad else [size(version, table), find]
        cases.append(about(name, table, file_of(content), attrs=attrs, bad=bad, after=after))
    table = made_by(f"HashTable{version}", "string", "int64")
    attrs = {"key_index": -2, "value_index": -1}
    missing = unknown(np.array([b"/nowhere/at all"], object))
    cases.append(about(name, table, b"/nowhere/at all", attrs=attrs, bad=True))
    cases.append(about(name, table, missing, attrs=attrs, bad=True))
    return cases


# Changed by steps


def mutable_tables(
    version: str, op_type: str, *inputs: Any, shape: tuple[int, ...] = (), **more: Any
) -> list[Case]:
    cases = []
    pairs = [("int64", "int64"), ("int64", "float32")] if inputs else PAIRS
    if op_type == "MutableHashTableOfTensors":
        pairs = [*PAIRS[:4], ("string", "float64"), ("int64", "float32"), ("int64", "float64")]
    for key, value in pairs:
        attrs = {"key_dtype": key, "value_dtype": value, **more}
        table = made_by(f"{op_type}{version}", key, value, *inputs, **more)
        keys, values = keys_of(key, 4), values_of(value, (4, *shape))
        insert = verb("LookupTableInsert", version, table, keys[:3], values[:3])
        default = default_of(value, shape)
        find = verb("LookupTableFind", version, table, keys, default)
        cases += [
            case(
                f"{op_type}{version}",
                *inputs,
                attrs=attrs,
                steps=lambda own, given=(keys, values), default=default: [
                    [verb("LookupTableInsert", version, own, *given)],
                    [size(version, own)],
                    [verb("LookupTableFind", version, own, given[0], default)],
                ],
            ),
            about(f"LookupTableInsert{version}", table, keys, values, before=[insert], after=[find]),
            about(f"LookupTableFind{version}", table, keys, default, before=[insert], outputs=1),
            about(f"LookupTableFind{version}", table, keys[:0], default, before=[insert], outputs=1),
            about(f"LookupTableFind{version}", table, unknown(keys), default, before=[insert], outputs=1),
            about(f"LookupTableSize{version}", table, before=[insert]),
        ]
        if not inputs:
            cases.append(
                about(
                    f"LookupTableImport{version}", table, keys[2:], values[2:], before=[insert], after=[find]
                )
            )
        if version:
            removed = keys[[0, 3]]
            cases.append(
                about(
                    "LookupTableRemoveV2", table, removed, before=[insert], after=[find, size(version, table)]
                )
            )
    for bad in ({"container": "no name!"}, {"shared_name": "_x"}):
        attrs = {"key_dtype": "int64", "value_dtype": "int64", **more, **bad}
        cases.append(
            case(
                f"{op_type}{version}",
                *inputs,
                attrs=attrs,
                bad=True,
                steps=lambda own: [[size(version, own)]],
            )
        )
    return cases


def changing(version: str) -> list[Case]:
    """Cases of scalar tables, valid and invalid."""
    table = made_by(f"MutableHashTable{version}", "string", "int64")
    keys, values = keys_of("string", 3), np.array([5, 6, 7])
    insert = verb("LookupTableInsert", version, table, keys, values)
    find = verb("LookupTableFind", version, table, keys, np.int64(0))
    look = [size(version, table), find]
    twice = np.array([b"key 0", b"key 0"], object)
    cases = [
        about(f"LookupTableInsert{version}", table, keys.reshape(1, 3), values.reshape(1, 3), after=look),
        about(f"LookupTableInsert{version}", table, keys[0], values[0], after=look),
        about(f"LookupTableInsert{version}", table, keys[:0], values[:0], after=look),
        about(f"LookupTableInsert{version}", table, twice, values[:2], after=look),
        about(f"LookupTableImport{version}", table, twice, values[:2], after=look),
        about(f"LookupTableImport{version}", table, keys[:0], values[:0], before=[insert], after=look),
        about(f"LookupTableFind{version}", table, keys, unknown(values), outputs=1),
    ]
    for name in ("LookupTableInsert", "LookupTableImport"):
        cases += [
            about(f"{name}{version}", table, unknown(keys), unknown(values[:2]), bad=True),
            about(f"{name}{version}", table, unknown(keys), unknown(values.reshape(3, 1)), bad=True),
            about(f"{name}{version}", table, values, values, bad=True),
            about(f"{name}{version}", table, keys, np.float32([1, 2, 3]), bad=True),
        ]
    one = verb("LookupTableInsert", version, table, keys[:1], values[:1])
    exported = {"attrs": {"Tkeys": "string", "Tvalues": "int64"}, "outputs": 2}
    cases += [
        about(f"LookupTableFind{version}", table, keys, unknown(values[:2]), bad=True),
        about(f"LookupTableFind{version}", table, values, np.int64(1), bad=True),
        about(f"LookupTableFind{version}", table, keys, np.int32(1), bad=True),
        about(f"LookupTableExport{version}", table, **exported),
        about(f"LookupTableExport{version}", table, before=[one], **exported),
        about(f"InitializeTable{version}", table, keys, values, bad=True),
    ]
    if version:
        cases += [
            about("LookupTableRemoveV2", table, keys[:0], before=[insert], after=look),
            about("LookupTableRemoveV2", table, keys.reshape(3, 1), before=[insert], after=look),
            about("LookupTableRemoveV2", table, keys[0], bad=True),
            about("LookupTableRemoveV2", table, values, bad=True),
        ]
    return cases


def exports(version: str) -> list[Case]:
    """A single entry, since the order of several is anyone's."""
    cases = []
    kinds: list[tuple[str, tuple[int, ...], dict[str, Any]]] = [
        ("MutableHashTable", (), {}),
        ("MutableHashTableOfTensors", (2,), {"value_shape": (2,)}),
    ]
    for op_type, shape, more in kinds:
        for key, value in (
            ("string", "int64"),
            ("int64", "int64"),
            ("string", "float32"),
            ("int64", "string"),
        ):
            table = made_by(f"{op_type}{version}", key, value, **more)
            insert = verb("LookupTableInsert", version, table, keys_of(key, 1), values_of(value, (1, *shape)))
            attrs = {"Tkeys": key, "Tvalues": value}
            cases += [
                about(f"LookupTableExport{version}", table, attrs=attrs, before=before, outputs=2)
                for before in ([], [insert])
            ]
    return cases


def vectors(version: str) -> list[Case]:
    """Cases of tables of vectors, valid and invalid."""
    op_type = f"MutableHashTableOfTensors{version}"
    table = made_by(op_type, "string", "int64", value_shape=(2,))
    keys, values = keys_of("string", 2), np.array([[1, 2], [3, 4]])
    insert = verb("LookupTableInsert", version, table, keys, values)
    other = np.array([b"key 1", b"other"], object)
    find, put = f"LookupTableFind{version}", f"LookupTableInsert{version}"
    cases = [
        about(find, table, other[None], values[0], before=[insert], outputs=1),
        about(find, table, other, unknown(values), before=[insert], outputs=1),
        about(find, table, other, unknown(np.int64(1)), before=[insert], bad=True),
        about(find, table, other, np.array([1, 2, 3]), before=[insert], bad=True),
        about(put, table, keys[None], values[None], after=[size(version, table)]),
        about(put, table, unknown(keys), unknown(values[:, :1]), bad=True),
        about(put, table, unknown(keys), unknown(values[0]), bad=True),
    ]
    for shape in ((), (2, 2), (None,)):
        attrs = {"key_dtype": "string", "value_dtype": "int64", "value_shape": shape}
        cases.append(case(op_type, attrs=attrs, bad=True, steps=lambda own: [[size(version, own)]]))
    return cases


# In the dense layout

MARKS = (const(np.int64(0)), const(np.int64(-1)))


def dense() -> list[Case]:
    op_type = "MutableDenseHashTableV2"
    cases = mutable_tables("V2", "MutableDenseHashTable", *MARKS)
    for count, buckets in ((3, 4), (10, 4), (100, 16)):
        cases.append(buckets_of(np.arange(1, 1 + count) * 7, count, buckets))
    pairs = np.array([[1, 2], [3, 4], [1, 5], [9, 9]])
    cases.append(buckets_of(pairs, 4, 4, np.array([0, 0]), np.array([-1, -1])))
    table = made_by(op_type, "int64", "int64", *MARKS, initial_num_buckets=8)
    keys, values = np.array([5, 6, 13]), np.array([50, 60, 130])
    insert = verb("LookupTableInsert", "V2", table, keys, values)
    remove = verb("LookupTableRemove", "V2", table, keys[1:2])
    again = verb("LookupTableInsert", "V2", table, np.array([14]), np.array([140]))
    exported = {"attrs": {"Tkeys": "int64", "Tvalues": "int64"}, "outputs": 2}
    export = "LookupTableExportV2"
    cases += [
        about(export, table, **exported),
        about(export, table, before=[insert], **exported),
        about(export, table, before=[insert, remove], **exported),
        about(export, table, before=[insert, remove, again], **exported),
    ]
    for key in (0, -1):
        mark = np.array([key])
        cases += [
            about("LookupTableFindV2", table, mark, np.int64(1), bad=True),
            about("LookupTableInsertV2", table, mark, mark, bad=True),
            about("LookupTableRemoveV2", table, mark, bad=True),
        ]
    cases += [
        about("LookupTableInsertV2", table, keys[:2], values[:1], bad=True),
        about("LookupTableInsertV2", table, keys[None], values[None], bad=True),
        about("LookupTableFindV2", table, keys[:2], np.array([1, 2]), before=[insert], outputs=1),
    ]
    for inputs, more in (
        ((const(np.int64(5)), const(np.int64(5))), {}),
        ((const(np.array([0, 0])), const(np.int64(5))), {}),
        (MARKS, {"initial_num_buckets": 3}),
        (MARKS, {"initial_num_buckets": 0}),
        (MARKS, {"max_load_factor": 0.0}),
        (MARKS, {"max_load_factor": 1.0}),
        (MARKS, {"value_shape": (2, 2)}),
        (MARKS, {"value_shape": (None,)}),
    ):
        attrs = {"key_dtype": "int64", "value_dtype": "int64", **more}
        cases.append(case(op_type, *inputs, attrs=attrs, bad=True, steps=lambda own: [[size("V2", own)]]))
    for name, buckets in (("string", 4), ("int32", 4)):
        marks = (default_of(name), const(keys_of(name, 1)[0]))
        cases.append(text_table(name, marks, buckets))
    return cases


def text_table(dtype: str, marks: Any, buckets: int) -> Case:
    keys = keys_of(dtype, 4)[1:]
    return case(
        "MutableDenseHashTableV2",
        *marks,
        attrs={
            "key_dtype": dtype,
            "value_dtype": "int32" if dtype == "int32" else "int64",
            "initial_num_buckets": buckets,
        },
        steps=lambda own: [
            [
                verb(
                    "LookupTableInsert",
                    "V2",
                    own,
                    keys,
                    np.arange(3).astype("int32" if dtype == "int32" else "int64"),
                )
            ],
            [size("V2", own)],
        ],
    )


def buckets_of(keys: Any, count: int, buckets: int, *marks: Any) -> Case:
    """A table that grows, bucket by bucket."""
    inputs = marks or MARKS
    values = np.arange(count) + 1000
    return case(
        "MutableDenseHashTableV2",
        *inputs,
        attrs={"key_dtype": "int64", "value_dtype": "int64", "initial_num_buckets": buckets},
        steps=lambda own: [
            [verb("LookupTableInsert", "V2", own, keys, values)],
            [size("V2", own)],
            [verb("LookupTableFind", "V2", own, keys, np.int64(-5))],
            [
                exported[k]
                for exported in [verb("LookupTableExport", "V2", own, Tkeys="int64", Tvalues="int64")]
                for k in (0, 1)
            ],
        ],
    )


CASES: list[Case] = dense()
for each in VERSIONS:
    CASES += [*hash_tables(each), *files(each), *mutable_tables(each, "MutableHashTable"), *changing(each)]
    CASES += mutable_tables(each, "MutableHashTableOfTensors", shape=(2,), value_shape=(2,))
    CASES += [*exports(each), *vectors(each)]
