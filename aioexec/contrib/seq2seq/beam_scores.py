"""The scores by which a beam search compares sequences of different lengths."""

from __future__ import annotations

from typing import Any

from aioexec.errors import GraphValueError
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.static_values import constant_value
from aioexec.ops.array.arrays import expand_dims
from aioexec.ops.array.filling import one_hot, ones_like
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.math.arithmetic import pow as power
from aioexec.ops.math.cast import cast
from aioexec.ops.math.comparison import equal, where, where_v2
from aioexec.ops.math.extremes import minimum
from aioexec.ops.math.math_functions import log
from aioexec.ops.reduction.reductions import reduce_all, reduce_sum


def masked_log_probs(log_probs: Tensor, end_token: Tensor, finished: Tensor) -> Tensor:
    """Return log-probabilities `[batch, beams, symbols]`; a finished beam continues with the end token only."""
    dtype = log_probs.dtype
    ended = one_hot(
        end_token,
        shape(log_probs)[2],
        on_value=constant(0.0, dtype),
        off_value=constant(dtype.min, dtype),
        dtype=dtype,
    )
    return where_v2(expand_dims(finished, 2), ended, log_probs)


class Penalties:
    """The penalties of a search.

    Args:
        length: power of (5 + length) / 6 by which log-probabilities are divided.
        coverage: weight of the sum of log(min(a, 1)) over the steps of the memory that have been read, a: how much.

    Raises:
        GraphValueError: a weight is no scalar.
    """

    def __init__(self, length: Any, coverage: Any) -> None:
        self._length = convert_to_tensor(length, name="penalty_factor")
        self._coverage = convert_to_tensor(coverage, name="coverage_penalty_weight")
        for name, weight in (("length", self._length), ("coverage", self._coverage)):
            if weight.shape.ndims:
                raise GraphValueError(
                    f"{name}_penalty_weight should be a scalar, but saw shape: {weight.shape}"
                )

    @property
    def has_coverage(self) -> bool:
        """Whether the weight of the coverage may differ from 0."""
        return constant_value(self._coverage) != 0

    def scores(self, log_probs: Tensor, lengths: Tensor, finished: Tensor, attention: Any) -> Tensor:
        """Return the scores `[batch, beams, symbols]`.

        Args:
            log_probs: `[batch, beams, symbols]`.
            lengths: the lengths of the continuations, like `log_probs`.
            finished: which beams are finished, `[batch, beams]`.
            attention: sums of alignments, `[batch, beams, memory steps]`, for a coverage penalty.

        Raises:
            GraphValueError: there are no alignments for a coverage penalty.
        """
        dtype = log_probs.dtype
        scores = log_probs
        if constant_value(self._length) != 0:
            ratio = (5.0 + cast(lengths, dtype)) / 6.0
            scores = scores / power(ratio, cast(self._length, dtype))
        if not self.has_coverage:
            return scores
        if isinstance(attention, tuple):
            raise GraphValueError(
                "accumulated_attention_probs can be None only if coverage penalty is disabled."
            )
        read = where(equal(attention, 0.0), ones_like(attention), attention)
        coverage = reduce_sum(log(minimum(read, 1.0)), 2)
        is_done = cast(reduce_all(finished, axis=1, keepdims=True), dtype)
        return scores + expand_dims(coverage * is_done * cast(self._coverage, dtype), 2)
