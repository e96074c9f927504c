"""Connectionist temporal classification: the op CTCLoss, whose second output is the gradient of its first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.kernels.kernel import (
    Attrs,
    Compute,
    KernelContext,
    Launch,
    Launches,
    LoopKernel,
    Native,
    Operand,
    Spec,
)
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register
from aioexec.ops.common.elementwise import FLOATS
from aioexec.ops.nn.ctc_loops import ctc_losses
from aioexec.shapes import Dims, compatible, merge, with_rank

Array = np.ndarray[Any, Any]


def loss_dims(context: ShapeContext) -> Sequence[Dims]:
    logits, places = with_rank(context.inputs[0], 3), with_rank(context.inputs[1], 2)
    labels, lengths = with_rank(context.inputs[2], 1), with_rank(context.inputs[3], 1)
    assert logits is not None
    assert places is not None
    merge(places[:1], labels)
    if not compatible(places[1:], (2,)):
        raise GraphValueError(f"labels_indices must have 2 columns, got shape {places}")
    batch = merge(logits[1:2], lengths)
    assert batch is not None
    return [batch, (logits[0], *batch, logits[2])]


def check_shapes(logits: Array, places: Array, labels: Array, lengths: Array) -> None:
    """Raise InvalidArgumentError for ranks and sizes that do not fit."""
    if logits.ndim != 3 or 0 in logits.shape:
        raise InvalidArgumentError(f"inputs is not a 3-Tensor with elements, got shape {list(logits.shape)}")
    if lengths.shape != logits.shape[1:2]:
        raise InvalidArgumentError(
            f"sequence_length must have {logits.shape[1]} elements, got shape {list(lengths.shape)}"
        )
    if labels.ndim != 1 or places.shape != (len(labels), 2):
        raise InvalidArgumentError(
            f"labels_indices must be [{labels.size}, 2], got {list(places.shape)} for labels {list(labels.shape)}"
        )


def path_of(labels: Array, classes: int, collapses: bool) -> Array:
    """Return the labels with blanks before, between and after them.

    Raises:
        InvalidArgumentError: a label is negative, or comes after one that is no class.
    """
    if collapses:
        labels = labels[np.concatenate([[True], labels[1:] != labels[:-1]])]
    is_null = labels >= classes - 1
    kept = labels[~is_null]
    if is_null[:-1].any() and not is_null[np.argmax(is_null) :].all():
        raise InvalidArgumentError(MESSAGES[3])
    if (kept < 0).any():
        raise InvalidArgumentError(MESSAGES[4])
    path = np.full(2 * len(kept) + 1, classes - 1)
    path[1::2] = kept
    return path


MESSAGES = (
    "labels_indices must be ordered by batch, and in the batch",
    "sequence_length(b) must be in [0, max_time]",
    "Labels length is zero in batch",
    "Saw a non-null label (index >= num_classes - 1) following a null label",
    "All labels must be nonnegative integers",
    "Not enough time for target transition sequence. You can turn this error into a warning by using the flag "
    "ignore_longer_outputs_than_inputs",
)
"""The messages of the statuses of `ctc_losses`."""


def moved(row: Array, count: int) -> Array:
    """Return the row shifted to the right, or left for a negative count, filled with log 0."""
    result = np.full_like(row, -np.inf)
    if abs(count) < len(row):
        result[max(count, 0) : len(row) + min(count, 0)] = row[max(-count, 0) : len(row) - max(count, 0)]
    return result


def sequence_loss(logs: Array, path: Array, merges: bool) -> tuple[float, Array]:
    """Return the loss of one sequence and its gradient, for log probabilities [steps, classes]."""
    steps, blank = len(logs), logs.shape[1] - 1
    stays = np.where((path == blank) | merges, 0.0, -np.inf)
    may_skip = path != blank
    may_skip[2:] &= ~((path[2:] == path[:-2]) & merges)
    skips = np.where(may_skip, 0.0, -np.inf)  # from two places before to here
    heard = logs[:, path]
    alpha, beta = np.full((2, steps, len(path)), -np.inf)
    alpha[0, :2], beta[-1, -2:] = heard[0, :2], 0.0
    for t in range(1, steps):
        before = alpha[t - 1]
        ways = [before + stays, moved(before, 1), moved(before, 2) + skips]
        alpha[t] = np.logaddexp.reduce(ways) + heard[t]
    for t in reversed(range(steps - 1)):
        after = beta[t + 1] + heard[t + 1]
        beta[t] = np.logaddexp.reduce([after + stays, moved(after, -1), moved(after + skips, -2)])
    total = np.logaddexp.reduce(alpha[-1, -2:])
    gradient = np.exp(logs)
    if np.isneginf(total):
        return np.inf, gradient
    shares = np.exp(alpha + beta - total)
    for place, label in enumerate(path):
        gradient[:, label] -= shares[:, place]
    return -float(total), gradient


def loss_kernel(context: KernelContext) -> Compute:
    attrs = context.attrs
    collapses, merges = attrs["preprocess_collapse_repeated"], bool(attrs["ctc_merge_repeated"])

    def compute(logits: Array, places: Array, labels: Array, lengths: Array) -> tuple[Array, Array]:
        check_shapes(logits, places, labels, lengths)
        steps, batch, classes = logits.shape
        losses, gradient = np.zeros(batch), np.zeros(logits.shape)
        if (np.diff(places[:, 0]) < 0).any() or ((places[:, 0] < 0) | (places[:, 0] >= batch)).any():
            raise InvalidArgumentError(MESSAGES[0])
        for b, length in enumerate(lengths):
            own = labels[places[:, 0] == b]
            if not 0 <= length <= steps:
                raise InvalidArgumentError(MESSAGES[1])
            if not own.size:
                raise InvalidArgumentError(MESSAGES[2])
            if own.size > length:
                if not attrs["ignore_longer_outputs_than_inputs"]:
                    raise InvalidArgumentError(MESSAGES[5])
                continue
            scores = logits[:length, b].astype(np.float64)
            scores -= scores.max(axis=1, keepdims=True)
            logs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
            with np.errstate(divide="ignore", invalid="ignore"):
                losses[b], gradient[:length, b] = sequence_loss(
                    logs, path_of(own, classes, collapses), merges
                )
        return losses.astype(logits.dtype), gradient.astype(logits.dtype)

    return compute


def bind_loss(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    logits, places, labels, lengths = inputs
    name = logits.dtype.name
    if (
        name not in FLOATS
        or logits.size == 0
        or lengths.shape != logits.shape[1:2]
        or places.shape != (labels.size, 2)
    ):
        return None
    steps, batch, classes = logits.shape
    longest = 2 * min(labels.size, steps) + 1
    flags = ("preprocess_collapse_repeated", "ctc_merge_repeated", "ignore_longer_outputs_than_inputs")
    kernel = LoopKernel(ctc_losses, (name, "int64", "int32", "int32", name, name, name, "int32"), 7, 0)
    memory = (
        *(Operand("input", k) for k in range(4)),
        *(Operand("output", k) for k in range(2)),
        *(Operand("scratch", k) for k in range(2)),
    )
    words = (steps, batch, classes, labels.size, *(int(attrs[flag]) for flag in flags))
    average = 2 * labels.size // batch + 1
    cost = 100 + steps * batch * (classes * 20 + average * 100)
    room = (steps * (classes + longest) + 2 * longest) * logits.dtype.itemsize
    return Launches((Launch(kernel, memory, words, cost=cost),), (room, 4 * longest))


def loss_gradient(op: Operation, d_loss: Tensor, _: Tensor | None) -> Sequence[Tensor | None]:
    """Scale the second output, which has no gradient of its own."""
    message = "Currently there is no way to take the second derivative of ctc_loss"
    slopes = apply_op("PreventGradient", op.outputs[1], message=message)
    return [apply_op("Mul", apply_op("ExpandDims", d_loss, -1), slopes), None, None, None]


register(
    "CTCLoss(inputs:T, labels_indices:int64, labels_values:int32, sequence_length:int32) -> (loss:T, gradient:T) "
    "[preprocess_collapse_repeated:bool=false; ctc_merge_repeated:bool=true; "
    "ignore_longer_outputs_than_inputs:bool=false; T:type{float|double}=float]",
    shape=loss_dims,
    kernel=loss_kernel,
    gradient=loss_gradient,
    native=Native(bind_loss, FLOATS, tuple((InvalidArgumentError, message) for message in MESSAGES)),
)
