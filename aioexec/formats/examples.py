"""Decoder of Example protos (maps of named features, each a list of bytes, floats or int64), the records of training data.

It follows TensorFlow's fast_parse_example rather than protobuf: of several entries of one key the last one counts, and of a
feature the first list; unknown fields are skipped in an Example and rejected within its features. Only requested features are
decoded.

Malformed input raises ValueError. Lengths in the input are checked against the bytes available before they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from aioexec import dtypes as dt
from aioexec.dtypes import DType

Array = np.ndarray[Any, Any]

_FIRST_BLOCK: Final = 0x0A  # field 1, length-delimited
_SECOND_BLOCK: Final = 0x12
_FIRST_VARINT: Final = 0x08
_FIRST_FLOAT: Final = 0x0D
_MOST_VARINT_BYTES: Final = 10
_KINDS: Final = {0x0A: dt.string, 0x12: dt.float32, 0x1A: dt.int64}
_LISTED_FLOAT: Final = np.dtype([("tag", "u1"), ("value", "<f4")])


class _Cursor:
    """A read position within bytes, and the limit that reading does not pass."""

    __slots__ = ("_data", "_end", "at")

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self._data = data
        self._end = end
        self.at = at

    def has_more(self) -> bool:
        return self.at < self._end

    def next_is(self, tag: int) -> bool:
        return self.has_more() and self._data[self.at] == tag

    def expect(self, tag: int) -> None:
        if not self.next_is(tag):
            raise ValueError(f"expected tag {tag} at {self.at}")
        self.at += 1

    def varint(self) -> int:
        number = 0
        for place in range(_MOST_VARINT_BYTES):
            if not self.has_more():
                break
            byte = self._data[self.at]
            self.at += 1
            number |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                return number
        raise ValueError(f"truncated varint at {self.at}")

    def length(self) -> int:
        return self.varint() & 0xFFFFFFFF

    def take(self, count: int) -> bytes:
        end = self.at + count
        if end > self._end:
            raise ValueError(f"expected {count} bytes at {self.at}, got {self._end - self.at}")
        taken = self._data[self.at : end]
        self.at = end
        return taken

    def block(self) -> bytes:
        return self.take(self.length())

    def rest(self) -> bytes:
        return self.take(self._end - self.at)

    def inner(self) -> _Cursor:
        """Return a cursor over a length-delimited block, which must end within this one."""
        length = self.length()
        start, self.at = self.at, min(self.at + length, self._end)
        return _Cursor(self._data, start, self.at)

    def skip_field(self) -> None:
        wire = self.length() & 7
        if wire == 0:
            self.varint()
        elif wire == 1:
            self.take(8)
        elif wire == 2:
            self.inner()
        elif wire == 5:
            self.take(4)
        else:
            raise ValueError(f"groups are not supported, at {self.at}")


def features_of(example: bytes) -> dict[bytes, bytes]:
    """Return the serialised features of an Example by key, or those of the context of a SequenceExample.

    Raises:
        ValueError: the bytes are not an Example.
    """
    return _map_in(example, _FIRST_BLOCK)


def feature_lists_of(example: bytes) -> dict[bytes, list[bytes]]:
    """Return the lists of serialised features of a SequenceExample by key.

    Raises:
        ValueError: the bytes are not a SequenceExample.
    """
    lists = _map_in(example, _SECOND_BLOCK)
    return {key: list(_blocks(_Cursor(found, 0, len(found)))) for key, found in lists.items()}


def _map_in(message: bytes, tag: int) -> dict[bytes, bytes]:
    """Return the entries of the maps in the fields of a message that have a tag."""
    cursor = _Cursor(message, 0, len(message))
    found = {}
    while cursor.has_more():
        if not cursor.next_is(tag):
            cursor.skip_field()
            continue
        cursor.at += 1
        entries = cursor.inner()
        while entries.has_more():
            key, value = _entry(entries)
            found[key] = value
    return found


def _entry(features: _Cursor) -> tuple[bytes, bytes]:
    """Decode a map entry: a key and a feature, in either order."""
    features.expect(_FIRST_BLOCK)
    entry = features.inner()
    parts = {_FIRST_BLOCK: b"", _SECOND_BLOCK: b""}
    for _ in parts:
        tag = entry.length()
        if tag not in parts:
            raise ValueError(f"unknown tag {tag} of an entry at {entry.at}")
        parts[tag] = entry.block()
    if entry.has_more():
        raise ValueError(f"unexpected data after a key and a feature at {entry.at}")
    return parts[_FIRST_BLOCK], parts[_SECOND_BLOCK]


def kind_of(feature: bytes) -> DType | None:
    """Return the kind of list a feature holds; None for an empty feature.

    Raises:
        ValueError: the kind is unknown.
    """
    if not feature:
        return None
    kind = _KINDS.get(feature[0])
    if kind is None:
        raise ValueError(f"unknown kind of feature {feature[0]}")
    return kind


def values_of(feature: bytes) -> Array:
    """Return the values in the list of a feature, which must not be empty.

    Raises:
        ValueError: the list is malformed.
    """
    cursor = _Cursor(feature, 1, len(feature))
    return _READERS[feature[0]](cursor.inner())


def _strings(cursor: _Cursor) -> Array:
    found = list(_blocks(cursor))
    return np.fromiter(found, np.object_, len(found))


def _blocks(cursor: _Cursor) -> Iterator[bytes]:
    while cursor.has_more():
        cursor.expect(_FIRST_BLOCK)
        yield cursor.block()


def _floats(cursor: _Cursor) -> Array:
    """Decode a packed block of floats (a trailing partial float is ignored), or floats with a tag each."""
    if not cursor.has_more():
        return np.zeros(0, np.float32)
    if cursor.next_is(_FIRST_BLOCK):
        cursor.at += 1
        return np.frombuffer(cursor.take(cursor.length() // 4 * 4), "<f4")
    listed = np.frombuffer(cursor.rest(), _LISTED_FLOAT)
    if (listed["tag"] != _FIRST_FLOAT).any():
        raise ValueError("unexpected tag in a list of floats")
    return listed["value"].copy()


def _integers(cursor: _Cursor) -> Array:
    if not cursor.has_more():
        return np.zeros(0, np.int64)
    if cursor.next_is(_FIRST_BLOCK):
        cursor.at += 1
        return varints(cursor.inner().rest())
    found = []
    while cursor.has_more():
        cursor.expect(_FIRST_VARINT)
        found.append(cursor.varint() & 0xFFFFFFFFFFFFFFFF)
    return np.array(found, np.uint64).view(np.int64)


def varints(data: bytes) -> Array:
    """Decode consecutive varints as int64.

    Raises:
        ValueError: a varint is truncated or too long.
    """
    raw = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(raw < 0x80)
    if not raw.size:
        return np.zeros(0, np.int64)
    if not ends.size or ends[-1] != raw.size - 1:
        raise ValueError("the last varint is truncated")
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts + 1
    if lengths.max() > _MOST_VARINT_BYTES:
        raise ValueError(f"a varint of {lengths.max()} bytes")
    places = (np.arange(raw.size) - np.repeat(starts, lengths)).astype(np.uint64)
    parts = (raw & 0x7F).astype(np.uint64) << (places * np.uint64(7))
    return np.bitwise_or.reduceat(parts, starts).view(np.int64)


_READERS: Final[dict[int, Callable[[_Cursor], Array]]] = {0x0A: _strings, 0x12: _floats, 0x1A: _integers}
