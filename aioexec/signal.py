"""Fourier transforms, frames and windows under the names of `tf.signal`."""

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
    from aioexec.ops.signal.frames import frame as frame, overlap_and_add as overlap_and_add
    from aioexec.ops.signal.mel import linear_to_mel_weight_matrix as linear_to_mel_weight_matrix
    from aioexec.ops.signal.short_time import (
        inverse_stft as inverse_stft,
        inverse_stft_window_fn as inverse_stft_window_fn,
        stft as stft,
    )
    from aioexec.ops.signal.windows import hamming_window as hamming_window, hann_window as hann_window
else:
    __getattr__, __dir__ = public_names(__name__)
