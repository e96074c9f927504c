"""Metrics over many batches under the names of `tf.contrib.metrics`: predictions come before labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib.metrics.aggregation import (
        accuracy as accuracy,
        aggregate_metric_map as aggregate_metric_map,
        aggregate_metrics as aggregate_metrics,
    )
    from aioexec.contrib.metrics.streaming import (
        streaming_accuracy as streaming_accuracy,
        streaming_auc as streaming_auc,
        streaming_concat as streaming_concat,
        streaming_covariance as streaming_covariance,
        streaming_false_negatives as streaming_false_negatives,
        streaming_false_positives as streaming_false_positives,
        streaming_mean as streaming_mean,
        streaming_mean_absolute_error as streaming_mean_absolute_error,
        streaming_mean_cosine_distance as streaming_mean_cosine_distance,
        streaming_mean_iou as streaming_mean_iou,
        streaming_mean_relative_error as streaming_mean_relative_error,
        streaming_mean_squared_error as streaming_mean_squared_error,
        streaming_mean_tensor as streaming_mean_tensor,
        streaming_pearson_correlation as streaming_pearson_correlation,
        streaming_percentage_less as streaming_percentage_less,
        streaming_precision as streaming_precision,
        streaming_precision_at_thresholds as streaming_precision_at_thresholds,
        streaming_recall as streaming_recall,
        streaming_recall_at_k as streaming_recall_at_k,
        streaming_recall_at_thresholds as streaming_recall_at_thresholds,
        streaming_root_mean_squared_error as streaming_root_mean_squared_error,
        streaming_sensitivity_at_specificity as streaming_sensitivity_at_specificity,
        streaming_specificity_at_sensitivity as streaming_specificity_at_sensitivity,
        streaming_true_negatives as streaming_true_negatives,
        streaming_true_positives as streaming_true_positives,
    )
    from aioexec.ops.sparse.sets import (
        difference as set_difference,
        intersection as set_intersection,
        size as set_size,
        union as set_union,
    )
    from aioexec.ops.training.confusion_matrix import confusion_matrix as confusion_matrix

    __all__ = [
        "accuracy", "aggregate_metric_map", "aggregate_metrics", "confusion_matrix", "set_difference",
        "set_intersection", "set_size", "set_union", "streaming_accuracy", "streaming_auc",
        "streaming_concat", "streaming_covariance", "streaming_false_negatives", "streaming_false_positives",
        "streaming_mean", "streaming_mean_absolute_error", "streaming_mean_cosine_distance",
        "streaming_mean_iou", "streaming_mean_relative_error", "streaming_mean_squared_error",
        "streaming_mean_tensor", "streaming_pearson_correlation", "streaming_percentage_less",
        "streaming_precision", "streaming_precision_at_thresholds", "streaming_recall",
        "streaming_recall_at_k", "streaming_recall_at_thresholds", "streaming_root_mean_squared_error",
        "streaming_sensitivity_at_specificity", "streaming_specificity_at_sensitivity",
        "streaming_true_negatives", "streaming_true_positives",
    ]  # fmt: skip
else:
    __getattr__, __dir__ = public_names(__name__)
