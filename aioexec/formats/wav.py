"""WAV files with 16-bit PCM samples."""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt

_SCALE: Final = 1 << 15
_PCM: Final = 1


def encode_wav(frames: npt.NDArray[Any], sample_rate: int) -> bytes:
    """Encode samples [frames, channels] in [-1, 1] as a file; values outside are clipped, NaN becomes silence."""
    samples = np.nan_to_num(frames.astype(np.float64) * _SCALE, posinf=_SCALE, neginf=-_SCALE)
    rounded = np.trunc(samples + np.copysign(0.5, samples))  # rounds half away from zero
    data = np.clip(rounded, -_SCALE, _SCALE - 1).astype("<i2").tobytes()
    width = 2 * frames.shape[1]
    rate = sample_rate * width % (1 << 32)  # bytes per second, truncated to the 32 bits of the field
    form = struct.pack("<HHIIHH", _PCM, frames.shape[1], sample_rate, rate, width % (1 << 16), 16)
    chunks = (b"WAVE", *_chunk(b"fmt ", form), *_chunk(b"data", data))
    return b"RIFF" + struct.pack("<I", sum(map(len, chunks))) + b"".join(chunks)


def _chunk(name: bytes, content: bytes) -> tuple[bytes, ...]:
    return name, struct.pack("<I", len(content)), content
