"""Heads: what a model makes of its logits. A head computes predictions, the loss, and the metrics of an evaluation.

A head has three parts of its own, which subclasses define: `predictions`, `unweighted_loss` and `metrics`. Weights of examples,
the reduction of the loss, summaries and the training op are the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from aioexec import dtypes
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.estimator.export_outputs import (
    ExportOutput,
    PredictOutput,
)
from aioexec.estimator.modes import ModeKeys
from aioexec.estimator.specification import AVERAGE_LOSS_METRIC_KEY, LOSS_METRIC_KEY, EstimatorSpec
from aioexec.feature_column.columns import ColumnScope, DenseColumn, Features
from aioexec.feature_column.numeric import numeric_column
from aioexec.graph.apply import apply_op
from aioexec.graph.graph import get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Tensor
from aioexec.graph.sparse_tensor import SparseTensor, convert_to_tensor_or_sparse_tensor
from aioexec.ops.array.arrays import expand_dims
from aioexec.ops.array.identity import identity
from aioexec.ops.control_flow.checks import assert_equal
from aioexec.ops.control_flow.dependencies import group
from aioexec.ops.io.summary_functions import scalar
from aioexec.ops.math.cast import cast
from aioexec.ops.reduction.reductions import reduce_sum
from aioexec.ops.training.losses import Reduction, compute_weighted_loss
from aioexec.ops.training.metrics import mean
from aioexec.saved_model.signature_constants import DEFAULT_SERVING_SIGNATURE_DEF_KEY
from aioexec.train.global_steps import get_global_step
from aioexec.train.optimizers.optimizer import Optimizer

_PREDICT: Final = "predict"

Metrics = dict[str, Any]
"""From names of metrics to pairs (value, update)."""


class Evaluated(NamedTuple):
    """What metrics are computed of: labels as the loss has them, weights, and the loss of each example."""

    labels: Tensor
    predictions: Mapping[str, Tensor]
    weights: Any
    unweighted_loss: Tensor


class Head:
    """A head.

    Args:
        logits_dimension: the logits of an example.
        weight_column: the name of a feature, or a dense column, with the weights of examples; None: all are 1.
        loss_reduction: from the losses of the examples of a batch to its loss.

    Raises:
        GraphValueError: the reduction is unknown, or none.
    """

    serving_key: str
    """The signature of `served`, besides the default one."""

    label_dimension: int
    """The numbers in a label."""

    allows_weights_of_logits = False

    def __init__(self, logits_dimension: int, weight_column: Any, loss_reduction: str) -> None:
        if loss_reduction not in Reduction.all() or loss_reduction == Reduction.NONE:
            raise GraphValueError(f"Invalid loss_reduction: {loss_reduction}")
        self.logits_dimension = logits_dimension
        self._weight_column = weight_column
        self._loss_reduction = loss_reduction

    # For subclasses

    def predictions(self, logits: Tensor) -> dict[str, Tensor]:
        """The predictions by name."""
        raise NotImplementedError

    def served(self, predictions: Mapping[str, Tensor]) -> dict[str, ExportOutput]:
        """The outputs of an exported model, besides all predictions."""
        raise NotImplementedError

    def processed_labels(self, labels: Tensor) -> Tensor:
        """The labels as the loss and the metrics need them."""
        raise NotImplementedError

    def unweighted_loss(self, labels: Tensor, logits: Tensor) -> Tensor:
        """The loss of each example, with the rank of the logits."""
        raise NotImplementedError

    def metrics(self, evaluated: Evaluated) -> Metrics:
        """The metrics of an evaluation, besides the mean of the loss."""
        raise NotImplementedError

    # The model

    def create_estimator_spec(
        self,
        features: Mapping[str, Any],
        mode: str,
        logits: Tensor,
        labels: Any = None,
        optimizer: Optimizer | None = None,
        train_op_fn: Callable[[Tensor], Any] | None = None,
    ) -> EstimatorSpec:
        """The nodes of the model for a mode.

        Args:
            logits: [batch, ..., logits_dimension].
            optimizer: minimizes the loss; `train_op_fn` makes the training op itself.

        Raises:
            GraphValueError: the shape of the logits or labels is wrong, or there are no labels.
        """
        graph = get_default_graph()
        with graph.name_scope("head"):
            logits = _checked_logits(logits, self.logits_dimension)
            with graph.name_scope("predictions"):
                predictions = self.predictions(logits)
            if mode == ModeKeys.PREDICT:
                return EstimatorSpec(mode, predictions, export_outputs=self._export_outputs(predictions))
            labels = self.processed_labels(_checked_labels(labels, logits, self.label_dimension))
            each = self.unweighted_loss(labels, logits)
            weights = self._weights(features, logits)
            loss = compute_weighted_loss(each, weights=weights, reduction=self._loss_reduction)
            if mode == ModeKeys.EVAL:
                with graph.name_scope("metrics"):
                    evaluated = Evaluated(labels, predictions, weights, each)
                    metrics = {
                        AVERAGE_LOSS_METRIC_KEY: mean(each, weights=weights, name=AVERAGE_LOSS_METRIC_KEY),
                        **self.metrics(evaluated),
                    }
                return EstimatorSpec(mode, predictions, loss, eval_metric_ops=metrics)
            train_op = _train_op(loss, optimizer, train_op_fn)
            mean_loss = self._mean_loss(loss, each, weights)
        with graph.name_scope(None):
            scalar(LOSS_METRIC_KEY, loss)
            if mean_loss is not None:
                scalar(AVERAGE_LOSS_METRIC_KEY, mean_loss)
        return EstimatorSpec(mode, predictions, loss, train_op)

    def _export_outputs(self, predictions: dict[str, Tensor]) -> dict[str, ExportOutput]:
        served = self.served(predictions)
        default = {DEFAULT_SERVING_SIGNATURE_DEF_KEY: served[self.serving_key]}
        return {**default, **served, _PREDICT: PredictOutput(predictions)}

    def _mean_loss(self, loss: Tensor, each: Tensor, weights: Any) -> Any:
        """The loss of an example on average; None if the loss of a batch is not a sum."""
        if self._loss_reduction != Reduction.SUM:
            return None
        ones = apply_op("OnesLike", each)
        return loss / reduce_sum(weights * ones)

    def _weights(self, features: Mapping[str, Any], logits: Tensor) -> Any:
        """The weights of the examples, [batch, ..., 1] or one for each logit; 1 without a column."""
        column = self._weight_column
        if column is None:
            return 1.0
        if isinstance(column, str):
            column = numeric_column(column)
        if not isinstance(column, DenseColumn):
            raise GraphTypeError(
                f"Weight column must be either a string or _DenseColumn. Given type: {type(column)}."
            )
        found = column.get_dense_tensor(Features(features), ColumnScope([GraphKeys.GLOBAL_VARIABLES], False))
        weights = cast(found, dtypes.float32, name="weights")
        return self._checked_weights(weights, logits)

    def _checked_weights(self, weights: Tensor, logits: Tensor) -> Tensor:
        if weights.dims is not None and logits.dims is not None and len(weights.dims) == len(logits.dims) - 1:
            weights = expand_dims(weights, -1)
        if self.allows_weights_of_logits and weights.dims and weights.dims[-1] == self.logits_dimension:
            return weights
        return _with_shape(
            weights, logits, 1, "weights shape must be [D0, D1, ... DN] or [D0, D1, ... DN, 1]"
        )


def _checked_logits(logits: Tensor, dimension: int) -> Tensor:
    logits = cast(logits, dtypes.float32)
    if logits.dims is not None and (len(logits.dims) < 2 or logits.dims[-1] not in (None, dimension)):
        raise GraphValueError(
            f"logits shape must be [D0, D1, ... DN, logits_dimension={dimension}], got {logits.shape}."
        )
    return logits


def _checked_labels(labels: Any, logits: Tensor, dimension: int) -> Tensor:
    """The labels as [batch, ..., dimension]."""
    if labels is None:
        raise GraphValueError(
            "You must provide a labels Tensor. Given: None. Suggested troubleshooting steps: Check that your data contain "
            "your label feature. Check that your input_fn properly parses and returns labels."
        )
    if isinstance(labels, Mapping):
        raise GraphValueError(f"labels must be a Tensor, got a dict with the keys {list(labels)}")
    tensor = convert_to_tensor_or_sparse_tensor(labels)
    if isinstance(tensor, SparseTensor):
        raise GraphValueError(
            f"SparseTensor labels are not supported. labels must be a Tensor of shape [D0, D1, ..., DN, {dimension}]; "
            "tf.sparse_tensor_to_dense makes one of them"
        )
    if tensor.dims is not None and logits.dims is not None and len(tensor.dims) == len(logits.dims) - 1:
        tensor = expand_dims(tensor, -1)
    if tensor.dims and tensor.dims[-1] not in (None, dimension):
        raise GraphValueError(
            f"Mismatched label shape. Expected labels dimension={dimension}.  Received {tensor.dims[-1]}. Suggested Fix: "
            "If your classifier expects one-hot encoding label, check your n_classes argument to the estimator and/or the "
            "shape of your label. Otherwise, check the shape of your label."
        )
    message = f"labels shape must be [D0, D1, ... DN, {dimension}]"
    with get_default_graph().name_scope("labels"):
        return _with_shape(tensor, logits, dimension, message)


def _with_shape(tensor: Tensor, logits: Tensor, dimension: int, message: str) -> Tensor:
    """The tensor, whose shape is checked when it runs: that of the logits, with this last dimension."""
    outer = apply_op("StridedSlice", apply_op("Shape", logits), [0], [-1], [1], begin_mask=1)
    expected = apply_op("ConcatV2", [outer, np.array([dimension], np.int32)], 0)
    check = assert_equal(expected, apply_op("Shape", tensor), message=message)
    with get_default_graph().control_dependencies([check]):
        checked: Tensor = identity(tensor)
    return checked


def _train_op(loss: Tensor, optimizer: Optimizer | None, train_op_fn: Callable[[Tensor], Any] | None) -> Any:
    if train_op_fn is not None:
        train_op = train_op_fn(loss)
    else:
        assert optimizer is not None
        train_op = optimizer.minimize(loss, global_step=get_global_step())
    updates = get_default_graph().get_collection(GraphKeys.UPDATE_OPS)
    return group(train_op, *updates) if updates else train_op
