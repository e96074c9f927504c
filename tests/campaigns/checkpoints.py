"""Reads mutants of checkpoints, of both formats and of the file that lists them.

    python -m tests.campaigns.checkpoints [--first SEED] [--count N] [--limit SECONDS]

A mutant is a checkpoint with one changed file: arbitrary bytes; entries of its table, with valid checksums; bytes of a block,
or the data of a tensor, with recomputed checksums; or the path in the file that lists checkpoints. It is read as a whole and in
parts, and merged; a session restores one in ten. If the file that lists checkpoints changed, they are looked up in its folder.
Each call succeeds, or fails with a canonical error, within the bounds of `mutants.bounded`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import struct
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import aioexec as ax
from aioexec import dtypes as dt, errors
from aioexec.errors import GraphValueError
from aioexec.formats.bundle_entries import HEADER_KEY, length_bytes
from aioexec.formats.bundle_reader import BundleReader
from aioexec.formats.bundle_writer import BundleWriter, merge
from aioexec.formats.checkpoint_files import InputFile
from aioexec.formats.crc32c import crc32c, masked
from aioexec.formats.protos import BundleEntryProto, BundleHeaderProto, SavedTensorSlices
from aioexec.formats.slice_table import SliceTableReader, SliceTableWriter
from aioexec.formats.sorted_table import SortedTable, encode_varint
from aioexec.formats.tensor_slice import parse_shape_and_slice
from aioexec.graph.apply import apply_list_op
from aioexec.train.checkpoints.checkpoint_reader import CheckpointReader
from aioexec.train.checkpoints.checkpoint_state import (
    get_checkpoint_state,
    latest_checkpoint,
    update_checkpoint_state,
)
from tests.campaigns import campaign, mutants
from tests.formats.bundles import read_table, write_table

EXPECTED = (errors.OpError, GraphValueError)
UNEXPECTED = (errors.InternalError, errors.UnknownError)
ONE_RESTORED_IN = 10  # a session reads what the other readings do, by way of its workers

Files = dict[str, bytes]


def case(seed: int) -> str | None:
    """Read one mutant."""
    random = Random(seed)
    files = dict(random.choice(_corpus()))
    name = random.choice(sorted(files))
    tables = [each for each in files if each.endswith((".index", "v1"))]
    kind = random.random()
    if kind < 0.05:
        name = "checkpoint"
        files[name] = _state(random)
    elif kind < 0.15 and "ckpt.index" in files:
        name = "a tensor's data"
        _change_data(random, files)
    elif kind < 0.35 or not tables:
        others = [content[name] for content in _corpus() if name in content]
        files[name] = mutants.mutant(random, others)
    else:
        name = random.choice(tables)
        change = _with_other_entries if kind < 0.7 else _with_another_block
        files[name] = change(random, files[name])
    readings: list[Callable[[str], None]] = (
        [_find] if name == "checkpoint" else [_read_all, _read_parts, _merge]
    )
    if random.randrange(ONE_RESTORED_IN) == 0:
        readings.append(_restore)
    size = sum(map(len, files.values()))
    with tempfile.TemporaryDirectory(dir=mutants.memory_folder()) as folder:
        for each, content in files.items():
            Path(folder, each).write_bytes(content)
        if mutants.bounded(partial(_read, readings, folder), (), size) is None:
            return None
        for reading in readings:
            wrong = mutants.bounded(partial(reading, folder), EXPECTED, size)
            if wrong is not None:
                return f"{reading.__name__} of {name}: {wrong}"
    return None


def _read(readings: list[Callable[[str], None]], folder: str) -> None:
    """Do some readings one after another, within the bounds of one."""
    for reading in readings:
        with contextlib.suppress(*EXPECTED):
            reading(folder)


def _read_all(folder: str) -> None:
    """Read every tensor of what the reader lists."""
    with CheckpointReader(f"{folder}/v1" if os.path.exists(f"{folder}/v1") else f"{folder}/ckpt") as reader:
        reader.get_variable_to_dtype_map()
        reader.debug_string()
        for name in reader.get_variable_to_shape_map():
            with contextlib.suppress(*EXPECTED):
                reader.get_tensor(name)


def _read_parts(folder: str) -> None:
    """Read a part of every tensor, as a restored partitioned variable does."""
    is_old = os.path.exists(f"{folder}/v1")
    with SliceTableReader(f"{folder}/v1") if is_old else BundleReader(f"{folder}/ckpt") as reader:
        for name, dtype, shape in list(reader.tensors()):
            if not shape or not shape[0]:
                continue
            sizes = " ".join(map(str, shape))
            part = ":".join([f"{shape[0] // 2},{shape[0] - shape[0] // 2}", *("-" for _ in shape[1:])])
            with contextlib.suppress(*EXPECTED):
                reader.read(name, dtype, parse_shape_and_slice(f"{sizes} {part}"))


def _restore(folder: str) -> None:
    """Restore tensors as a saver's graph does, by their names and dtypes in the checkpoint that was changed."""
    prefix = f"{folder}/v1" if os.path.exists(f"{folder}/v1") else f"{folder}/ckpt"
    _restorer().restore(prefix)


