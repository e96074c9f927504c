"""Checkpoints: each engine restores what it saved; names of shards. Files are in a folder of this process."""

from __future__ import annotations

import itertools
import tempfile
from typing import Any

import numpy as np

from tests.interop.parity.sweeps import sample
from tests.interop.parity.table import Case, case, const, node, unknown

_folder = tempfile.TemporaryDirectory(prefix="aioexec-parity-")
_numbers = itertools.count()

TYPES = (
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "bool",
    "string",
    "int8",
    "int64",
    "uint16",
)
FIRST_FORMAT = tuple(name for name in TYPES if name not in ("bfloat16", "uint16"))
SHAPES = ((), (0, 4), (2, 3))
GRID = sample("float32", (4, 3))
GOOD_PLACES = ("", "4 3 -:-", "4 3 1,2:-", "4 3 -:0,1", "4 3 3,1:2,1")
BAD_PLACES = ("4", "4 3", "4 x", "5 3 -:-", "4 3 1,0:-", "a 3 -:-")


def path() -> bytes:
    return f"{_folder.name}/{next(_numbers)}".encode()


def texts(*values: str) -> Any:
    return np.array([value.encode() for value in values], object)


def saved(op: str, where: bytes, *values: Any, places: Any = None) -> Any:
    """A node that saves values under the names v0, v1, …"""
    names = texts(*(f"v{k}" for k in range(len(values))))
    if op == "Save":
        return node(op, where, names, list(values))
    return node(op, where, names, texts(*([""] * len(values))) if places is None else places, list(values))


def there_and_back(op: str, name: str, *values: Any, places: Any = None) -> Case:
    """Saves in one step, restores in the next."""
    where = path()
    made = saved(op, where, *values, places=places)
    names = texts(*(f"v{k}" for k in range(len(values))))
    attrs = {"dtypes": [name] * len(values)}
    restored = node("RestoreV2", where, names, texts(*([""] * len(values))), attrs=attrs)
    return case(op, *made.inputs, steps=lambda saving: [[saving], [restored[k] for k in range(len(values))]])


def restored(op: str, place: str, *, bad: bool = False, name: str = "v0", dtype: str = "float32") -> Case:
    """A part of `GRID`, after it was saved."""
    where = path()
    saving = saved("SaveV2" if op == "RestoreV2" else "Save", where, GRID)
    if op == "RestoreV2":
        attrs: dict[str, Any] = {"dtypes": [dtype]}
        return case(op, where, texts(name), unknown(texts(place)), attrs=attrs, after=[saving], bad=bad)
    more = (unknown(place.encode()),) if op == "RestoreSlice" else ()
    return case(op, where, name.encode(), *more, attrs={"dt": dtype}, after=[saving], bad=bad)


def restored_whole(name: str, shape: tuple[int, ...]) -> Case:
    where = path()
    return case(
        "Restore", where, b"v0", attrs={"dt": name}, after=[saved("Save", where, sample(name, shape))]
    )


def merged(
    shards: int, *, parts: bool = False, missing: bool = False, bad: bool = False, **attrs: bool
) -> Case:
    """Bundles merged in one step, restored in the next; `bad`: all have the same tensor."""
    prefixes, target = [path() + b"/x" for _ in range(shards)], path()
    kinds = ["part" if parts else "same" if bad else f"v{k}" for k in range(shards)]
    saves = [
        node("SaveV2", prefix, texts(kind), texts(f"{shards} {k},1" if parts else ""), [np.array([float(k)])])
        for k, (prefix, kind) in enumerate(zip(prefixes, kinds, strict=True))
    ]
    all_prefixes = np.array([*prefixes, *([path()] if missing else [])], object)
    names = sorted(set(kinds))
    made = node(
        "RestoreV2",
        target,
        texts(*names),
        texts(*([""] * len(names))),
        attrs={"dtypes": ["float64"] * len(names)},
    )
    return case(
        "MergeV2Checkpoints",
        all_prefixes,
        target,
        attrs={"delete_old_dirs": True, "allow_missing_files": False, **attrs},
        after=saves,
        bad=bad or (missing and not attrs.get("allow_missing_files", False)),
        steps=lambda merging: [[merging], [made[k] for k in range(len(names))]],
    )


