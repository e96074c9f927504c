"""DNNClassifier and DNNRegressor: fully connected layers over feature columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from aioexec.data_classes import dataclass
from aioexec.errors import GraphValueError
from aioexec.estimator.canned.head import Head
from aioexec.estimator.canned.heads import RegressionHead, classification_head
from aioexec.estimator.canned.optimizer_choice import optimizer_of
from aioexec.estimator.estimator import Estimator
from aioexec.estimator.modes import ModeKeys
from aioexec.estimator.run_config import RunConfig
from aioexec.estimator.specification import EstimatorSpec
from aioexec.feature_column.input_layers import input_layer
from aioexec.graph.node import Tensor
from aioexec.layers.core import Dense, dropout
from aioexec.layers.normalization import BatchNormalization
from aioexec.ops.io.summary_functions import histogram, scalar
from aioexec.ops.nn.activations import relu
from aioexec.ops.reduction.statistics import zero_fraction
from aioexec.ops.state.initializers import GlorotUniform
from aioexec.ops.state.partitioned_variables import min_max_variable_partitioner
from aioexec.ops.state.variable_scope import VariableScope, variable_scope
from aioexec.ops.training.losses import Reduction

_LEARNING_RATE: Final = 0.05
_LEAST_PARTITION: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class DeepModel:
    """The layers of a deep model; variables are `input_from_feature_columns/…`, `hiddenlayer_0/kernel`, …, `logits/bias`.

    Args:
        columns: dense columns.
        hidden_units: the outputs of each hidden layer.
        dropout: the share of each hidden layer's outputs that are zero in training; None: no dropout.
        partitioner: of the variables of columns.
    """

    columns: Sequence[Any]
    hidden_units: Iterable[int]
    activation_fn: Callable[[Any], Any] | None
    dropout: float | None
    partitioner: Callable[..., Any] | None
    batch_norm: bool

    def logits(self, features: Mapping[str, Any], mode: str, units: int) -> Tensor:
        """[batch, units]; made in the current variable scope."""
        is_training = mode == ModeKeys.TRAIN
        with variable_scope("input_from_feature_columns", partitioner=self.partitioner):
            net = input_layer(features, self.columns)
        for number, width in enumerate(self.hidden_units):
            with variable_scope(f"hiddenlayer_{number}") as scope:
                layer = _dense(width, self.activation_fn, scope)
                name = f"batchnorm_{number}"
                norm = BatchNormalization(momentum=0.999, name=name, _scope=name)
            net = layer(net)
            if self.dropout is not None and is_training:
                net = dropout(net, rate=self.dropout, training=True)
            if self.batch_norm:
                net = norm(net, training=is_training)
            summarize_layer(net, f"dnn/hiddenlayer_{number}")
        with variable_scope("logits") as scope:
            layer = _dense(units, None, scope)
        logits: Tensor = layer(net)
        summarize_layer(logits, "dnn/logits")
        return logits


def _dense(units: int, activation: Callable[[Any], Any] | None, scope: VariableScope) -> Dense:
    """A layer whose variables are in this scope."""
    return Dense(units, activation, kernel_initializer=GlorotUniform(), name=scope.name, _scope=scope)


def summarize_layer(value: Tensor, tag: str) -> None:
    """Add summaries of a layer's outputs; their tags are this one in the current name scope."""
    scalar(f"{tag}/fraction_of_zero_values", zero_fraction(value))
    histogram(f"{tag}/activation", value)


def partitioner_for(config: RunConfig | None, least_size: int = _LEAST_PARTITION) -> Callable[..., Any]:
    """The partitioner of variables: over the parameter servers, in slices of at least `least_size` bytes."""
    servers = config.num_ps_replicas if config else 0
    partitioner: Callable[..., Any] = min_max_variable_partitioner(
        max_partitions=max(servers, 1), min_slice_size=least_size
    )
    return partitioner


