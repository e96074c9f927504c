"""Portable hashes of strings: FarmHash's Fingerprint64 and SipHash-2-4.

Both are defined on 64-bit words; Python's unbounded integers are masked accordingly.
"""

from __future__ import annotations

import struct
from typing import Final

_WORD: Final = (1 << 64) - 1
_K0: Final = 0xC3A5C85C97CB3127
_K1: Final = 0xB492B66FBE98F273
_K2: Final = 0x9AE16A3B2F90404F


def _at(data: bytes, place: int) -> int:
    return int.from_bytes(data[place : place + 8], "little")


def _rotated(value: int, shift: int) -> int:
    value &= _WORD
    return (value >> shift | value << (64 - shift)) & _WORD


def _mixed(value: int) -> int:
    value &= _WORD
    return value ^ value >> 47


# FarmHash


def fingerprint64(data: bytes) -> int:
    """Return FarmHash's Fingerprint64."""
    if len(data) <= 16:
        return _farm_to_16(data)
    if len(data) <= 32:
        return _farm_to_32(data)
    return _farm_to_64(data) if len(data) <= 64 else _farm_long(data)


def _of_pair(u: int, v: int, multiplier: int) -> int:
    a = _mixed(((u ^ v) & _WORD) * multiplier)
    return _mixed((v ^ a) * multiplier) * multiplier & _WORD


def _farm_to_16(data: bytes) -> int:
    size = len(data)
    multiplier = _K2 + size * 2
    if size >= 8:
        a, b = _at(data, 0) + _K2, _at(data, size - 8)
        c = _rotated(b, 37) * multiplier + a
        d = (_rotated(a, 25) + b) * multiplier
        return _of_pair(c & _WORD, d & _WORD, multiplier)
    if size >= 4:
        first, last = struct.unpack_from("<I", data)[0], struct.unpack_from("<I", data, size - 4)[0]
        return _of_pair(size + (first << 3), last, multiplier)
    if not size:
        return _K2
    y = data[0] + (data[size >> 1] << 8)
    z = size + (data[-1] << 2)
    return _mixed(y * _K2 ^ z * _K0) * _K2 & _WORD


def _farm_to_32(data: bytes) -> int:
    size = len(data)
    multiplier = _K2 + size * 2
    a, b = _at(data, 0) * _K1, _at(data, 8)
    c, d = _at(data, size - 8) * multiplier, _at(data, size - 16) * _K2
    u = _rotated(a + b, 43) + _rotated(c, 30) + d
    v = a + _rotated(b + _K2, 18) + c
    return _of_pair(u & _WORD, v & _WORD, multiplier)


def _farm_to_64(data: bytes) -> int:
    size = len(data)
    multiplier = _K2 + size * 2
    a, b = _at(data, 0) * _K2, _at(data, 8)
    c, d = _at(data, size - 8) * multiplier, _at(data, size - 16) * _K2
    y = (_rotated(a + b, 43) + _rotated(c, 30) + d) & _WORD
    z = _of_pair(y, (a + _rotated(b + _K2, 18) + c) & _WORD, multiplier)
    e, f = _at(data, 16) * multiplier, _at(data, 24)
    g, h = (y + _at(data, size - 32)) * multiplier, (z + _at(data, size - 24)) * multiplier
    u = _rotated(e + f, 43) + _rotated(g, 30) + h
    v = e + _rotated(f + a, 18) + g
    return _of_pair(u & _WORD, v & _WORD, multiplier)


def _seeded(data: bytes, place: int, a: int, b: int) -> tuple[int, int]:
    """Return two words of state after 32 bytes (FarmHash's WeakHashLen32WithSeeds)."""
    w, x, y, z = (_at(data, place + offset) for offset in (0, 8, 16, 24))
    a = a + w & _WORD
    b = _rotated(b + a + z, 21)
    c = a
    a += x + y
    b += _rotated(a, 44)
    return a + z & _WORD, b + c & _WORD


def _farm_long(data: bytes) -> int:
    seed, end = 81, (len(data) - 1) // 64 * 64
    last = end + ((len(data) - 1) & 63) - 63
    x = seed
    y = (seed * _K1 + 113) & _WORD
    z = _mixed(y * _K2 + 113) * _K2 & _WORD
    v, w = (0, 0), (0, 0)
    x = (x * _K2 + _at(data, 0)) & _WORD
    for place in range(0, end, 64):
        x = _rotated(x + y + v[0] + _at(data, place + 8), 37) * _K1
        y = _rotated(y + v[1] + _at(data, place + 48), 42) * _K1
        x = (x ^ w[1]) & _WORD
        y = (y + v[0] + _at(data, place + 40)) & _WORD
        z = _rotated(z + w[0], 33) * _K1 & _WORD
        v = _seeded(data, place, v[1] * _K1, x + w[0])
        w = _seeded(data, place + 32, z + w[1], y + _at(data, place + 16))
        z, x = x, z
    multiplier = _K1 + ((z & 0xFF) << 1)
    w = w[0] + ((len(data) - 1) & 63) & _WORD, w[1]
    v = v[0] + w[0] & _WORD, v[1]
    w = w[0] + v[0] & _WORD, w[1]
    x = _rotated(x + y + v[0] + _at(data, last + 8), 37) * multiplier
    y = _rotated(y + v[1] + _at(data, last + 48), 42) * multiplier
    x = (x ^ w[1] * 9) & _WORD
    y = (y + v[0] * 9 + _at(data, last + 40)) & _WORD
    z = _rotated(z + w[0], 33) * multiplier & _WORD
    v = _seeded(data, last, v[1] * multiplier, x + w[0])
    w = _seeded(data, last + 32, z + w[1], y + _at(data, last + 16))
    z, x = x, z
    multiplier &= _WORD
    low = _of_pair(v[0], w[0], multiplier) + _mixed(y) * _K0 + z
    return _of_pair(low & _WORD, (_of_pair(v[1], w[1], multiplier) + x) & _WORD, multiplier)


# SipHash


def siphash(key: tuple[int, int], data: bytes) -> int:
    """Return SipHash-2-4 (Aumasson and Bernstein, 2012) with a key of two words."""
    low, high = (word & _WORD for word in key)
    state = (
        low ^ 0x736F6D6570736575,
        high ^ 0x646F72616E646F6D,
        low ^ 0x6C7967656E657261,
        high ^ 0x7465646279746573,
    )
    whole = len(data) & ~7
    words = [_at(data, place) for place in range(0, whole, 8)]
    words.append(int.from_bytes(data[whole:], "little") | (len(data) & 0xFF) << 56)
    for word in words:
        state = (*state[:3], state[3] ^ word)
        state = _sip_round(*_sip_round(*state))
        state = (state[0] ^ word, *state[1:])
    state = (*state[:2], state[2] ^ 0xFF, state[3])
    for _ in range(4):
        state = _sip_round(*state)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def _left(value: int, shift: int) -> int:
    return (value << shift | value >> (64 - shift)) & _WORD


def _sip_round(a: int, b: int, c: int, d: int) -> tuple[int, int, int, int]:
    a = a + b & _WORD
    c = c + d & _WORD
    b, d = _left(b, 13) ^ a, _left(d, 16) ^ c
    a = _left(a, 32) + d & _WORD
    c = c + b & _WORD
    b, d = _left(b, 17) ^ c, _left(d, 21) ^ a
    return a, b, _left(c, 32), d
