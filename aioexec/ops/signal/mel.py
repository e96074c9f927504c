"""The mel scale, on which tones at equal distances sound equally far apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.convert import constant
from aioexec.graph.node import Tensor

_BREAK_HERTZ, _FACTOR = 700.0, 1127.0


def _mel(hertz: Any) -> Any:
    return _FACTOR * np.log1p(np.asarray(hertz, np.float64) / _BREAK_HERTZ)


def linear_to_mel_weight_matrix(
    num_mel_bins: int = 20,
    num_spectrogram_bins: int = 129,
    sample_rate: float = 8000,
    lower_edge_hertz: float = 125.0,
    upper_edge_hertz: float = 3800.0,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Return the matrix [num_spectrogram_bins, num_mel_bins] that turns linear spectra into mel ones.

    Each band is a triangle on the mel scale; the bands are equally spaced between the edges.

    Raises:
        GraphValueError: a number is not positive, or the edges are not in order within half of the sample rate.
    """
    if num_mel_bins <= 0 or num_spectrogram_bins <= 0 or sample_rate <= 0:
        raise GraphValueError("num_mel_bins, num_spectrogram_bins and sample_rate must be positive")
    if not 0.0 <= lower_edge_hertz < upper_edge_hertz <= sample_rate / 2:
        raise GraphValueError(
            f"lower_edge_hertz {lower_edge_hertz} >= upper_edge_hertz {upper_edge_hertz}, or outside of the spectrum"
        )
    bins = _mel(np.linspace(0.0, sample_rate / 2, num_spectrogram_bins)[1:])[:, np.newaxis]
    edges = np.linspace(_mel(lower_edge_hertz), _mel(upper_edge_hertz), num_mel_bins + 2)
    low, center, high = edges[:-2], edges[1:-1], edges[2:]
    slopes = np.minimum((bins - low) / (center - low), (high - bins) / (high - center))
    weights = np.concatenate([np.zeros((1, num_mel_bins)), np.maximum(0.0, slopes)])
    return constant(weights, dtypes.as_dtype(dtype), name=name or "linear_to_mel_weight_matrix")
