"""Cross entropies of sequences given as lists of steps, and models with buckets for sequences of similar lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aioexec.errors import GraphValueError
from aioexec.graph.node import Tensor
from aioexec.ops.array.arrays import reshape
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.math.arithmetic import add_n
from aioexec.ops.math.cast import cast
from aioexec.ops.nn.cross_entropy import sparse_softmax_cross_entropy_with_logits
from aioexec.ops.reduction.reductions import reduce_sum
from aioexec.ops.state.variable_scope import get_variable_scope, variable_scope

LossFunction = Callable[..., Any]


def sequence_loss_by_example(
    logits: Sequence[Any],
    targets: Sequence[Any],
    weights: Sequence[Any],
    average_across_timesteps: bool = True,
    softmax_loss_function: LossFunction | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the weighted cross entropy of each sequence, `[batch]`.

    Args:
        logits: `[batch, symbols]` for each step.
        targets: integer vector of the batch for each step.
        weights: vector of the batch for each step, in the dtype of the logits.
        average_across_timesteps: divide by the sum of the sequence's weights.
        softmax_loss_function: called with `labels` and `logits` of a step, in place of the sparse softmax cross entropy.

    Raises:
        GraphValueError: the lists differ in their lengths.
    """
    if not len(targets) == len(weights) == len(logits):
        raise GraphValueError(
            f"Lengths of logits, weights, and targets must be the same {len(logits)}, {len(weights)}, {len(targets)}."
        )
    with op_scope(name, "sequence_loss_by_example", *logits, *targets, *weights):
        losses = []
        for logit, target, weight in zip(logits, targets, weights, strict=True):
            if softmax_loss_function is None:
                target = reshape(target, [-1])
                loss = sparse_softmax_cross_entropy_with_logits(labels=target, logits=logit)
            else:
                loss = softmax_loss_function(labels=target, logits=logit)
            losses.append(loss * weight)
        total = add_n(losses)
        return total / (add_n(weights) + 1e-12) if average_across_timesteps else total


def sequence_loss(
    logits: Sequence[Any],
    targets: Sequence[Any],
    weights: Sequence[Any],
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    softmax_loss_function: LossFunction | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the sum of `sequence_loss_by_example` over the batch, a scalar.

    Args:
        average_across_batch: divide by the batch size.

    Raises:
        GraphValueError: the lists differ in their lengths.
    """
    with op_scope(name, "sequence_loss", *logits, *targets, *weights):
        cost = reduce_sum(
            sequence_loss_by_example(
                logits, targets, weights, average_across_timesteps, softmax_loss_function
            )
        )
        return cost / cast(shape(targets[0])[0], cost.dtype) if average_across_batch else cost


def model_with_buckets(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    targets: Sequence[Any],
    weights: Sequence[Any],
    buckets: Sequence[tuple[int, int]],
    seq2seq: Callable[[Any, Any], tuple[Any, Any]],
    softmax_loss_function: LossFunction | None = None,
    per_example_loss: bool = False,
    name: str | None = None,
) -> tuple[list[Any], list[Tensor]]:
    """Build a model for each bucket of sequences; all share their variables.

    Args:
        encoder_inputs, decoder_inputs: an input for each step of the longest sequences.
        targets, weights: as for `sequence_loss`.
        buckets: the numbers of steps of encoder and decoder for each bucket, in increasing order.
        seq2seq: function of the encoder's and the decoder's inputs that returns outputs and a state.
        per_example_loss: the losses are vectors of the batch.

    Returns:
        The outputs and the loss for each bucket.

    Raises:
        GraphValueError: a list is shorter than the last bucket.
    """
    for what, given, needed in (
        ("encoder_inputs", encoder_inputs, buckets[-1][0]),
        ("targets", targets, buckets[-1][1]),
        ("weights", weights, buckets[-1][1]),
    ):
        if len(given) < needed:
            raise GraphValueError(
                f"Length of {what} ({len(given)}) must be at least that of last bucket ({needed})."
            )
    loss_of = sequence_loss_by_example if per_example_loss else sequence_loss
    outputs, losses = [], []
    with op_scope(name, "model_with_buckets", *encoder_inputs, *decoder_inputs, *targets, *weights):
        for k, (encoded, decoded) in enumerate(buckets):
            with variable_scope(get_variable_scope(), reuse=True if k else None):
                found, _ = seq2seq(encoder_inputs[:encoded], decoder_inputs[:decoded])
                outputs.append(found)
                losses.append(
                    loss_of(
                        found,
                        targets[:decoded],
                        weights[:decoded],
                        softmax_loss_function=softmax_loss_function,
                    )
                )
    return outputs, losses
