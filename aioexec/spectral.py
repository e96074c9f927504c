"""Fourier transforms under the names of `tf.spectral`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.ops.math.fourier import (
        fft as fft,
        fft2d as fft2d,
        fft3d as fft3d,
        ifft as ifft,
        ifft2d as ifft2d,
        ifft3d as ifft3d,
        irfft as irfft,
        irfft2d as irfft2d,
        irfft3d as irfft3d,
        rfft as rfft,
        rfft2d as rfft2d,
        rfft3d as rfft3d,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
