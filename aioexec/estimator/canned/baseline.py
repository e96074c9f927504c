"""BaselineClassifier and BaselineRegressor: models without features, which predict the average label."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from aioexec.errors import GraphValueError
from aioexec.estimator.canned.deep import check_features
from aioexec.estimator.canned.head import Head
from aioexec.estimator.canned.heads import RegressionHead, classification_head
from aioexec.estimator.canned.optimizer_choice import optimizer_of
from aioexec.estimator.estimator import Estimator
from aioexec.estimator.run_config import RunConfig
from aioexec.estimator.specification import EstimatorSpec
from aioexec.graph.apply import apply_op
from aioexec.graph.node import Tensor
from aioexec.graph.sparse_tensor import convert_to_tensor_or_sparse_tensor
from aioexec.ops.array.filling import ones
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.state.initializers import Zeros
from aioexec.ops.state.variable_scope import get_variable, variable_scope
from aioexec.ops.training.losses import Reduction

_LEARNING_RATE: Final = 0.3


def _model_fn(head: Head, optimizer: Any) -> Callable[..., EstimatorSpec]:
    def model_fn(features: Any, labels: Any, mode: str, config: RunConfig) -> EstimatorSpec:
        check_features(features)
        with variable_scope("baseline"):
            bias = get_variable("bias", [head.logits_dimension], initializer=Zeros())
            each = ones(apply_op("Pack", [_batch_size(features), head.logits_dimension]))
            each.set_shape([None, head.logits_dimension])
            logits: Tensor = apply_op("Mul", bias, each)
        chosen = optimizer_of(optimizer, _LEARNING_RATE)
        return head.create_estimator_spec(features, mode, logits, labels, chosen)

    return model_fn


def _batch_size(features: Mapping[str, Any]) -> Tensor:
    """The first dimension of one of the features."""
    if not features:
        raise GraphValueError("a baseline needs a feature, for the size of batches")
    size: Tensor = shape(convert_to_tensor_or_sparse_tensor(next(iter(features.values()))))[0]
    return size


class BaselineClassifier(Estimator):
    """A model that predicts the frequencies of the classes, in the variable `baseline/bias`.

    Args: see LinearClassifier.
    """

    def __init__(
        self,
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: Any = "Ftrl",
        config: RunConfig | None = None,
        loss_reduction: str = Reduction.SUM,
    ) -> None:
        head = classification_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        super().__init__(_model_fn(head, optimizer), model_dir, config)


class BaselineRegressor(Estimator):
    """A model that predicts the average label, in the variable `baseline/bias`.

    Args: see LinearRegressor.
    """

    def __init__(
        self,
        model_dir: Any = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        optimizer: Any = "Ftrl",
        config: RunConfig | None = None,
        loss_reduction: str = Reduction.SUM,
    ) -> None:
        head = RegressionHead(label_dimension, weight_column, loss_reduction)
        super().__init__(_model_fn(head, optimizer), model_dir, config)
