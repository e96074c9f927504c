"""EstimatorSpec: what a model function returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.estimator.arguments import checked_hooks
from aioexec.estimator.export_outputs import export_outputs_of
from aioexec.estimator.modes import ModeKeys
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Operation, Tensor
from aioexec.ops.array.arrays import reshape
from aioexec.ops.state.variable import Variable
from aioexec.shapes import TensorShape
from aioexec.train.hooks.session_run_hook import SessionRunHook
from aioexec.train.sessions.scaffold import Scaffold

LOSS_METRIC_KEY = "loss"
AVERAGE_LOSS_METRIC_KEY = "average_loss"


class _EstimatorSpec(NamedTuple):
    mode: str
    predictions: Any
    loss: Any
    train_op: Any
    eval_metric_ops: Any
    export_outputs: Any
    training_chief_hooks: Any
    training_hooks: Any
    scaffold: Any
    evaluation_hooks: Any
    prediction_hooks: Any


class EstimatorSpec(_EstimatorSpec):
    """The nodes and hooks of a model in one mode.

    Args:
        mode: a ModeKeys value.
        predictions: a tensor or a dict of tensors; required in mode PREDICT.
        loss: a tensor with one element; required in the modes TRAIN and EVAL.
        train_op: a node that runs a step; required in mode TRAIN.
        eval_metric_ops: from names to pairs (value, update) as functions of `metrics` return them.
        export_outputs: from names of signatures to outputs of `estimator.export`; by default one with the predictions.
        training_chief_hooks, training_hooks, evaluation_hooks, prediction_hooks: SessionRunHooks.
        scaffold: initialises and saves the model.

    Raises:
        GraphValueError: what the mode requires is missing, or a node is not in the default graph, or the loss is not a scalar.
        GraphTypeError: an argument is of the wrong type.
    """

    __slots__ = ()

    def __new__(
        cls,
        mode: str,
        predictions: Any = None,
        loss: Any = None,
        train_op: Any = None,
        eval_metric_ops: Mapping[str, Any] | None = None,
        export_outputs: Mapping[str, Any] | None = None,
        training_chief_hooks: Iterable[SessionRunHook] | None = None,
        training_hooks: Iterable[SessionRunHook] | None = None,
        scaffold: Scaffold | None = None,
        evaluation_hooks: Iterable[SessionRunHook] | None = None,
        prediction_hooks: Iterable[SessionRunHook] | None = None,
    ) -> Self:
        train_op, loss = _checked_train_op(train_op, mode), _checked_loss(loss, mode)
        predictions = _checked_predictions(predictions, mode)
        if mode == ModeKeys.PREDICT:
            export_outputs = export_outputs_of(export_outputs, predictions)
        return super().__new__(
            cls,
            mode,
            predictions,
            loss,
            train_op,
            _checked_metrics(eval_metric_ops),
            export_outputs,
            checked_hooks(training_chief_hooks),
            checked_hooks(training_hooks),
            _checked_scaffold(scaffold),
            checked_hooks(evaluation_hooks),
            checked_hooks(prediction_hooks),
        )

    def _replace(self, **kwds: Any) -> Self:
        """A copy with other fields; the mode must stay.

        Raises:
            GraphValueError: another mode, or a value that the constructor refuses.
        """
        if kwds.get("mode", self.mode) != self.mode:
            raise GraphValueError("mode of EstimatorSpec cannot be changed.")
        return type(self)(**{**self._asdict(), **kwds})


def _checked_train_op(train_op: Any, mode: str) -> Any:
    if train_op is None:
        if mode == ModeKeys.TRAIN:
            raise GraphValueError("Missing train_op.")
        return None
    if not isinstance(train_op, Tensor | Operation | Variable):
        raise GraphTypeError(f"train_op must be Operation or Tensor, given: {train_op!r}")
    node = train_op.op if isinstance(train_op, Variable) else train_op
    _check_graph("train_op", node)
    return node


def _checked_loss(loss: Any, mode: str) -> Any:
    if loss is None:
        if mode in (ModeKeys.TRAIN, ModeKeys.EVAL):
            raise GraphValueError("Missing loss.")
        return None
    _check_tensor("loss", loss)
    if loss.shape.num_elements() not in (None, 1):
        raise GraphValueError(f"Loss must be scalar, given: {loss!r}")
    if not loss.shape.is_compatible_with(TensorShape([])):
        loss = reshape(loss, [])
    _check_graph("loss", loss)
    return loss


def _checked_predictions(predictions: Any, mode: str) -> Any:
    if predictions is None:
        if mode == ModeKeys.PREDICT:
            raise GraphValueError("Missing predictions.")
        return {}
    if not isinstance(predictions, Mapping):
        _check_tensor("predictions", predictions)
        _check_graph("prediction values", predictions)
        return predictions
    for key, value in predictions.items():
        _check_tensor(f"predictions[{key}]", value)
        _check_graph("prediction values", value, f"{key}: {value.name}")
    return dict(predictions)


def _checked_metrics(given: Mapping[str, Any] | None) -> dict[str, Any]:
    metrics = dict(given or {})
    for key, value in metrics.items():
        if not isinstance(value, tuple) or len(value) != 2:
            raise GraphTypeError(
                "Values of eval_metric_ops must be (metric_value, update_op) tuples, "
                f"given: {value!r} for key: {key}"
            )
        for part in value:
            if not isinstance(part, Tensor | Operation | Variable):
                raise GraphTypeError(f"eval_metric_ops[{key}] must be Operation or Tensor, given: {part!r}")
            _check_graph("eval_metric_ops", part, f"{key}: {part.name}")
    return metrics


def _checked_scaffold(scaffold: Scaffold | None) -> Scaffold:
    scaffold = Scaffold() if scaffold is None else scaffold
    if not isinstance(scaffold, Scaffold):
        raise GraphTypeError(f"scaffold must be tf.train.Scaffold. Given: {scaffold!r}")
    return scaffold


def _check_tensor(what: str, value: Any) -> None:
    if not isinstance(value, Tensor | Variable):
        raise GraphTypeError(f"{what} must be Tensor, given: {value!r}")


def _check_graph(what: str, node: Any, name: str | None = None) -> None:
    if node.graph is not get_default_graph():
        raise GraphValueError(
            f'{what} with "{name or node.name}" must be from the default graph. Possible causes of this error include: '
            f"{what} was created outside the context of the default graph, or the object passed to EstimatorSpec was not "
            'created in the most recent call to "model_fn"'
        )
