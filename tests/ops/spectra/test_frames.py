"""Frames, windows and short-time spectra by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphValueError

signal = ax.signal


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


def drawn(*shape: int) -> Any:
    return np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)


async def evaluated(fetches: Any, feeds: Any = None) -> Any:
    async with ax.Session() as session:
        return await session.run(fetches, feeds)


def frames(x: Any, length: int, step: int) -> Any:
    return np.stack([x[..., k : k + length] for k in range(0, x.shape[-1] - length + 1, step)], axis=-2)


async def test_a_signal_is_cut_into_frames():
    x = drawn(2, 11)
    fed = ax.placeholder(ax.float32, [2, None])
    made = [signal.frame(x, 4, 3), signal.frame(fed, 4, 3), signal.frame(x, 4, 3, pad_end=True, pad_value=9)]
    found = await evaluated(made, {fed: x})
    padded = np.concatenate([x, np.full((2, 2), 9, np.float32)], 1)

    assert [each.shape.as_list() for each in made] == [[2, 3, 4], [2, None, 4], [2, 4, 4]]
    np.testing.assert_array_equal(found[0], frames(x, 4, 3))
    np.testing.assert_array_equal(found[1], frames(x, 4, 3))
    np.testing.assert_array_equal(found[2], frames(padded, 4, 3))


async def test_another_axis_is_cut():
    x = drawn(6, 2)
    found = await evaluated([signal.frame(x, 4, 2, axis=0), signal.frame(x[:3], 4, 2, axis=0)])

    np.testing.assert_array_equal(found[0], np.stack([x[:4], x[2:]]))
    assert found[1].shape == (0, 4, 2)
    with pytest.raises(GraphValueError, match="axis"):
        signal.frame(x, 4, 2, axis=2)


async def test_frames_are_added_at_their_places():
    x = drawn(2, 3, 4)
    expected = np.zeros((2, 8), np.float32)
    for k in range(3):
        expected[:, 2 * k : 2 * k + 4] += x[:, k]
    fed = ax.placeholder(ax.float32, [2, None, 4])
    made = [signal.overlap_and_add(x, 2), signal.overlap_and_add(fed, 2)]
    found = await evaluated(made, {fed: x})

    assert [each.shape.as_list() for each in made] == [[2, 8], [2, None]]
    np.testing.assert_allclose(found, [expected, expected], rtol=1e-5, atol=1e-6)
    with pytest.raises(GraphValueError, match="rank 2"):
        signal.overlap_and_add(ax.zeros([3]), 1)


async def test_windows_are_raised_cosines():
    found = await evaluated(
        [signal.hann_window(8), signal.hamming_window(8, periodic=False), signal.hann_window(1)]
    )

    np.testing.assert_allclose(found[0], np.hanning(9)[:8], atol=1e-6)
    np.testing.assert_allclose(found[1], np.hamming(8), atol=1e-6)
    np.testing.assert_array_equal(found[2], [1])
    with pytest.raises(GraphValueError, match="floating"):
        signal.hann_window(8, dtype=ax.int32)
    with pytest.raises(GraphValueError, match="known"):
        signal.hann_window(ax.placeholder(ax.int32, []))


async def test_a_signal_has_spectra_and_spectra_a_signal():
    x = drawn(2, 64)
    spectra = signal.stft(x, 16, 4)
    back = signal.inverse_stft(spectra, 16, 4, window_fn=signal.inverse_stft_window_fn(4))
    short = signal.inverse_stft(signal.stft(x, 12, 4, fft_length=8, window_fn=None), 12, 4, 8, None)
    found = await evaluated([spectra, back, short])

    expected = np.fft.rfft(frames(x, 16, 4) * np.hanning(17)[:16])
    np.testing.assert_allclose(found[0], expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(found[1][:, 16:-16], x[:, 16:-16], rtol=1e-3, atol=1e-4)
    assert found[2].shape == (2, 64)


async def test_bands_are_triangles_on_the_mel_scale():
    found = await evaluated(signal.linear_to_mel_weight_matrix(4, 65, 8000, 100.0, 3000.0))

    assert found.shape == (65, 4)
    assert (found >= 0).all()
    assert (np.diff(found.argmax(0)) > 0).all()
    assert not found[0].any()
    with pytest.raises(GraphValueError, match="positive"):
        signal.linear_to_mel_weight_matrix(0)
    with pytest.raises(GraphValueError, match="lower_edge_hertz"):
        signal.linear_to_mel_weight_matrix(lower_edge_hertz=5000.0)
