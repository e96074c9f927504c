"""Encodes and decodes the state of a reader as TensorFlow's ReaderBaseState proto."""

from __future__ import annotations

from typing import Final

from aioexec.errors import DataLossError, InvalidArgumentError
from aioexec.formats.sorted_table import decode_varint, encode_varint

_COUNTS: Final = (0x08, 0x10, 0x18)
_WORK: Final = 0x22
"""Tag of the field of each component."""


def encode_reader_state(counts: tuple[int, int, int], work: bytes) -> bytes:
    """Encode the counts of work started, work finished and records produced, and the name of the current work item."""
    fields = [
        bytes([tag]) + encode_varint(count) for tag, count in zip(_COUNTS, counts, strict=True) if count
    ]
    if work:
        fields += [bytes([_WORK]), encode_varint(len(work)), work]
    return b"".join(fields)


def decode_reader_state(state: bytes) -> tuple[int, int, int, bytes]:
    """Decode what `encode_reader_state` encodes.

    Raises:
        InvalidArgumentError: the bytes are not a ReaderBaseState.
    """
    counts, work, at = [0, 0, 0], b"", 0
    try:
        while at < len(state):
            tag, at = decode_varint(state, at)
            number, at = decode_varint(state, at)
            if tag == _WORK and number <= len(state) - at:
                work, at = state[at : at + number], at + number
            elif tag in _COUNTS:
                counts[_COUNTS.index(tag)] = number - (1 << 64) if number >> 63 else number
            else:
                raise DataLossError(f"no field {tag}")
    except DataLossError as error:
        raise InvalidArgumentError(f"Could not parse reader state {state!r}: {error.message}") from error
    return counts[0], counts[1], counts[2], work