SAVES = [
    *(there_and_back("SaveV2", name, *(sample(name, shape) for shape in SHAPES)) for name in TYPES),
    *(there_and_back("Save", name, *(sample(name, shape) for shape in SHAPES)) for name in FIRST_FORMAT),
    *(
        there_and_back("SaveSlices", name, *(sample(name, shape) for shape in SHAPES))
        for name in FIRST_FORMAT
    ),
    case("SaveV2", path(), unknown(texts("a", "b")), unknown(texts("")), [1.0], bad=True),
    case("SaveV2", path(), unknown(texts("a", "b")), unknown(texts("", "")), [1.0], bad=True),
    case("SaveV2", path(), texts("a", "b"), texts(""), [1.0], bad=True),
    case("SaveV2", path(), texts("a"), texts("4 x"), [1.0], bad=True),
    case("SaveV2", path(), texts("a"), texts("4 0,2"), [[1.0]], bad=True),
    case("SaveV2", path(), texts("a", "a"), texts("", ""), [1.0, 2.0], bad=True),
    case("SaveV2", path() + b"/no/such", texts("a"), texts(""), [1.0], bad=True),
    case("Save", path(), texts("a", "b"), [1.0], bad=True),
    case("Save", path() + b"/no/such", texts("a"), [1.0], bad=True),
    case("Save", path(), texts("a"), [sample("bfloat16", (2,))], bad=True),
    case("Save", path(), unknown(texts("a", "b")), [1.0], bad=True),
    case("SaveSlices", path(), texts("a"), texts("4 x"), [1.0], bad=True),
    case("SaveSlices", path(), texts("a"), texts("4"), [1.0], bad=True),
    case("SaveSlices", path(), texts("a", "b"), texts(""), [1.0], bad=True),
    case("SaveSlices", path() + b"/no/such", texts("a"), texts(""), [1.0], bad=True),
]

RESTORES = [
    *(restored(op, place) for op in ("RestoreV2", "RestoreSlice") for place in GOOD_PLACES),
    *(restored(op, place, bad=True) for op in ("RestoreV2", "RestoreSlice") for place in BAD_PLACES),
    *(restored(op, "", bad=True, name="zz") for op in ("RestoreV2", "RestoreSlice", "Restore")),
    *(restored(op, "", bad=True, dtype="int32") for op in ("RestoreV2", "RestoreSlice", "Restore")),
    *(restored_whole(name, shape) for name in FIRST_FORMAT for shape in SHAPES[1:]),
    case("RestoreV2", path(), texts("a"), texts(""), attrs={"dtypes": ["float32"]}, bad=True),
    case("Restore", path(), b"a", attrs={"dt": "float32"}, bad=True),
    case("RestoreSlice", path(), b"a", b"", attrs={"dt": "float32"}, bad=True),
]

MERGES = [
    *(
        merged(shards, parts=parts)
        for shards in (1, 2, 3, 5)
        for parts in (False, True)
        if shards > 1 or not parts
    ),
    *(merged(2, parts=parts, delete_old_dirs=False) for parts in (False, True)),
    *(merged(shards, missing=True, allow_missing_files=True) for shards in (1, 2)),
    *(merged(shards, missing=True) for shards in (1, 2)),
    merged(2, bad=True),
    case("MergeV2Checkpoints", texts("/no/such"), path(), attrs={"allow_missing_files": True}, bad=True),
    case("MergeV2Checkpoints", unknown(np.array([[b"a"]], object)), path(), bad=True),
    case("MergeV2Checkpoints", np.zeros(0, object), path(), bad=True),
]

NAMES = [
    *(
        case("ShardedFilename", b"a/b", shard, shards)
        for shard, shards in ((0, 1), (3, 10), (99999, 100000), (3, 1234567), (-3, 2))
    ),
    *(case("ShardedFilespec", b"a/b", shards) for shards in (0, 1, 10, 99999, 100000, 1234567, -1)),
    *(case("ShardedFilename", name, 1, 2) for name in (b"", b"\xffx", b"x" * 300)),
    case(
        "ShardedFilename",
        b"a\0b",
        1,
        2,
        differs="TensorFlow's name ends at a zero byte, and so names another file",
    ),
    *(case("ShardedFilespec", name, 2) for name in (b"", b"\xffx", b"x" * 300)),
    case("ShardedFilename", unknown(b"a"), unknown(1), unknown(2)),
    case("ShardedFilespec", unknown(b"a"), unknown(2)),
    case("ShardedFilename", const(b"a"), const(1), const(2)),
    *(
        case("ShardedFilename", *inputs, bad=True)
        for inputs in ((texts("a"), 1, 2), (b"a", [1], 2), (b"a", 1, [2]))
    ),
    *(case("ShardedFilespec", *inputs, bad=True) for inputs in ((texts("a"), 2), (b"a", [2]))),
]

CASES: list[Case] = [*SAVES, *RESTORES, *MERGES, *NAMES]
