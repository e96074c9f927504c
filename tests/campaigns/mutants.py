"""Mutants: bytes derived from valid ones by a seeded generator, and bounds of time and memory for their readers."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from time import process_time

from aioexec.formats.sorted_table import encode_varint

MOST_SECONDS = 0.1  # of processor time, all threads together
MOST_BYTES = 64 << 20  # of resident memory, beyond the input

NUMBERS = (
    0,
    1,
    2,
    127,
    128,
    255,
    256,
    2**16,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**40,
    2**61,
    2**63 - 1,
    2**63,
    2**64 - 1,
)
"""Lengths, counts and offsets of which sums and products overflow, or that no memory holds."""


def memory_folder() -> str | None:
    """A folder for files that need no disk; None, for the usual one, where the system has none."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def mutant(random: Random, corpus: Sequence[bytes]) -> bytes:
    """Return one of the corpus after one to eight random edits."""
    data = bytearray(random.choice(corpus))
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        data = random.choice(_EDITS)(random, data, corpus)
    return bytes(data)


def _flip_bit(random: Random, data: bytearray, corpus: Sequence[bytes]) -> bytearray:
    if data:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return data


def _set_byte(random: Random, data: bytearray, corpus: Sequence[bytes]) -> bytearray:
    if data:
        data[random.randrange(len(data))] = random.choice((0, 1, 127, 128, 255, random.randrange(256)))
    return data


def _set_varint(random: Random, data: bytearray, corpus: Sequence[bytes]) -> bytearray:
    """Replace a byte by a number: a length or a tag, where there is one."""
    begin = random.randrange(len(data) + 1)
    data[begin : begin + 1] = encode_varint(random.choice(NUMBERS))
    return data


def _set_fixed(random: Random, data: bytearray, corpus: Sequence[bytes]) -> bytearray:
    """Write a number of one to eight bytes over what is there, in either byte order."""
    begin, width = random.randrange(len(data) + 1), random.choice((1, 2, 4, 8))
    number = random.choice(NUMBERS) % (1 << 8 * width)
    data[begin : begin + width] = number.to_bytes(width, random.choice(("little", "big")))
    return data


def _truncate(random: Random, data: bytearray, corpus: Sequence[bytes]) -> bytearray:
    return data[: random.randrange(len(data) + 1)]


def _remove(random: Random, data: bytearray, corpus: Sequence[bytes]) -> bytearray:
    begin, end = _span(random, data)
    del data[begin:end]
    return data


def _insert(random: Random, data: bytearray, corpus: Sequence[bytes]) -> bytearray:
    begin = random.randrange(len(data) + 1)
    data[begin:begin] = random.randbytes(random.choice((1, 2, 8, 64)))
    return data


def _repeat(random: Random, data: bytearray, corpus: Sequence[bytes]) -> bytearray:
    begin, end = _span(random, data)
    data[begin:end] = data[begin:end] * random.choice((2, 3, 16, 100))
    return data


def _splice(random: Random, data: bytearray, corpus: Sequence[bytes]) -> bytearray:
    """Put a part of another member of the corpus over a part of this one."""
    begin, end = _span(random, data)
    other = random.choice(corpus)
    first, last = _span(random, other)
    data[begin:end] = other[first:last]
    return data


def _span(random: Random, data: bytes | bytearray) -> tuple[int, int]:
    begin = random.randrange(len(data) + 1)
    return begin, min(len(data), begin + random.choice((1, 2, 4, 16, 64, 512)))


_EDITS = (
    _flip_bit,
    _set_byte,
    _set_varint,
    _set_fixed,
    _truncate,
    _remove,
    _insert,
    _repeat,
    _splice,
)


def bounded(
    call: Callable[[], object],
    expected: tuple[type[BaseException], ...],
    size: int,
    most_seconds: float = MOST_SECONDS,
) -> str | None:
    """Call a function that reads `size` bytes of input; return what is wrong with it in a sentence, or None.

    It may return or raise one of the expected exceptions, within `most_seconds` and with MOST_BYTES of memory beyond the input.
    A call beyond a bound is repeated: what only the first call needs (imports, caches, a garbage collection) does not count.
    """
    return _bounded_once(call, expected, size, most_seconds) and _bounded_once(
        call, expected, size, most_seconds
    )


def _bounded_once(
    call: Callable[[], object], expected: tuple[type[BaseException], ...], size: int, most_seconds: float
) -> str | None:
    """Do the same once."""
    _reset_peak()
    before, began = _peak(), process_time()
    raised: BaseException | None = None
    try:
        call()
    except expected:
        pass
    except Exception as error:
        raised = error
    seconds, memory = process_time() - began, _peak() - before
    if raised is not None:
        return f"raised {type(raised).__name__}: {raised}"
    if seconds > most_seconds:
        return f"took {seconds:.2f} s of processor time for {size} bytes"
    if memory > MOST_BYTES + size:
        return f"took {memory >> 20} MiB for {size} bytes"
    return None


def _peak() -> int:
    """The most memory that was resident since the last `_reset_peak`, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _reset_peak() -> None:
    Path("/proc/self/clear_refs").write_bytes(b"5")
