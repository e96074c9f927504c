"""The cross entropy of sequences given as one tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aioexec.errors import GraphValueError
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.ops.array.arrays import reshape
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.math.binary_functions import div_no_nan
from aioexec.ops.math.cast import cast
from aioexec.ops.nn.cross_entropy import sparse_softmax_cross_entropy_with_logits
from aioexec.ops.reduction.reductions import reduce_sum
from aioexec.ops.reduction.statistics import count_nonzero


def sequence_loss(
    logits: Any,
    targets: Any,
    weights: Any,
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    sum_over_timesteps: bool = False,
    sum_over_batch: bool = False,
    softmax_loss_function: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the weighted cross entropy of sequences: a scalar, or a vector of the steps or of the batch.

    Losses are summed over the dimensions that one of the flags names. Averages are divided by the sum of the weights there,
    sums by the number of weights that are not zero. Without any flag the losses are `[batch, steps]`.

    Args:
        logits: `[batch, steps, symbols]`.
        targets: integers `[batch, steps]`.
        weights: `[batch, steps]`, in the dtype of the logits.
        average_across_timesteps, average_across_batch: average over this dimension.
        sum_over_timesteps, sum_over_batch: sum over this dimension.
        softmax_loss_function: called with `labels` and `logits` in place of the sparse softmax cross entropy.

    Raises:
        GraphValueError: a rank is wrong, or a dimension is to be both averaged and summed.
    """
    logits, targets, weights = (convert_to_tensor(each) for each in (logits, targets, weights))
    _check(logits, targets, weights)
    for dimension, averaged, summed in (
        ("timesteps", average_across_timesteps, sum_over_timesteps),
        ("batch", average_across_batch, sum_over_batch),
    ):
        if averaged and summed:
            raise GraphValueError(
                f"average_across_{dimension} and sum_over_{dimension} cannot be set to True at same time."
            )
    if (average_across_batch and sum_over_timesteps) or (average_across_timesteps and sum_over_batch):
        raise GraphValueError("one dimension cannot be averaged while the other one is summed")
    with op_scope(name, "sequence_loss", logits, targets, weights):
        flat = reshape(logits, [-1, shape(logits)[2]])
        loss = softmax_loss_function or sparse_softmax_cross_entropy_with_logits
        losses = loss(labels=reshape(targets, [-1]), logits=flat) * reshape(weights, [-1])
        losses = reshape(losses, shape(logits)[:2])
        averages, sums = (
            average_across_timesteps or average_across_batch,
            sum_over_timesteps or sum_over_batch,
        )
        if not averages and not sums:
            return losses
        axes = [0] * (average_across_batch or sum_over_batch) + [1] * (
            average_across_timesteps or sum_over_timesteps
        )
        divisor = reduce_sum(weights, axes) if averages else cast(count_nonzero(weights, axes), losses.dtype)
        return div_no_nan(reduce_sum(losses, axes), divisor)


def _check(logits: Tensor, targets: Tensor, weights: Tensor) -> None:
    for tensor, rank, text in (
        (logits, 3, "Logits must be a [batch_size x sequence_length x logits] tensor"),
        (targets, 2, "Targets must be a [batch_size x sequence_length] tensor"),
        (weights, 2, "Weights must be a [batch_size x sequence_length] tensor"),
    ):
        if tensor.dims is None or len(tensor.dims) != rank:
            raise GraphValueError(f"{text}, got shape {tensor.shape}")