def check_features(features: Any) -> None:
    """Check what the input function returned.

    Raises:
        GraphValueError: it is no dict.
    """
    if not isinstance(features, Mapping):
        raise GraphValueError(f"features should be a dictionary of `Tensor`s. Given type: {type(features)}")


def _model_fn(
    head: Head,
    hidden_units: Iterable[int],
    feature_columns: Any,
    optimizer: Any,
    activation_fn: Callable[[Any], Any] | None,
    dropout: float | None,
    input_layer_partitioner: Callable[..., Any] | None,
    batch_norm: bool,
) -> Callable[..., EstimatorSpec]:
    columns, units = tuple(feature_columns or ()), tuple(hidden_units)

    def model_fn(features: Any, labels: Any, mode: str, config: RunConfig) -> EstimatorSpec:
        chosen = optimizer_of(optimizer, _LEARNING_RATE)
        check_features(features)
        of_input = input_layer_partitioner or partitioner_for(config)
        model = DeepModel(columns, units, activation_fn, dropout, of_input, batch_norm)
        with variable_scope("dnn", partitioner=partitioner_for(config, 256 << 10)):
            logits = model.logits(features, mode, head.logits_dimension)
            return head.create_estimator_spec(features, mode, logits, labels, chosen)

    return model_fn


class DNNClassifier(Estimator):
    """A deep model of classes.

    Args:
        hidden_units: the outputs of each hidden layer.
        feature_columns: dense columns.
        n_classes: the number of classes; for two there is one logit.
        weight_column: name of a feature, or dense column, with the weights of examples.
        label_vocabulary: the classes as strings, if labels are strings; otherwise labels are integers.
        optimizer: an optimizer, a function that returns one, or "Adagrad", "Adam", "Ftrl", "RMSProp" or "SGD".
        activation_fn: of hidden layers.
        dropout: the share of each hidden layer's outputs that are zero in training.
        input_layer_partitioner: of the variables of columns, by default over parameter servers.
        loss_reduction: from the losses of the examples of a batch to its loss.
        batch_norm: normalize after each hidden layer.

    The others are those of Estimator. An evaluation has the metrics `accuracy`, `average_loss` and `loss`, and for two classes
    also `accuracy_baseline`, `auc`, `auc_precision_recall`, `label/mean`, `prediction/mean`, `precision` and `recall`.
    """

    def __init__(
        self,
        hidden_units: Iterable[int],
        feature_columns: Any,
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: Any = "Adagrad",
        activation_fn: Callable[[Any], Any] | None = relu,
        dropout: float | None = None,
        input_layer_partitioner: Callable[..., Any] | None = None,
        config: RunConfig | None = None,
        warm_start_from: Any = None,
        loss_reduction: str = Reduction.SUM,
        batch_norm: bool = False,
    ) -> None:
        head = classification_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        model_fn = _model_fn(
            head,
            hidden_units,
            feature_columns,
            optimizer,
            activation_fn,
            dropout,
            input_layer_partitioner,
            batch_norm,
        )
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


class DNNRegressor(Estimator):
    """A deep model of numbers.

    Args:
        label_dimension: the numbers in a label.

    The others are those of DNNClassifier. An evaluation has the metrics `average_loss`, `label/mean`, `loss` and
    `prediction/mean`.
    """

    def __init__(
        self,
        hidden_units: Iterable[int],
        feature_columns: Any,
        model_dir: Any = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        optimizer: Any = "Adagrad",
        activation_fn: Callable[[Any], Any] | None = relu,
        dropout: float | None = None,
        input_layer_partitioner: Callable[..., Any] | None = None,
        config: RunConfig | None = None,
        warm_start_from: Any = None,
        loss_reduction: str = Reduction.SUM,
        batch_norm: bool = False,
    ) -> None:
        head = RegressionHead(label_dimension, weight_column, loss_reduction)
        model_fn = _model_fn(
            head,
            hidden_units,
            feature_columns,
            optimizer,
            activation_fn,
            dropout,
            input_layer_partitioner,
            batch_norm,
        )
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)
