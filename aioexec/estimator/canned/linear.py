"""LinearClassifier and LinearRegressor: weighted sums of feature columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from aioexec.estimator.canned.deep import check_features, partitioner_for
from aioexec.estimator.canned.head import Head
from aioexec.estimator.canned.heads import RegressionHead, classification_head
from aioexec.estimator.canned.optimizer_choice import optimizer_of
from aioexec.estimator.estimator import Estimator
from aioexec.estimator.run_config import RunConfig
from aioexec.estimator.specification import EstimatorSpec
from aioexec.feature_column.linear_models import linear_model
from aioexec.graph.apply import apply_op
from aioexec.graph.node import Tensor
from aioexec.ops.array.joining import concat
from aioexec.ops.io.summary_functions import histogram, scalar
from aioexec.ops.reduction.statistics import zero_fraction
from aioexec.ops.state.variable_scope import variable_scope
from aioexec.ops.training.losses import Reduction

_LEARNING_RATE: Final = 0.2


def linear_logits(
    features: Mapping[str, Any], columns: Sequence[Any], units: int, sparse_combiner: str
) -> Tensor:
    """[batch, units]: the linear model of the columns, with summaries of its variables."""
    variables: dict[Any, Any] = {}
    logits = linear_model(features, columns, units, sparse_combiner, cols_to_vars=variables)
    bias = variables.pop("bias")
    weights = [each for of_column in variables.values() for each in of_column]
    if units > 1:
        histogram("bias", concat(bias, 0))
    else:
        scalar("bias", bias[0][0])
    flat = [apply_op("Reshape", each, [-1]) for each in weights]
    scalar("fraction_of_zero_weights", zero_fraction(concat(flat, 0)))
    return logits


def _model_fn(
    head: Head,
    feature_columns: Any,
    optimizer: Any,
    partitioner: Callable[..., Any] | None,
    sparse_combiner: str,
) -> Callable[..., EstimatorSpec]:
    columns = tuple(feature_columns or ())
    learning_rate = min(_LEARNING_RATE, 1 / math.sqrt(max(len(columns), 1)))

    def model_fn(features: Any, labels: Any, mode: str, config: RunConfig) -> EstimatorSpec:
        check_features(features)
        with variable_scope("linear", partitioner=partitioner or partitioner_for(config)):
            logits = linear_logits(features, columns, head.logits_dimension, sparse_combiner)
            chosen = optimizer_of(optimizer, learning_rate)
            return head.create_estimator_spec(features, mode, logits, labels, chosen)

    return model_fn


class LinearClassifier(Estimator):
    """A linear model of classes.

    Args:
        feature_columns: dense or categorical columns.
        n_classes: the number of classes; for two there is one logit.
        weight_column: name of a feature, or dense column, with the weights of examples.
        label_vocabulary: the classes as strings, if labels are strings; otherwise labels are integers.
        optimizer: an optimizer, a function that returns one, or "Adagrad", "Adam", "Ftrl", "RMSProp" or "SGD".
        partitioner: of the variables, by default over parameter servers.
        loss_reduction: from the losses of the examples of a batch to its loss.
        sparse_combiner: of the categories of an example: "sum", "mean" or "sqrtn".

    The others are those of Estimator; for metrics see DNNClassifier.
    """

    def __init__(
        self,
        feature_columns: Any,
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: Any = "Ftrl",
        config: RunConfig | None = None,
        partitioner: Callable[..., Any] | None = None,
        warm_start_from: Any = None,
        loss_reduction: str = Reduction.SUM,
        sparse_combiner: str = "sum",
    ) -> None:
        head = classification_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        model_fn = _model_fn(head, feature_columns, optimizer, partitioner, sparse_combiner)
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


class LinearRegressor(Estimator):
    """A linear model of numbers.

    Args:
        label_dimension: the numbers in a label.

    The others are those of LinearClassifier; for metrics see DNNRegressor.
    """

    def __init__(
        self,
        feature_columns: Any,
        model_dir: Any = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        optimizer: Any = "Ftrl",
        config: RunConfig | None = None,
        partitioner: Callable[..., Any] | None = None,
        warm_start_from: Any = None,
        loss_reduction: str = Reduction.SUM,
        sparse_combiner: str = "sum",
    ) -> None:
        head = RegressionHead(label_dimension, weight_column, loss_reduction)
        model_fn = _model_fn(head, feature_columns, optimizer, partitioner, sparse_combiner)
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)
