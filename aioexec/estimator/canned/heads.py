"""The heads of classifiers and regressors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.estimator.canned.head import Evaluated, Head, Metrics
from aioexec.estimator.export_outputs import ClassificationOutput, ExportOutput, RegressionOutput
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Tensor
from aioexec.ops.array.arrays import expand_dims
from aioexec.ops.array.identity import identity
from aioexec.ops.control_flow.checks import assert_less_equal, assert_non_negative
from aioexec.ops.lookup.vocabularies import index_table_from_tensor, index_to_string_table_from_tensor
from aioexec.ops.math.cast import cast
from aioexec.ops.math.extremes import maximum
from aioexec.ops.math.math_functions import sigmoid
from aioexec.ops.nn.cross_entropy import sigmoid_cross_entropy_with_logits
from aioexec.ops.nn.softmax import softmax
from aioexec.ops.reduction.arg_reduction import argmax
from aioexec.ops.strings.numbers import as_string
from aioexec.ops.training.binary_metrics import auc, precision, recall
from aioexec.ops.training.losses import Reduction, mean_squared_error, sparse_softmax_cross_entropy
from aioexec.ops.training.metrics import accuracy, mean
from aioexec.ops.training.weights import broadcast_weights


class _Classifier(Head):
    """What heads of classifiers have in common: classes as numbers and as strings."""

    serving_key = "classification"
    label_dimension = 1

    def __init__(
        self,
        n_classes: int,
        logits_dimension: int,
        weight_column: Any,
        label_vocabulary: Sequence[str] | None,
        loss_reduction: str,
    ) -> None:
        super().__init__(logits_dimension, weight_column, loss_reduction)
        if label_vocabulary is not None and not isinstance(label_vocabulary, list | tuple):
            raise GraphTypeError(
                f"label_vocabulary should be a list or a tuple. Given type: {type(label_vocabulary)}"
            )
        self._n_classes = n_classes
        self._vocabulary = label_vocabulary

    def _classes(self, logits: Tensor, of_classes: Tensor) -> dict[str, Tensor]:
        """The predicted class and all classes, as numbers and as strings; `of_classes` are logits of all classes."""
        class_ids = expand_dims(argmax(of_classes, axis=-1, name="class_ids"), -1)
        names = self._class_names()
        numbers = constant(np.arange(self._n_classes, dtype=np.int32))
        return {
            "probabilities": softmax(of_classes, name="probabilities"),
            "class_ids": class_ids,
            "classes": self._names_of(class_ids),
            "all_class_ids": _for_each(logits, numbers),
            "all_classes": _for_each(logits, names),
        }

    def _class_names(self) -> Tensor:
        if self._vocabulary:
            return constant(np.array(list(self._vocabulary), object))
        return as_string(constant(np.arange(self._n_classes, dtype=np.int32)))

    def _names_of(self, class_ids: Tensor) -> Tensor:
        if not self._vocabulary:
            return as_string(class_ids, name="str_classes")
        table = index_to_string_table_from_tensor(list(self._vocabulary), name="class_string_lookup")
        names: Tensor = table.lookup(class_ids)
        return names

    def _label_ids(self, labels: Tensor) -> Tensor:
        """The labels as numbers of classes, which is checked when they are used."""
        if self._vocabulary:
            if labels.dtype.base_dtype != dtypes.string:
                raise GraphValueError(
                    f"Labels dtype should be string if there is a vocabulary. Instead got {labels.dtype}"
                )
            table = index_table_from_tensor(tuple(self._vocabulary), name="class_id_lookup")
            labels = table.lookup(labels)
        last = constant(self._n_classes - 1, labels.dtype.base_dtype)
        with get_default_graph().name_scope("assert_range"):
            checks = [
                assert_less_equal(labels, last, message="Labels must <= n_classes - 1"),
                assert_non_negative(labels, message="Labels must >= 0"),
            ]
            with get_default_graph().control_dependencies(checks):
                checked: Tensor = identity(labels)
        return checked

    def served(self, predictions: Mapping[str, Tensor]) -> dict[str, ExportOutput]:
        scores = predictions["probabilities"]
        return {self.serving_key: ClassificationOutput(scores, _for_each(scores, self._class_names()))}


class MultiClassHead(_Classifier):
    """Softmax over more than two classes; labels are numbers of classes, or words of the vocabulary.

    Raises:
        GraphValueError: there are fewer classes.
    """

    def __init__(
        self,
        n_classes: int,
        weight_column: Any = None,
        label_vocabulary: Sequence[str] | None = None,
        loss_reduction: str = Reduction.SUM,
    ) -> None:
        if n_classes <= 2:
            raise GraphValueError(f"n_classes must be > 2: {n_classes}.")
        super().__init__(n_classes, n_classes, weight_column, label_vocabulary, loss_reduction)

    def predictions(self, logits: Tensor) -> dict[str, Tensor]:
        return {"logits": logits, **self._classes(logits, logits)}

    def processed_labels(self, labels: Tensor) -> Tensor:
        if not self._vocabulary and not labels.dtype.is_integer:
            raise GraphValueError(f"Labels dtype should be integer. Instead got {labels.dtype}.")
        return self._label_ids(labels)

    def unweighted_loss(self, labels: Tensor, logits: Tensor) -> Tensor:
        loss = sparse_softmax_cross_entropy(labels, logits, reduction=Reduction.NONE)
        return expand_dims(loss, -1)

    def metrics(self, evaluated: Evaluated) -> Metrics:
        labels, predictions, weights, _ = evaluated
        return {"accuracy": accuracy(labels, predictions["class_ids"], weights=weights, name="accuracy")}


class BinaryHead(_Classifier):
    """The logistic function of one logit; labels are 0 or 1, or words of the vocabulary."""

    def __init__(
        self,
        weight_column: Any = None,
        label_vocabulary: Sequence[str] | None = None,
        loss_reduction: str = Reduction.SUM,
    ) -> None:
        super().__init__(2, 1, weight_column, label_vocabulary, loss_reduction)

    def predictions(self, logits: Tensor) -> dict[str, Tensor]:
        two = apply_op("ConcatV2", [apply_op("ZerosLike", logits), logits], -1, name="two_class_logits")
        return {"logits": logits, "logistic": sigmoid(logits, name="logistic"), **self._classes(logits, two)}

    def served(self, predictions: Mapping[str, Tensor]) -> dict[str, ExportOutput]:
        return {**super().served(predictions), "regression": RegressionOutput(predictions["logistic"])}

    def processed_labels(self, labels: Tensor) -> Tensor:
        if not self._vocabulary:
            return self._label_ids(cast(labels, dtypes.float32))
        wanted: Tensor = cast(self._label_ids(labels), dtypes.float32)
        return wanted

    def unweighted_loss(self, labels: Tensor, logits: Tensor) -> Tensor:
        return sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)

    def metrics(self, evaluated: Evaluated) -> Metrics:
        labels, predictions, weights, _ = evaluated
        chosen, logistic = predictions["class_ids"], predictions["logistic"]
        label_mean = _mean_of(labels, weights, "label/mean")
        return {
            "accuracy": accuracy(labels, chosen, weights=weights, name="accuracy"),
            "precision": precision(labels, chosen, weights=weights, name="precision"),
            "recall": recall(labels, chosen, weights=weights, name="recall"),
            "prediction/mean": _mean_of(logistic, weights, "prediction/mean"),
            "label/mean": label_mean,
            "accuracy_baseline": tuple(maximum(each, 1.0 - each) for each in label_mean),
            "auc": auc(labels, logistic, weights=broadcast_weights(weights, logistic), name="auc"),
            "auc_precision_recall": auc(
                labels,
                logistic,
                weights=broadcast_weights(weights, logistic),
                curve="PR",
                name="auc_precision_recall",
            ),
        }


class RegressionHead(Head):
    """The logits themselves; the loss is the squared difference from the labels.

    Raises:
        GraphValueError: the dimension is not positive.
    """

    serving_key = "regression"
    allows_weights_of_logits = True

    def __init__(
        self, label_dimension: int = 1, weight_column: Any = None, loss_reduction: str = Reduction.SUM
    ) -> None:
        if label_dimension < 1:
            raise GraphValueError(f"Invalid label_dimension {label_dimension}.")
        super().__init__(label_dimension, weight_column, loss_reduction)
        self.label_dimension = label_dimension

    def predictions(self, logits: Tensor) -> dict[str, Tensor]:
        return {"predictions": logits}

    def served(self, predictions: Mapping[str, Tensor]) -> dict[str, ExportOutput]:
        return {self.serving_key: RegressionOutput(predictions["predictions"])}

    def processed_labels(self, labels: Tensor) -> Tensor:
        numbers: Tensor = cast(labels, dtypes.float32)
        return numbers

    def unweighted_loss(self, labels: Tensor, logits: Tensor) -> Tensor:
        loss: Tensor = mean_squared_error(labels, logits, reduction=Reduction.NONE)
        return loss

    def metrics(self, evaluated: Evaluated) -> Metrics:
        labels, predictions, weights, _ = evaluated
        return {
            "prediction/mean": _mean_of(predictions["predictions"], weights, "prediction/mean"),
            "label/mean": mean(labels, weights=weights),
        }


def classification_head(
    n_classes: int, weight_column: Any, label_vocabulary: Sequence[str] | None, loss_reduction: str
) -> Head:
    """The head of a classifier: a logistic one for two classes."""
    if n_classes == 2:
        return BinaryHead(weight_column, label_vocabulary, loss_reduction)
    return MultiClassHead(n_classes, weight_column, label_vocabulary, loss_reduction)


def _mean_of(values: Tensor, weights: Any, name: str) -> Any:
    return mean(values, weights=broadcast_weights(weights, values), name=name)


def _for_each(batch: Tensor, values: Tensor) -> Tensor:
    """The vector of values once for each example: [batch, n]."""
    count = apply_op("Shape", batch)[0]
    return apply_op("Tile", apply_op("ExpandDims", values, 0), apply_op("Pack", [count, 1]))