class _Restorer:
    """A session that restores the tensors of the corpus, on an event loop that is kept."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        with ax.Graph().as_default() as graph:
            self._prefix = ax.placeholder(ax.string, [])
            self._restored = [self._node(*each) for each in (("a", dt.float32), ("words", dt.string))]
            self._restored.append(self._node("parts", dt.float32, "6 4 1,4:-"))
        self._session = ax.Session(graph=graph)

    def _node(self, name: str, dtype: dt.DType, place: str = "") -> Any:
        return apply_list_op("RestoreV2", self._prefix, [name], [place], dtypes=[dtype])

    def restore(self, prefix: str) -> None:
        for restored in self._restored:
            with contextlib.suppress(*EXPECTED):
                self._loop.run_until_complete(self._run(restored, prefix))

    async def _run(self, restored: Any, prefix: str) -> None:
        try:
            await self._session.run(restored, {self._prefix: prefix})
        except UNEXPECTED as error:
            raise AssertionError(f"{type(error).__name__}: {error}") from error


@cache
def _restorer() -> _Restorer:
    return _Restorer()


def _merge(folder: str) -> None:
    if not os.path.exists(f"{folder}/v1"):
        merge([f"{folder}/ckpt"], f"{folder}/merged")


def _find(folder: str) -> None:
    get_checkpoint_state(folder)
    latest_checkpoint(folder)


# Changes below the checksums


def _with_other_entries(random: Random, table: bytes) -> bytes:
    """Change entries of a table, and rewrite it."""
    entries = _entries(table)
    for _ in range(random.choice((1, 1, 2, 3))):
        random.choice((_change_bytes, _change_bytes, _change_entry, _change_entry, _change_keys))(
            random, entries
        )
    return _table(entries)


def _entries(table: bytes) -> dict[bytes, bytes]:
    return dict(_entries_once(table))


@cache
def _entries_once(table: bytes) -> dict[bytes, bytes]:
    """The entries of a table of the corpus."""
    with tempfile.NamedTemporaryFile(dir=mutants.memory_folder()) as file:
        Path(file.name).write_bytes(table)
        return read_table(file.name)


def _table(entries: dict[bytes, bytes]) -> bytes:
    with tempfile.TemporaryDirectory(dir=mutants.memory_folder()) as folder:
        write_table(f"{folder}/table", entries)
        return Path(f"{folder}/table").read_bytes()


def _change_bytes(random: Random, entries: dict[bytes, bytes]) -> None:
    key = random.choice(sorted(entries))
    entries[key] = mutants.mutant(random, [entries[key]])


def _change_keys(random: Random, entries: dict[bytes, bytes]) -> None:
    key, other = random.choice(sorted(entries)), random.choice(sorted(entries))
    match random.randrange(4):
        case 0:
            del entries[key]
            entries.setdefault(HEADER_KEY, b"")
        case 1:
            entries[mutants.mutant(random, [key])] = entries[key]
        case 2:
            entries[key] = entries[other]
        case _:
            for k in range(300):
                entries[key + b"%d" % k] = entries[key]


def _change_entry(random: Random, entries: dict[bytes, bytes]) -> None:
    """Change a number in an entry or the header."""
    key = random.choice(sorted(entries))
    number = random.choice((random.choice(mutants.NUMBERS), -1, -(2**63), random.randrange(300)))
    wide, narrow = (number + 2**63) % 2**64 - 2**63, (number + 2**31) % 2**32 - 2**31
    if key == HEADER_KEY and not _is_of_slices(entries):
        header = BundleHeaderProto.FromString(_header(entries))
        field = random.choice(("num_shards", "endianness", "producer"))
        if field == "producer":
            header.version.min_consumer = narrow
        else:
            setattr(header, field, narrow)
        entries[key] = header.SerializeToString()
        return
    if _is_of_slices(entries):
        entries[key] = _changed_slices(random, entries[key], wide)
        return
    with contextlib.suppress(Exception):  # it was changed to bytes that are no entry
        entry = BundleEntryProto.FromString(entries[key])
        match random.randrange(8):
            case 0:
                entry.dtype = narrow  # type: ignore[assignment]  # also numbers that are no DataType
            case 1:
                entry.shape.dim.add(size=wide)
            case 2 if entry.shape.dim:
                random.choice(entry.shape.dim).size = wide
            case 3:
                entry.offset = wide
            case 4:
                entry.size = wide
            case 5:
                entry.shard_id = narrow
            case 6:
                extent = entry.slices.add().extent.add()
                extent.start, extent.length = wide, random.randrange(4)
            case _:
                entry.crc32c = number % 2**32
        entries[key] = entry.SerializeToString()


def _is_of_slices(entries: dict[bytes, bytes]) -> bool:
    """Whether a table is a checkpoint of the older format, which has no header but a list of tensors."""
    return BundleHeaderProto.FromString(_header(entries)).num_shards == 0


def _header(entries: dict[bytes, bytes]) -> bytes:
    try:
        BundleHeaderProto.FromString(entries[HEADER_KEY])
    except Exception:
        return b"\x08\x01"
    return entries[HEADER_KEY]


def _changed_slices(random: Random, value: bytes, number: int) -> bytes:
    with contextlib.suppress(Exception):
        saved = SavedTensorSlices.FromString(value)
        for tensor in saved.meta.tensor:
            if random.random() < 0.3:
                tensor.shape.dim.add(size=number)
            if tensor.slice and random.random() < 0.3:
                extent = tensor.slice[0].extent.add()
                extent.start, extent.length = number, random.randrange(4)
            if random.random() < 0.2:
                tensor.slice.extend(list(tensor.slice) * 20)
        if random.random() < 0.3:
            saved.data.data.float_val.extend([1.0] * random.randrange(9))
        return saved.SerializeToString()
    return value


def _change_data(random: Random, files: Files) -> None:
    """Replace the data of a tensor, with valid checksums, after the end of its data file."""
    entries = _entries(files["ckpt.index"])
    key = random.choice(
        [key for key in sorted(entries) if key and BundleEntryProto.FromString(entries[key]).size]
    )
    entry = BundleEntryProto.FromString(entries[key])
    count = BundleHeaderProto.FromString(entries[HEADER_KEY]).num_shards
    shard = f"ckpt.data-{entry.shard_id:05d}-of-{count:05d}"
    if entry.dtype == dt.string.as_datatype_enum:
        data, checksum = _strings(random, entry.shape.dim[0].size)
    else:
        old = files[shard][entry.offset : entry.offset + entry.size]
        data = mutants.mutant(random, [old])
        data = data[: len(old)].ljust(len(old), b"\xff") if random.random() < 0.7 else data
        checksum = crc32c(data)
    entry.offset, entry.size, entry.crc32c = len(files[shard]), len(data), masked(checksum)
    files[shard] += data
    entries[key] = entry.SerializeToString()
    files["ckpt.index"] = _table(entries)


def _strings(random: Random, count: int) -> tuple[bytes, int]:
    """The data of strings with arbitrary stated lengths, and its checksum."""
    lengths = [random.choice((0, 1, 2, 300)) for _ in range(count)]
    if random.random() < 0.7:
        lengths[random.randrange(count)] = random.choice(mutants.NUMBERS)
    of_lengths = crc32c(length_bytes(lengths))
    size = min(sum(lengths), 1000) + random.choice((0, 0, 0, -1, 1))
    rest = struct.pack("<I", masked(of_lengths)) + random.randbytes(max(size, 0))
    return b"".join(map(encode_varint, lengths)) + rest, crc32c(rest, of_lengths)


def _state(random: Random) -> bytes:
    """A file that lists checkpoints, whose latest has a path of odd parts."""
    parts = (
        "/",
        "/",
        "*",
        "**",
        "?",
        "[",
        "[!a]",
        "..",
        "ckpt",
        "v1",
        "\\000",
        "\\377",
        "\\n",
        "~",
        "x" * 300,
    )
    path = "".join(random.choices(parts, k=random.choice((1, 2, 4, 16, 4000))))
    return f'model_checkpoint_path: "{path}"\nall_model_checkpoint_paths: "{path}"\n'.encode()


def _with_another_block(random: Random, table: bytes) -> bytes:
    """Change bytes of a block and recompute its checksum."""
    data = bytearray(table)
    offset, size = random.choice(_blocks(table))
    for _ in range(random.choice((1, 1, 2, 4))):
        if size:
            data[offset + random.randrange(size)] = random.choice(
                (0, 1, 127, 128, 255, random.randrange(256))
            )
    data[offset + size] = random.choice((0, 0, 0, 0, 1, 255))  # how it is compressed
    data[offset + size + 1 : offset + size + 5] = struct.pack(
        "<I", masked(crc32c(bytes(data[offset : offset + size + 1])))
    )
    return bytes(data)


@cache
def _blocks(table: bytes) -> list[tuple[int, int]]:
    """Offset and size of each block but the empty one of the metaindex."""
    with tempfile.TemporaryDirectory(dir=mutants.memory_folder()) as folder:
        path = f"{folder}/table"
        Path(path).write_bytes(table)
        with InputFile(path) as source:
            read = SortedTable(source)
            footer = table[-48:]
            _, position = read._handle(footer, 0)
            index, _ = read._handle(footer, position)
            return [(each.offset, each.size) for each in (*read._handles, index)]


# Checkpoints to begin with


@cache
def _corpus() -> list[Files]:
    logging.getLogger("aioexec").setLevel(logging.CRITICAL)  # it warns of each state that cannot be read
    return [_saved(make) for make in (_bundle, _bundle_of_parts, _merged_bundle, _old_format)]


def _saved(make: Callable[[str], object]) -> Files:
    with tempfile.TemporaryDirectory(dir=mutants.memory_folder()) as folder:
        make(folder)
        update_checkpoint_state(folder, "ckpt", ["older", "ckpt"])
        files = {each: Path(folder, each).read_bytes() for each in os.listdir(folder)}
        shutil.rmtree(folder)
        os.mkdir(folder)
        return files


def _tensors() -> list[tuple[str, Any, dt.DType]]:
    numbers = np.arange(24, dtype=np.float32)
    return [
        ("a", numbers.reshape(4, 6), dt.float32),
        ("a/b", np.int64(7), dt.int64),
        ("a/bool", np.array([True, False]), dt.bool_),
        ("a/half", numbers.astype(dt.bfloat16.numpy), dt.bfloat16),
        ("empty", np.zeros((0, 3), np.int32), dt.int32),
        ("words", np.array([b"x", b"yz", b"", b"\xff" * 300], object), dt.string),
    ]


def _bundle(folder: str) -> None:
    with BundleWriter(f"{folder}/ckpt") as writer:
        for tensor in _tensors():
            writer.add(*tensor)
        writer.finish()


def _bundle_of_parts(folder: str) -> None:
    with BundleWriter(f"{folder}/ckpt") as writer:
        for k in range(3):
            part = parse_shape_and_slice(f"6 4 {2 * k},2:-")
            writer.add_slice("parts", part, np.full((2, 4), k, np.float32), dt.float32)
        writer.add("whole", np.arange(5), dt.int64)
        writer.finish()


def _merged_bundle(folder: str) -> None:
    for k in range(2):
        with BundleWriter(f"{folder}/part{k}") as writer:
            for name, value, dtype in _tensors()[k::2]:
                writer.add(name, value, dtype)
            writer.finish()
    merge([f"{folder}/part{k}" for k in range(2)], f"{folder}/ckpt")


def _old_format(folder: str) -> None:
    writer = SliceTableWriter(f"{folder}/v1")
    for name, value, dtype in _tensors():
        if dtype is not dt.bfloat16:
            writer.add(name, np.asarray(value), dtype)
    for k in range(2):
        writer.add(
            "parts", np.ones((2, 2), np.float32), dt.float32, parse_shape_and_slice(f"4 2 {2 * k},2:-")
        )
    writer.finish()


if __name__ == "__main__":
    raise SystemExit(campaign.main(case))
