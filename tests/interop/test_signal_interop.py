"""Frames, windows and short-time spectra against TensorFlow's: values and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.interop.building import Built, values
from tests.interop.train.engines import compare

pytestmark = pytest.mark.interop

PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "frame": lambda tf, x: tf.signal.frame(x, 5, 3),
    "frame with padding": lambda tf, x: tf.signal.frame(x, 5, 3, pad_end=True, pad_value=2.0),
    "frame of the first axis": lambda tf, x: tf.signal.frame(x, 2, 1, axis=0),
    "overlap_and_add": lambda tf, x: tf.signal.overlap_and_add(tf.reshape(x, [2, 5, 4]), 3),
    "stft": lambda tf, x: tf.abs(tf.signal.stft(x, 8, 4)),
    "stft with padding": lambda tf, x: tf.real(tf.signal.stft(x, 6, 4, fft_length=16, pad_end=True)),
    "inverse_stft": lambda tf, x: tf.signal.inverse_stft(
        tf.signal.stft(x, 8, 4), 8, 4, window_fn=tf.signal.inverse_stft_window_fn(4)
    ),
    "hann_window": lambda tf, x: x[:, :7] * tf.signal.hann_window(7),
    "hamming_window": lambda tf, x: x[:, :8] * tf.signal.hamming_window(8, periodic=False),
    "linear_to_mel_weight_matrix": lambda tf, x: tf.matmul(x, tf.signal.linear_to_mel_weight_matrix(5, 20)),
}


@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_program_on_signals_agrees_with_tensorflow(tf: Any, name: str):
    def build(tf: Any) -> Built:
        x = tf.placeholder(tf.float32, [2, 20])
        made = PROGRAMS[name](tf, x)
        return Built(
            [made, *map(tf.convert_to_tensor, tf.gradients(tf.reduce_sum(tf.sin(made)), [x]))],
            [{x: values(1, 2, 20)}],
            tolerance=50,
        )

    assert await compare(tf, build, 50.0) == []
