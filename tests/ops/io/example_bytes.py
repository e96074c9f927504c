"""Serialized Examples written by hand, valid and malformed, for the tests of parsing."""

from __future__ import annotations

from typing import Any

import numpy as np


def block(field: int, content: bytes) -> bytes:
    """A field of so many bytes, fewer than 128."""
    assert len(content) < 128
    return bytes([field << 3 | 2, len(content)]) + content


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    parts = [number >> place & 0x7F for place in range(0, max(number.bit_length(), 1), 7)]
    return bytes([*(part | 0x80 for part in parts[:-1]), parts[-1]])


def feature(values: list[Any]) -> bytes:
    """A list of the kind of its first value: bytes, float or int; nothing of no kind if there is none."""
    if not values:
        return b""
    if isinstance(values[0], bytes):
        return block(1, b"".join(block(1, value) for value in values))
    if isinstance(values[0], float):
        return block(2, block(1, np.array(values, "<f4").tobytes()))
    return block(3, block(1, b"".join(map(varint, values))))


def entry(key: str, content: bytes) -> bytes:
    return block(1, block(1, key.encode()) + block(2, content))


def example(**features: list[Any]) -> bytes:
    return block(1, b"".join(entry(key, feature(values)) for key, values in features.items()))


def one(content: bytes) -> bytes:
    """An Example whose only feature, `a`, is these bytes."""
    return block(1, entry("a", content))


_TWO = np.array([1, 2], "<f4").tobytes()

READABLE = {
    "a feature twice": example(a=[1.0]) + example(a=[2.0]),
    "each float with its tag": one(block(2, b"\x0d" + _TWO[:4] + b"\x0d" + _TWO[4:])),
    "two blocks of floats": one(block(2, block(1, _TWO[:4]) + block(1, _TWO[4:]))),
    "two lists": one(block(2, block(1, _TWO[:4])) + block(2, block(1, _TWO[4:]))),
    "a part of a float": one(block(2, block(1, _TWO[:5]))),
    "something behind the list": one(block(2, block(1, _TWO)) + block(7, b"x")),
    "a field unknown": block(7, b"xx") + example(a=[1.0]),
    "a number unknown": b"\x38\x05\x41" + bytes(8) + b"\x4d" + bytes(4) + example(a=[1.0]),
    "the value before the key": block(1, block(1, block(2, feature([1.0])) + block(1, b"a"))),
    "a length beyond the end": b"\x0a\x05",
    "a field beyond the end": b"junk",
    "nothing": b"",
    "a block said to be one byte longer": one(block(2, b"\x0a\x09" + _TWO)),
    "an empty list": one(block(2, b"")),
    "an empty block": one(block(2, block(1, b""))),
    "another feature that is wrong": block(1, entry("b", block(2, block(1, _TWO)[:-1]))),
}
"""Bytes that are read, with `a` a float feature, or none."""

DAMAGED = {
    "cut": example(a=[1.0, 2.0])[:-1],
    "a field unknown among features": block(1, block(7, b"q") + entry("a", feature([1.0]))),
    "an unknown kind": one(block(7, b"xx")),
    "no key": block(1, block(1, block(2, feature([1.0])))),
    "no feature": block(1, block(1, block(1, b"a"))),
    "something behind the feature": block(
        1, block(1, block(1, b"a") + block(2, feature([1.0])) + block(3, b"q"))
    ),
    "an integer among floats": one(block(2, b"\x0d" + _TWO[:4] + b"\x08\x05\x08\x06\x07")),
    "floats of five bytes": one(block(2, b"\x0d" + _TWO[:5])),
    "a float list of something else": one(block(2, block(2, _TWO))),
    "a block beyond the end": one(block(2, b"\x0a\x0d" + _TWO)),
    "a group": b"\x0b\x0c",
    "a number without an end": b"\x38" + b"\xff" * 11,
}
"""Bytes that are refused where the float feature `a` is wanted."""

INTEGERS = {
    "negative and large": example(a=[-5, 1 << 62, 0, 127, 128]),
    "each with its tag": one(block(3, b"\x08\x05\x08\xac\x02")),
    "none": one(block(3, b"")),
    "none in a block": one(block(3, block(1, b""))),
}
"""Bytes with an integer feature `a`."""

DAMAGED_INTEGERS = {
    "another type in the list": one(block(3, b"\x0d\x05\x08\x06\0")),
    "another field in the list": one(block(3, b"\x10\x05\x08\x06")),
    "without an end": one(block(3, block(1, b"\x80\x80"))),
    "of eleven bytes": one(block(3, block(1, b"\xff" * 10 + b"\x01"))),
}
"""Bytes that are refused where the integer feature `a` is wanted."""
