"""DNNLinearCombinedClassifier and DNNLinearCombinedRegressor: the sum of a linear and a deep model, trained together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from aioexec.errors import GraphValueError
from aioexec.estimator.canned.deep import (
    DeepModel,
    check_features,
    partitioner_for,
    summarize_layer,
)
from aioexec.estimator.canned.head import Head
from aioexec.estimator.canned.heads import RegressionHead, classification_head
from aioexec.estimator.canned.linear import linear_logits
from aioexec.estimator.canned.optimizer_choice import optimizer_of
from aioexec.estimator.estimator import Estimator
from aioexec.estimator.run_config import RunConfig
from aioexec.estimator.specification import EstimatorSpec
from aioexec.graph.graph import get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Tensor
from aioexec.ops.control_flow.dependencies import group
from aioexec.ops.nn.activations import relu
from aioexec.ops.state.assignments import assign_add
from aioexec.ops.state.variable_scope import variable_scope
from aioexec.ops.training.losses import Reduction
from aioexec.train.global_steps import get_global_step
from aioexec.train.optimizers.optimizer import Optimizer
from aioexec.train.optimizers.sync_replicas import SyncReplicasOptimizer

_DEEP_RATE: Final = 0.001
_LINEAR_RATE: Final = 0.005


def _model_fn(
    head: Head,
    linear_columns: Sequence[Any],
    linear_optimizer: Any,
    sparse_combiner: str,
    deep: DeepModel,
    deep_optimizer: Any,
) -> Callable[..., EstimatorSpec]:
    if not linear_columns and not deep.columns:
        raise GraphValueError("Either linear_feature_columns or dnn_feature_columns must be defined.")
    if deep.columns and not deep.hidden_units:
        raise GraphValueError("dnn_hidden_units must be defined when dnn_feature_columns is specified.")

    def model_fn(features: Any, labels: Any, mode: str, config: RunConfig) -> EstimatorSpec:
        check_features(features)
        logits: list[Tensor] = []
        parts: list[tuple[Optimizer, str]] = []
        if deep.columns:
            parts.append((_optimizer(deep_optimizer, _DEEP_RATE), "dnn"))
            with variable_scope("dnn", partitioner=partitioner_for(config, 256 << 10)):
                logits.append(deep.logits(features, mode, head.logits_dimension))
        if linear_columns:
            rate = min(_LINEAR_RATE, 1 / math.sqrt(len(linear_columns)))
            parts.append((_optimizer(linear_optimizer, rate), "linear"))
            of_input = deep.partitioner or partitioner_for(config)
            with variable_scope("linear", partitioner=of_input):
                logits.append(linear_logits(features, linear_columns, head.logits_dimension, sparse_combiner))
                summarize_layer(logits[-1], "linear")
        together = logits[0] if len(logits) == 1 else logits[0] + logits[1]
        return head.create_estimator_spec(
            features, mode, together, labels, train_op_fn=lambda loss: _minimize(loss, parts)
        )

    return model_fn


def _minimize(loss: Tensor, parts: Sequence[tuple[Optimizer, str]]) -> Any:
    """Train the variables of each scope by its optimizer, then count the step."""
    graph = get_default_graph()
    trained = [
        optimizer.minimize(
            loss, var_list=graph.get_collection(GraphKeys.TRAINABLE_VARIABLES, scope=f"{scope}/")
        )
        for optimizer, scope in parts
    ]
    with graph.control_dependencies([group(*trained)]):
        return assign_add(get_global_step(), 1).op


def _optimizer(given: Any, learning_rate: float) -> Optimizer:
    chosen = optimizer_of(given, learning_rate)
    if isinstance(chosen, SyncReplicasOptimizer):
        raise GraphValueError(
            "SyncReplicasOptimizer does not support multi optimizers case. Therefore, it is not supported in "
            "DNNLinearCombined model. If you want to use this optimizer, please use either DNN or Linear model."
        )
    return chosen


class DNNLinearCombinedClassifier(Estimator):
    """The sum of a linear and a deep model of classes.

    Args:
        linear_feature_columns, linear_optimizer, linear_sparse_combiner: see LinearClassifier.
        dnn_feature_columns, dnn_optimizer, dnn_hidden_units, dnn_activation_fn, dnn_dropout, batch_norm: see DNNClassifier.

    The others are those of DNNClassifier.

    Raises:
        GraphValueError: there are no columns, or no hidden units for those of the deep model.
    """

    def __init__(
        self,
        model_dir: Any = None,
        linear_feature_columns: Any = None,
        linear_optimizer: Any = "Ftrl",
        dnn_feature_columns: Any = None,
        dnn_optimizer: Any = "Adagrad",
        dnn_hidden_units: Iterable[int] | None = None,
        dnn_activation_fn: Callable[[Any], Any] | None = relu,
        dnn_dropout: float | None = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Sequence[str] | None = None,
        input_layer_partitioner: Callable[..., Any] | None = None,
        config: RunConfig | None = None,
        warm_start_from: Any = None,
        loss_reduction: str = Reduction.SUM,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        head = classification_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        deep = DeepModel(
            tuple(dnn_feature_columns or ()),
            tuple(dnn_hidden_units or ()),
            dnn_activation_fn,
            dnn_dropout,
            input_layer_partitioner,
            batch_norm,
        )
        columns = tuple(linear_feature_columns or ())
        model_fn = _model_fn(head, columns, linear_optimizer, linear_sparse_combiner, deep, dnn_optimizer)
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


class DNNLinearCombinedRegressor(Estimator):
    """The sum of a linear and a deep model of numbers.

    Args:
        label_dimension: the numbers in a label.

    The others are those of DNNLinearCombinedClassifier.
    """

    def __init__(
        self,
        model_dir: Any = None,
        linear_feature_columns: Any = None,
        linear_optimizer: Any = "Ftrl",
        dnn_feature_columns: Any = None,
        dnn_optimizer: Any = "Adagrad",
        dnn_hidden_units: Iterable[int] | None = None,
        dnn_activation_fn: Callable[[Any], Any] | None = relu,
        dnn_dropout: float | None = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        input_layer_partitioner: Callable[..., Any] | None = None,
        config: RunConfig | None = None,
        warm_start_from: Any = None,
        loss_reduction: str = Reduction.SUM,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        head = RegressionHead(label_dimension, weight_column, loss_reduction)
        deep = DeepModel(
            tuple(dnn_feature_columns or ()),
            tuple(dnn_hidden_units or ()),
            dnn_activation_fn,
            dnn_dropout,
            input_layer_partitioner,
            batch_norm,
        )
        columns = tuple(linear_feature_columns or ())
        model_fn = _model_fn(head, columns, linear_optimizer, linear_sparse_combiner, deep, dnn_optimizer)
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)
