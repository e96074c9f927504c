"""Monotonic attention: alignments that only move forward in the memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.contrib.seq2seq.attention import BahdanauMechanism, LuongMechanism
from aioexec.errors import GraphValueError
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.ops.array.arrays import reshape, transpose
from aioexec.ops.array.filling import one_hot, ones, zeros
from aioexec.ops.array.joining import concat
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.functions.map_and_scan import scan
from aioexec.ops.math.arithmetic import add
from aioexec.ops.math.extremes import clip_by_value
from aioexec.ops.math.math_functions import exp, log, sigmoid
from aioexec.ops.random.random_ops import random_normal
from aioexec.ops.reduction.arg_reduction import argmax
from aioexec.ops.reduction.cumulative import cumprod, cumsum
from aioexec.ops.state.initializers import constant_initializer
from aioexec.ops.state.variable_scope import get_variable, variable_scope


def hardmax(logits: Any, name: str | None = None) -> Tensor:
    """Return one-hot vectors along the last dimension, with the 1 at the largest logit."""
    with op_scope(name, "Hardmax", logits):
        logits = convert_to_tensor(logits, name="logits")
        static = logits.shape[-1].value
        depth = shape(logits)[-1] if static is None else static
        return one_hot(argmax(logits, -1), depth, dtype=logits.dtype)


def safe_cumprod(x: Any, *args: Any, **kwargs: Any) -> Tensor:
    """Return the cumulative product of numbers in [0, 1] as the exponential of a sum of logarithms; arguments as `cumprod`."""
    with op_scope(None, "SafeCumprod", x):
        x = convert_to_tensor(x, name="x")
        tiny = float(np.finfo(x.dtype.as_numpy_dtype).tiny)
        return exp(cumsum(log(clip_by_value(x, tiny, 1)), *args, **kwargs))


def monotonic_attention(p_choose_i: Any, previous_attention: Any, mode: str) -> Tensor:
    """Return the distribution of the step that is chosen next, `[batch, steps]`.

    From the step that was chosen last, the steps are passed from left to right, and each is chosen with its probability.

    Args:
        p_choose_i: probability to choose each step, `[batch, steps]`.
        previous_attention: distribution of the step that was chosen last, `[batch, steps]`; at first all of it on step 0.
        mode: "recursive", exact, in a loop; "parallel", by cumulative sums, inexact near probabilities of 0 and 1; or "hard",
            exact if all probabilities are 0 or 1.

    Raises:
        GraphValueError: the mode is another one.
    """
    p = convert_to_tensor(p_choose_i, name="p_choose_i")
    previous = convert_to_tensor(previous_attention, name="previous_attention")
    modes = {"recursive": _recursive, "parallel": _parallel, "hard": _hard}
    if mode not in modes:
        raise GraphValueError("mode must be 'recursive', 'parallel', or 'hard'.")
    return modes[mode](p, previous)


def _recursive(p: Tensor, previous: Tensor) -> Tensor:
    """By q[i] = (1 - p[i - 1]) q[i - 1] + previous[i], the probability to reach the step i."""
    static = p.shape[0].value
    batch = shape(p)[0] if static is None else static
    passed = concat([ones([batch, 1], p.dtype), 1 - p[:, :-1]], 1)
    reached = scan(
        lambda q, step: reshape(step[0] * q + step[1], [batch]),
        [transpose(passed), transpose(previous)],
        zeros([batch], p.dtype),
    )
    return p * transpose(reached)


def _parallel(p: Tensor, previous: Tensor) -> Tensor:
    passed = safe_cumprod(1 - p, axis=1, exclusive=True)
    return p * passed * cumsum(previous / clip_by_value(passed, 1e-10, 1.0), axis=1)


def _hard(p: Tensor, previous: Tensor) -> Tensor:
    p = p * cumsum(previous, axis=1)
    return p * cumprod(1 - p, axis=1, exclusive=True)


def _probabilities(sigmoid_noise: float, seed: int | None, mode: str) -> Callable[[Any, Any], Any]:
    """Return the function of scores and last alignments that returns the next ones."""

    def probabilities(scores: Tensor, previous: Any) -> Tensor:
        if sigmoid_noise > 0:
            scores = scores + sigmoid_noise * random_normal(shape(scores), dtype=scores.dtype, seed=seed)
        return monotonic_attention(sigmoid(scores), previous, mode)

    return probabilities


def _first_step(steps: Any, batch_size: Any, dtype: Any) -> Tensor:
    """Return distributions that are on the step 0."""
    return one_hot(zeros([batch_size], dtypes.int32), steps, dtype=dtype)


def _biased(scores: Tensor, initial: float, dtype: Any) -> Tensor:
    return add(scores, get_variable("attention_score_bias", [], dtype, constant_initializer(initial)))


class BahdanauMonotonicAttention(BahdanauMechanism):
    """Monotonic attention with the scores of `BahdanauAttention`, plus a bias.

    Variables: as `BahdanauAttention`, in the scope `bahdanau_monotonic_attention`, and the scalar `attention_score_bias`.

    Args:
        num_units, memory, memory_sequence_length, normalize, score_mask_value, dtype: as for `BahdanauAttention`.
        sigmoid_noise: standard deviation of noise added to scores; it drives probabilities towards 0 and 1.
        sigmoid_noise_seed: seed of the noise.
        score_bias_init: the bias at first.
        mode: as for `monotonic_attention`.

    Raises:
        GraphValueError: a dimension of the memory is unknown, or (in a call) the mode.
    """

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        normalize: bool = False,
        score_mask_value: Any = None,
        sigmoid_noise: float = 0.0,
        sigmoid_noise_seed: int | None = None,
        score_bias_init: float = 0.0,
        mode: str = "parallel",
        dtype: Any = None,
        name: str = "BahdanauMonotonicAttention",
    ) -> None:
        super().__init__(
            num_units,
            memory,
            _probabilities(sigmoid_noise, sigmoid_noise_seed, mode),
            memory_sequence_length,
            normalize,
            score_mask_value,
            dtype,
            None,
            name,
        )
        self._score_bias_init = score_bias_init

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Any:
        """Return alignments that are on the step 0."""
        return _first_step(self._alignments_size, batch_size, dtype)

    def __call__(self, query: Any, state: Any) -> tuple[Any, Any]:
        with variable_scope(None, "bahdanau_monotonic_attention", [query]):
            scores = _biased(self._scores(query), self._score_bias_init, query.dtype)
        alignments = self._alignments(scores, state)
        return alignments, alignments


class LuongMonotonicAttention(LuongMechanism):
    """Monotonic attention with the scores of `LuongAttention`, plus a bias.

    Variables: as `LuongAttention`, in the scope `luong_monotonic_attention`, and the scalar `attention_score_bias`.

    Args:
        num_units, memory, memory_sequence_length, scale, score_mask_value, dtype: as for `LuongAttention`.
        sigmoid_noise, sigmoid_noise_seed, score_bias_init, mode: as for `BahdanauMonotonicAttention`.

    Raises:
        GraphValueError: a dimension of the memory is unknown, or (in a call) the mode, or the query has another depth.
    """

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        scale: bool = False,
        score_mask_value: Any = None,
        sigmoid_noise: float = 0.0,
        sigmoid_noise_seed: int | None = None,
        score_bias_init: float = 0.0,
        mode: str = "parallel",
        dtype: Any = None,
        name: str = "LuongMonotonicAttention",
    ) -> None:
        super().__init__(
            num_units,
            memory,
            _probabilities(sigmoid_noise, sigmoid_noise_seed, mode),
            memory_sequence_length,
            scale,
            score_mask_value,
            dtype,
            None,
            name,
        )
        self._score_bias_init = score_bias_init

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Any:
        """Return alignments that are on the step 0."""
        return _first_step(self._alignments_size, batch_size, dtype)

    def __call__(self, query: Any, state: Any) -> tuple[Any, Any]:
        with variable_scope(None, "luong_monotonic_attention", [query]):
            scores = _biased(self._scores(query), self._score_bias_init, query.dtype)
        alignments = self._alignments(scores, state)
        return alignments, alignments
