"""The 64-bit MurmurHash that TensorFlow calls Hash64: for string buckets and for frame ids on which processes must agree."""

from __future__ import annotations

from typing import Final

_WORD: Final = (1 << 64) - 1
_MULTIPLIER: Final = 0xC6A4A7935BD1E995
_GOLDEN: Final = 0x9E3779B97F4A7800


def murmur64(data: bytes, seed: int = 0xDECAFCAFFE) -> int:
    """Compute MurmurHash64A with TensorFlow's seed."""
    state = seed ^ len(data) * _MULTIPLIER & _WORD
    whole = len(data) & ~7
    for place in range(0, whole, 8):
        word = int.from_bytes(data[place : place + 8], "little") * _MULTIPLIER & _WORD
        state = (state ^ (word ^ word >> 47) * _MULTIPLIER & _WORD) * _MULTIPLIER & _WORD
    if whole < len(data):
        state = (state ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _WORD
    state = (state ^ state >> 47) * _MULTIPLIER & _WORD
    return state ^ state >> 47


def combined(first: int, second: int) -> int:
    """Combine two hashes into one, depending on their order (TensorFlow's Hash64Combine)."""
    return first ^ (second + _GOLDEN + (first << 10) + (first >> 4)) & _WORD
