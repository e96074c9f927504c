"""Short-time Fourier transforms: the spectra of frames, and the signal of such spectra."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import name_scope
from aioexec.ops.array.arrays import reshape, tile
from aioexec.ops.array.padding import pad
from aioexec.ops.math.fourier import irfft, rfft
from aioexec.ops.math.math_functions import square
from aioexec.ops.reduction.reductions import reduce_sum
from aioexec.ops.signal.frames import frame, overlap_and_add
from aioexec.ops.signal.windows import hann_window

Window = Callable[..., Any] | None
"""A function of a length with the keyword argument `dtype`."""


def _power_of_two(length: int) -> int:
    """The least power of two that is not less."""
    return 1 << (length - 1).bit_length()


def stft(
    signals: Any,
    frame_length: int,
    frame_step: int,
    fft_length: int | None = None,
    window_fn: Window = hann_window,
    pad_end: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the spectra [..., frames, fft_length / 2 + 1], complex, of the frames of signals [..., samples].

    Args:
        frame_step: the distance of the starts of two frames.
        fft_length: by default the least power of two that is not less than the length of a frame.
        window_fn: the weights of the samples of a frame; None for none.
        pad_end: whether frames that end outside of the signal are filled by zeros, else left out.
    """
    with name_scope(name, "stft", [signals]):
        signals = convert_to_tensor(signals, name="signals")
        size = _power_of_two(frame_length) if fft_length is None else fft_length
        framed = frame(signals, frame_length, frame_step, pad_end=pad_end)
        if window_fn is not None:
            framed = framed * window_fn(frame_length, dtype=framed.dtype.base_dtype)
        return rfft(framed, [size])


def inverse_stft(
    stfts: Any,
    frame_length: int,
    frame_step: int,
    fft_length: int | None = None,
    window_fn: Window = hann_window,
    name: str | None = None,
) -> Tensor:
    """Return the signals [..., samples] of spectra as those of `stft`, up to the weights of the window.

    The signal itself comes with the window function `inverse_stft_window_fn(frame_step)`.
    """
    with name_scope(name, "inverse_stft", [stfts]):
        stfts = convert_to_tensor(stfts, name="stfts")
        size = _power_of_two(frame_length) if fft_length is None else fft_length
        frames = irfft(stfts, [size])[..., :frame_length]
        if size < frame_length:
            outer = [[0, 0]] * (len(frames.shape.as_list()) - 1)
            frames = pad(frames, [*outer, [0, frame_length - size]])
        if window_fn is not None:
            frames = frames * window_fn(frame_length, dtype=frames.dtype.base_dtype)
        return overlap_and_add(frames, frame_step)


def inverse_stft_window_fn(
    frame_step: int, forward_window_fn: Callable[..., Any] = hann_window, name: str | None = None
) -> Callable[..., Tensor]:
    """Return the window function for `inverse_stft` that undoes that of `stft`: its square, summed over frames, is 1."""

    def window(frame_length: int, dtype: Any) -> Tensor:
        with name_scope(name, "inverse_stft_window_fn"):
            forward = forward_window_fn(frame_length, dtype=dtype)
            overlaps = -(-frame_length // frame_step)
            squares = pad(square(forward), [[0, overlaps * frame_step - frame_length]])
            total = reduce_sum(reshape(squares, [overlaps, frame_step]), 0, keepdims=True)
            spread = reshape(tile(total, [overlaps, 1]), [overlaps * frame_step])
            return forward / spread[:frame_length]  # type: ignore[no-any-return]

    return window
