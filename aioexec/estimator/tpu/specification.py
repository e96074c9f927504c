"""TPUEstimatorSpec: what the model function of a TPUEstimator returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Self

from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.estimator.arguments import checked_hooks
from aioexec.estimator.specification import EstimatorSpec
from aioexec.train.hooks.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook
from aioexec.train.sessions.scaffold import Scaffold


class _HostCallHook(SessionRunHook):
    """Runs the nodes of a host call in each step."""

    def __init__(self, nodes: Any) -> None:
        self._request = SessionRunArgs(nodes)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return self._request


class _TPUEstimatorSpec(NamedTuple):
    mode: str
    predictions: Any
    loss: Any
    train_op: Any
    eval_metrics: Any
    export_outputs: Any
    scaffold_fn: Callable[[], Scaffold] | None
    host_call: Any
    training_hooks: tuple[SessionRunHook, ...]
    evaluation_hooks: tuple[SessionRunHook, ...]
    prediction_hooks: tuple[SessionRunHook, ...]


class TPUEstimatorSpec(_TPUEstimatorSpec):
    """The nodes and hooks of a model in one mode; what follows from them is computed after the model is built.

    Args:
        eval_metrics: (function, tensors): the function takes the tensors, a list or a dict, and returns metrics by name.
        scaffold_fn: returns the scaffold.
        host_call: (function, tensors) as well: the function returns nodes to run in each step.

    The others are those of EstimatorSpec.

    Raises:
        GraphValueError: `eval_metrics` or `host_call` are no such pairs.
        GraphTypeError: a hook is of another type.
    """

    __slots__ = ()

    def __new__(
        cls,
        mode: str,
        predictions: Any = None,
        loss: Any = None,
        train_op: Any = None,
        eval_metrics: Any = None,
        export_outputs: Mapping[str, Any] | None = None,
        scaffold_fn: Callable[[], Scaffold] | None = None,
        host_call: Any = None,
        training_hooks: Iterable[SessionRunHook] | None = None,
        evaluation_hooks: Iterable[SessionRunHook] | None = None,
        prediction_hooks: Iterable[SessionRunHook] | None = None,
    ) -> Self:
        for name, call in (("eval_metrics", eval_metrics), ("host_call", host_call)):
            _check_call(name, call)
        if scaffold_fn is not None and not callable(scaffold_fn):
            raise GraphTypeError(f"scaffold_fn must be callable, got {scaffold_fn!r}")
        return super().__new__(
            cls,
            mode,
            predictions,
            loss,
            train_op,
            eval_metrics,
            export_outputs,
            scaffold_fn,
            host_call,
            checked_hooks(training_hooks),
            checked_hooks(evaluation_hooks),
            checked_hooks(prediction_hooks),
        )

    def as_estimator_spec(self) -> EstimatorSpec:
        """The EstimatorSpec for the CPU; calls the functions of metrics, of the host call, and of the scaffold."""
        metrics = None if self.eval_metrics is None else _called(self.eval_metrics)
        hooks = [] if self.host_call is None else [_HostCallHook(_called(self.host_call))]
        return EstimatorSpec(
            self.mode,
            self.predictions,
            self.loss,
            self.train_op,
            eval_metric_ops=metrics,
            export_outputs=self.export_outputs,
            training_hooks=[*self.training_hooks, *hooks],
            scaffold=self.scaffold_fn() if self.scaffold_fn is not None else None,
            evaluation_hooks=[*self.evaluation_hooks, *hooks],
            prediction_hooks=[*self.prediction_hooks, *hooks],
        )


def _called(call: Any) -> Any:
    function, tensors = call
    return function(**tensors) if isinstance(tensors, Mapping) else function(*tensors)


def _check_call(name: str, call: Any) -> None:
    if call is None:
        return
    if not isinstance(call, tuple | list) or len(call) != 2 or not callable(call[0]):
        raise GraphValueError(f"{name} should be a tuple (function, tensors), got {call!r}")
    if not isinstance(call[1], tuple | list | Mapping):
        raise GraphValueError(f"the tensors of {name} should be a list or a dict, got {call[1]!r}")
