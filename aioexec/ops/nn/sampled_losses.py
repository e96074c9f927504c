"""Losses over many classes that evaluate sampled classes only: noise-contrastive estimation and sampled softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.nn.cross_entropy import sigmoid_cross_entropy_with_logits, softmax_cross_entropy_with_logits
from aioexec.ops.nn.embedding import embedding_lookup
from aioexec.ops.random.candidate_samplers import compute_accidental_hits, log_uniform_candidate_sampler
from aioexec.ops.reduction.reductions import reduce_sum

SampledValues = tuple[Any, Any, Any]


def _rows(value: Tensor, first: Any, count: Any) -> Tensor:
    """Return `count` rows of a matrix from `first` on (-1: all)."""
    begin, size = apply_op("Pack", [first, 0]), apply_op("Pack", [count, -1])
    return apply_op("Slice", value, begin, size)


def _entries(value: Tensor, first: Any, count: Any) -> Tensor:
    begin, size = apply_op("ExpandDims", first, 0), apply_op("ExpandDims", count, 0)
    return apply_op("Slice", value, begin, size)


def _sum_rows(x: Tensor) -> Tensor:
    return reduce_sum(x, 1)


def _compute_sampled_logits(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int,
    sampled_values: SampledValues | None,
    subtract_log_q: bool,
    remove_accidental_hits: bool,
    partition_strategy: str,
    seed: int | None,
) -> tuple[Tensor, Tensor]:
    """Return the logits of true and sampled classes, and the labels of both."""
    truth = convert_to_tensor(labels)
    if truth.dtype.base_dtype != dtypes.int64:
        truth = apply_op("Cast", truth, DstT=dtypes.int64)
    flat = apply_op("Reshape", truth, constant(np.array([-1], np.int32)))
    if sampled_values is None:
        sampled_values = log_uniform_candidate_sampler(truth, num_true, num_sampled, True, num_classes, seed)
    sampled, true_expected, sampled_expected = (apply_op("StopGradient", each) for each in sampled_values)
    sampled = sampled if sampled.dtype == dtypes.int64 else apply_op("Cast", sampled, DstT=dtypes.int64)
    all_ids = apply_op("ConcatV2", [flat, sampled], 0)
    all_weights = embedding_lookup(weights, all_ids, partition_strategy)
    all_biases = embedding_lookup(biases, all_ids, partition_strategy)
    count = apply_op("Size", flat)
    x = convert_to_tensor(inputs)
    sampled_logits = apply_op("MatMul", x, _rows(all_weights, count, -1), transpose_b=True)
    sampled_logits = apply_op("AddV2", sampled_logits, _entries(all_biases, count, -1))
    true_logits = _true_logits(x, _rows(all_weights, 0, count), _entries(all_biases, 0, count), num_true)
    if remove_accidental_hits:
        sampled_logits = _suppress_hits(sampled_logits, truth, sampled, num_true)
    if subtract_log_q:
        true_logits = apply_op("Sub", true_logits, apply_op("Log", true_expected))
        sampled_logits = apply_op("Sub", sampled_logits, apply_op("Log", sampled_expected))
    share = apply_op("Div", apply_op("OnesLike", true_logits), float(num_true))
    out_labels = apply_op("ConcatV2", [share, apply_op("ZerosLike", sampled_logits)], 1)
    return apply_op("ConcatV2", [true_logits, sampled_logits], 1), out_labels


def _true_logits(inputs: Tensor, weights: Tensor, biases: Tensor, num_true: int) -> Tensor:
    width = apply_op("StridedSlice", apply_op("Shape", weights), [1], [2], [1])
    grouped = apply_op("ConcatV2", [constant(np.array([-1, num_true], np.int32)), width], 0)
    products = apply_op("Mul", apply_op("ExpandDims", inputs, 1), apply_op("Reshape", weights, grouped))
    flat = apply_op("Reshape", products, apply_op("ConcatV2", [constant(np.array([-1], np.int32)), width], 0))
    shape = constant(np.array([-1, num_true], np.int32))
    logits = apply_op("Reshape", _sum_rows(flat), shape)
    return apply_op("AddV2", logits, apply_op("Reshape", biases, shape))


def _suppress_hits(logits: Tensor, truth: Tensor, sampled: Tensor, num_true: int) -> Tensor:
    """Lower the logits of sampled classes that are true classes so far that they have no effect."""
    rows, ids, lowered = compute_accidental_hits(truth, sampled, num_true)
    column = constant(np.array([-1, 1], np.int32))
    places = apply_op(
        "ConcatV2",
        [
            apply_op("Cast", apply_op("Reshape", rows, column), DstT=dtypes.int64),
            apply_op("Reshape", ids, column),
        ],
        1,
    )
    if lowered.dtype.base_dtype != logits.dtype.base_dtype:
        lowered = apply_op("Cast", lowered, DstT=logits.dtype.base_dtype)
    shape = apply_op("Shape", logits, out_type=dtypes.int64)
    return apply_op("AddV2", logits, apply_op("ScatterNd", places, lowered, shape))


def nce_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: SampledValues | None = None,
    remove_accidental_hits: bool = False,
    partition_strategy: str = "mod",
    name: str = "nce_loss",
) -> Tensor:
    """Return the noise-contrastive loss of each example: a binary classification of true and sampled classes.

    Args:
        weights, biases: weights and biases of all classes; weights may be partitioned.
        labels: the true classes, [batch, num_true].
        sampled_values: the result of a candidate sampler; by default `log_uniform_candidate_sampler`.
    """
    with op_scope(name, "nce_loss", weights, biases, labels, inputs):
        logits, truth = _compute_sampled_logits(
            *(weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values),
            subtract_log_q=True,
            remove_accidental_hits=remove_accidental_hits,
            partition_strategy=partition_strategy,
            seed=None,
        )
        return _sum_rows(
            sigmoid_cross_entropy_with_logits(labels=truth, logits=logits, name="sampled_losses")
        )


def sampled_softmax_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: SampledValues | None = None,
    remove_accidental_hits: bool = True,
    partition_strategy: str = "mod",
    name: str = "sampled_softmax_loss",
    seed: int | None = None,
) -> Tensor:
    """Return the cross entropy of each example over true and sampled classes; arguments as for `nce_loss`."""
    with op_scope(name, "sampled_softmax_loss", weights, biases, labels, inputs):
        logits, truth = _compute_sampled_logits(
            *(weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values),
            subtract_log_q=True,
            remove_accidental_hits=remove_accidental_hits,
            partition_strategy=partition_strategy,
            seed=seed,
        )
        fixed = apply_op("StopGradient", truth, name="labels_stop_gradient")
        return softmax_cross_entropy_with_logits(labels=fixed, logits=logits)
