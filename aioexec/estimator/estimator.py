"""Estimator: trains, evaluates and predicts with a model that is given by a function.

    estimator = Estimator(model_fn, model_dir="model")
    await estimator.train(input_fn, steps=1000)
    results = await estimator.evaluate(input_fn)
    async for prediction in estimator.predict(input_fn): ...

Each call builds a graph of its own: the input function makes features and labels, the model function makes the rest from these.
State passes from one call to the next through the checkpoints in `model_dir` only. Evaluations write their results to
`model_dir/eval`, or to `eval_<name>`.

Differences from TensorFlow, due to asyncio: `train` and `evaluate` are coroutines, and `predict` is an asynchronous iterator,
whose session is closed when the iteration ends or the iterator is closed (`contextlib.aclosing`).
"""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any

from aioexec.errors import GraphValueError, UnimplementedError
from aioexec.estimator.arguments import (
    argument_names,
    call_with,
    check_model_fn,
    check_positive,
    checked_hooks,
    checked_listeners,
)
from aioexec.estimator.evaluation_summaries import write_results
from aioexec.estimator.exporting import Export, export_model
from aioexec.estimator.input_functions import parse_input_fn_result
from aioexec.estimator.modes import ModeKeys
from aioexec.estimator.predictions import chosen, examples, warn_of_endless
from aioexec.estimator.run_config import RunConfig, path_text, with_defaults
from aioexec.estimator.specification import LOSS_METRIC_KEY, EstimatorSpec
from aioexec.estimator.training_hooks import TrainingHooks
from aioexec.estimator.warm_starts import WarmStartSettings, settings_of
from aioexec.graph.graph import Graph, get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.ops.control_flow.dependencies import group
from aioexec.ops.random.random_ops import set_random_seed
from aioexec.ops.training.metrics import mean
from aioexec.train.checkpoints.checkpoint_reader import (
    CheckpointReader,
    list_variables,
    load_variable,
)
from aioexec.train.checkpoints.checkpoint_state import latest_checkpoint
from aioexec.train.checkpoints.warm_starting import warm_start
from aioexec.train.device_setter import STANDARD_PS_OPS, replica_device_setter
from aioexec.train.global_steps import (
    _get_or_create_global_step_read,
    create_global_step,
    get_global_step,
)
from aioexec.train.hooks.saving_hooks import CheckpointSaverListener
from aioexec.train.hooks.session_run_hook import SessionRunHook
from aioexec.train.hooks.stopping_hooks import StopAtStepHook
from aioexec.train.off_loop import off_loop
from aioexec.train.sessions.evaluation import StopAfterNEvalsHook, evaluate_once, get_or_create_eval_step
from aioexec.train.sessions.monitored_session import MonitoredSession
from aioexec.train.sessions.scaffold import Scaffold
from aioexec.train.sessions.session_creators import ChiefSessionCreator

logger = logging.getLogger(__name__)

_EVALUATOR_AND_PS = ("evaluator", "ps")


class Estimator:
    """A model with its checkpoints.

    Args:
        model_fn: returns an EstimatorSpec; it is passed those of `features`, `labels`, `mode`, `params` and `config` that it
            takes.
        model_dir: folder of checkpoints and event files; by default that of `config`, else a new temporary one.
        config: a RunConfig.
        params: passed to the model function and to input functions that take `params`.
        warm_start_from: a checkpoint, or WarmStartSettings, for the first training.

    Raises:
        GraphValueError: the model function takes other arguments, or no `params` though some are given; the folders of
            `model_dir` and `config` differ; a subclass overrides a method.
        GraphTypeError: `config` is no RunConfig.
    """

    def __init__(
        self,
        model_fn: Callable[..., Any],
        model_dir: Any = None,
        config: RunConfig | None = None,
        params: Any = None,
        warm_start_from: Any = None,
    ) -> None:
        self._check_members()
        self._config = with_defaults(config, path_text(model_dir))
        logger.info("Using config: %s", self._config)
        check_model_fn(model_fn, params)
        self._model_fn = model_fn
        self._params = copy.deepcopy(params or {})
        self._warm_start_settings = settings_of(warm_start_from)

    def _check_members(self) -> None:
        """Subclasses may add methods; those of this class depend on each other.

        Raises:
            GraphValueError: one is overridden.
        """
        allowed = {"model_fn", "latest_checkpoint", "_check_members", "_create_global_step"}
        own = {name for name in vars(Estimator) if not name.startswith("__")} - allowed
        for kind in type(self).__mro__[: type(self).__mro__.index(Estimator)]:
            overridden = sorted(own & vars(kind).keys())
            if overridden:
                raise GraphValueError(
                    "Subclasses of Estimator cannot override members of Estimator. "
                    f"{type(self)} does override {overridden}"
                )

    @property
    def model_dir(self) -> str:
        folder = self._config.model_dir
        assert folder is not None
        return folder

    @property
    def config(self) -> RunConfig:
        """A copy of the settings."""
        return copy.deepcopy(self._config)

    @property
    def params(self) -> Any:
        """A copy of the parameters."""
        return copy.deepcopy(self._params)

    @property
    def model_fn(self) -> Callable[..., EstimatorSpec]:
        """The model function with the parameters: of (features, labels, mode, config)."""

        def public_model_fn(features: Any, labels: Any, mode: str, config: RunConfig) -> EstimatorSpec:
            return self._call_model_fn(features, labels, mode, config)

        return public_model_fn

    # Checkpoints; these methods read files, and block meanwhile

    def get_variable_value(self, name: str) -> Any:
        """Return the value of a variable in the latest checkpoint. Blocks.

        Raises:
            GraphValueError: there is no checkpoint.
            NotFoundError: it has no such variable.
        """
        return load_variable(self._trained(), name)

    def get_variable_names(self) -> list[str]:
        """Return the names of all variables in the latest checkpoint, sorted. Blocks.

        Raises:
            GraphValueError: there is no checkpoint.
        """
        return [name for name, _ in list_variables(self._trained())]

    def latest_checkpoint(self) -> str | None:
        """Return the path of the latest checkpoint; None if there is none. Blocks."""
        return latest_checkpoint(self.model_dir)

    def eval_dir(self, name: str | None = None) -> str:
        """Return the folder of the results of evaluations of this name."""
        return os.path.join(self.model_dir, f"eval_{name}" if name else "eval")

    def _trained(self) -> str:
        latest = self.latest_checkpoint()
        if latest is None:
            raise GraphValueError(f"Could not find trained model in model_dir: {self.model_dir}.")
        return latest

    # Training

    async def train(
        self,
        input_fn: Callable[..., Any],
        hooks: Iterable[SessionRunHook] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Iterable[CheckpointSaverListener] | None = None,
    ) -> Estimator:
        """Train from the latest checkpoint, or from the start; returns the estimator.

        Args:
            input_fn: returns (features, labels), or a dataset of these; it is passed those of `mode`, `params` and `config`
                that it takes.
            steps: the steps of this training; `max_steps`: the global step at which it ends. Without either it ends at the end
                of input.
            saving_listeners: are called for each checkpoint.

        Raises:
            GraphValueError: both `steps` and `max_steps`, or one is not positive; the task of this process does not train.
            GraphTypeError: a hook or listener is of another type.
            NanLossDuringTrainingError: the loss became NaN.
        """
        if self._config.task_type in _EVALUATOR_AND_PS:
            raise GraphValueError(
                "Train has been called wrong configuration. Please use tf.estimator.train_and_evaluate which calls proper "
                f"API according to given configuration. The task type is {self._config.task_type}."
            )
        if steps is not None and max_steps is not None:
            raise GraphValueError("Can not provide both steps and max_steps.")
        check_positive("steps", steps)
        check_positive("max_steps", max_steps)
        given, listeners = list(checked_hooks(hooks)), list(checked_listeners(saving_listeners))
        if max_steps is not None and max_steps <= await off_loop(_trained_steps, self.model_dir):
            logger.info("Skipping training since max_steps has already saved.")
            return self
        if steps is not None or max_steps is not None:
            given.append(StopAtStepHook(steps, max_steps))
        loss = await self._train_model(input_fn, given, listeners)
        logger.info("Loss for final step: %s.", loss)
        return self

    async def _train_model(
        self,
        input_fn: Callable[..., Any],
        hooks: list[SessionRunHook],
        listeners: list[CheckpointSaverListener],
    ) -> Any:
        """Build the graph and run it until a stop is requested; returns the last loss, None without a step."""
        graph = Graph()
        with graph.as_default(), graph.device(self._config.device_fn or _device_setter(self._config)):
            set_random_seed(self._config.tf_random_seed)
            self._create_global_step(graph)
            _get_or_create_global_step_read(graph)
            features, labels, input_hooks = self._inputs(input_fn, ModeKeys.TRAIN)
            spec = self._call_model_fn(features, labels, ModeKeys.TRAIN, self.config)
            await self._warm_start(await off_loop(latest_checkpoint, self.model_dir))
            session = TrainingHooks(self._config, spec, [*input_hooks, *hooks], listeners).session()
        loss, has_run = None, False
        async with session:
            while not session.should_stop():
                has_run = True
                _, loss = await session.run([spec.train_op, spec.loss])
        if not has_run:
            logger.warning("Training with estimator made no steps. Perhaps input is empty or misspecified.")
        return loss

    # Evaluation

    async def evaluate(
        self,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Iterable[SessionRunHook] | None = None,
        checkpoint_path: str | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """Evaluate the latest checkpoint; returns the values of the metrics, the loss and the global step by name.

        Args:
            input_fn: see `train`.
            steps: the batches to evaluate; None: to the end of input.
            checkpoint_path: another checkpoint; without any, variables have their initial values.
            name: the results are written to the folder `eval_<name>` instead of `eval`.

        Raises:
            GraphValueError: `steps` is not positive, or a metric is named "loss" or "global_step".
        """
        check_positive("steps", steps)
        given = list(checked_hooks(hooks))
        if steps is not None:
            given.append(StopAfterNEvalsHook(num_evals=steps))
        path = checkpoint_path or await self._latest_for("evaluate")
        graph = Graph()
        with graph.as_default():
            set_random_seed(self._config.tf_random_seed)
            self._create_global_step(graph)
            features, labels, input_hooks = self._inputs(input_fn, ModeKeys.EVAL)
            spec = self._call_model_fn(features, labels, ModeKeys.EVAL, self.config)
            update, values = _metrics_of(spec)
            if not path:
                await self._warm_start(None)
            results: dict[str, Any] = await evaluate_once(
                checkpoint_path=path or "",
                master=self._config.evaluation_master,
                scaffold=_evaluation_scaffold(spec.scaffold),
                eval_ops=update,
                final_ops=values,
                hooks=[*input_hooks, *given, *spec.evaluation_hooks],
                config=self._config.session_config,
            )
            await write_results(self.eval_dir(name), results, path)
        return results

    # Prediction

    async def predict(
        self,
        input_fn: Callable[..., Any],
        predict_keys: Any = None,
        hooks: Iterable[SessionRunHook] | None = None,
        checkpoint_path: str | None = None,
        yield_single_examples: bool = True,
    ) -> AsyncIterator[Any]:
        """Iterate over the predictions for an input, to its end.

        Args:
            input_fn: returns features, or (features, labels), or a dataset of either; see `train`.
            predict_keys: the predictions to compute, if they are a dict.
            checkpoint_path: by default the latest one; without any, variables have their initial values.
            yield_single_examples: an item for each example; otherwise one for each batch.

        Raises:
            GraphValueError: none of `predict_keys` is a prediction, or the predictions of a batch have different lengths.
        """
        given = list(checked_hooks(hooks))
        path = checkpoint_path or await self._latest_for("predict")
        graph = Graph()
        with graph.as_default():
            set_random_seed(self._config.tf_random_seed)
            self._create_global_step(graph)
            features, _, input_hooks = self._inputs(input_fn, ModeKeys.PREDICT)
            warn_of_endless(features)
            spec = self._call_model_fn(features, None, ModeKeys.PREDICT, self.config)
            if not path:
                await self._warm_start(None)
            predictions = chosen(spec.predictions, predict_keys)
            creator = ChiefSessionCreator(
                checkpoint_filename_with_path=path,
                master=self._config.master,
                scaffold=spec.scaffold,
                config=self._config.session_config,
            )
            session = MonitoredSession(creator, [*input_hooks, *given, *spec.prediction_hooks])
        async with session:
            while not session.should_stop():
                batch = await session.run(predictions)
                for item in examples(batch) if yield_single_examples else [batch]:
                    yield item

    # Export

    async def export_saved_model(
        self,
        export_dir_base: str,
        serving_input_receiver_fn: Callable[[], Any],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        experimental_mode: str = ModeKeys.PREDICT,
    ) -> bytes:
        """Write a model for serving as a SavedModel with the tag "serve"; returns the path of its folder.

        Args:
            export_dir_base: the folder of all versions; the new one is named by the time in seconds.
            serving_input_receiver_fn: returns a ServingInputReceiver.
            assets_extra: further files, by their paths below "assets.extra".
            as_text: write the proto in text form.
            checkpoint_path: by default the latest one.
            experimental_mode: only ModeKeys.PREDICT.

        Raises:
            GraphValueError: there is no checkpoint, or no signature can be served.
            UnimplementedError: another mode.
            OpError: the model cannot be written; no folder is left.
        """
        if experimental_mode != ModeKeys.PREDICT:
            raise UnimplementedError(
                f"export_saved_model: expected mode {ModeKeys.PREDICT!r}, got {experimental_mode!r}"
            )
        export = await self._export_of(checkpoint_path)
        return await export_model(
            export,
            export_dir_base,
            serving_input_receiver_fn,
            assets_extra,
            as_text=as_text,
            strip_default_attrs=True,
        )

    async def export_savedmodel(
        self,
        export_dir_base: str,
        serving_input_receiver_fn: Callable[[], Any],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        strip_default_attrs: bool = False,
    ) -> bytes:
        """The older form of `export_saved_model`.

        Args:
            strip_default_attrs: leave out attributes with their op's default, so that older readers need not know them.
        """
        return await export_model(
            await self._export_of(checkpoint_path),
            export_dir_base,
            serving_input_receiver_fn,
            assets_extra,
            as_text=as_text,
            strip_default_attrs=strip_default_attrs,
        )

    async def _export_of(self, checkpoint_path: str | None) -> Export:
        path = checkpoint_path or await off_loop(latest_checkpoint, self.model_dir)
        if path is None:
            raise GraphValueError(f"Couldn't find trained model at {self.model_dir}.")
        return Export(self._call_model_fn, self._create_global_step, self.config, path)

    # Calls of the user's functions

    def _create_global_step(self, graph: Graph) -> Any:
        return create_global_step(graph)

    def _inputs(self, input_fn: Callable[..., Any], mode: str) -> tuple[Any, Any, list[SessionRunHook]]:
        """Features, labels and hooks of an input function, whose nodes are on the CPU."""
        with get_default_graph().device("/cpu:0"):
            result = call_with(input_fn, mode=mode, params=self.params, config=self.config)
        return parse_input_fn_result(result)

    def _call_model_fn(self, features: Any, labels: Any, mode: str, config: RunConfig) -> EstimatorSpec:
        if labels is not None and "labels" not in argument_names(self._model_fn):
            raise GraphValueError("model_fn does not take labels, but input_fn returns labels.")
        logger.info("Calling model_fn.")
        spec = self._run_model_fn(
            features=features, labels=labels, mode=mode, params=self.params, config=config
        )
        logger.info("Done calling model_fn.")
        if not isinstance(spec, EstimatorSpec):
            raise GraphValueError(f"model_fn should return an EstimatorSpec, got {type(spec).__name__}.")
        return spec

    def _run_model_fn(self, **arguments: Any) -> Any:
        """What the model function returns for those of the arguments that it takes."""
        return call_with(self._model_fn, **arguments)

    async def _warm_start(self, checkpoint_path: str | None) -> None:
        """Take initial values from the warm start's checkpoint, if this estimator has none of its own."""
        settings: WarmStartSettings | None = self._warm_start_settings
        if settings is not None and not checkpoint_path:
            logger.info("Warm-starting with WarmStartSettings: %s", settings)
            await off_loop(warm_start, *settings)

    async def _latest_for(self, what: str) -> str | None:
        path = await off_loop(latest_checkpoint, self.model_dir)
        if path is None:
            logger.info(
                "Could not find trained model in model_dir: %s, running initialization to %s.",
                self.model_dir,
                what,
            )
        return path


def _device_setter(config: RunConfig) -> Callable[[Any], Any] | None:
    """The device function that puts variables on the parameter servers; None without any."""
    if not config.num_ps_replicas:
        return None
    return replica_device_setter(
        ps_tasks=config.num_ps_replicas,
        worker_device=f"/job:{config.task_type}/task:{config.task_id}",
        ps_ops=list(STANDARD_PS_OPS),
        cluster=config.cluster_spec,
    )


def _trained_steps(folder: str) -> int:
    """The global step of the latest checkpoint; 0 if there is none. Blocks."""
    path = latest_checkpoint(folder)
    if path is None:
        return 0
    with CheckpointReader(path) as reader:
        return (
            int(reader.get_tensor(GraphKeys.GLOBAL_STEP)) if reader.has_tensor(GraphKeys.GLOBAL_STEP) else 0
        )


def _metrics_of(spec: EstimatorSpec) -> tuple[Any, dict[str, Any]]:
    """The node that updates all metrics, and their values by name, with the mean of the loss and the global step."""
    for name in (LOSS_METRIC_KEY, GraphKeys.GLOBAL_STEP):
        if name in spec.eval_metric_ops:
            raise GraphValueError(
                f'Metric with name "{name}" is not allowed, because Estimator already defines a default metric with the '
                "same name."
            )
    metrics = {**spec.eval_metric_ops, LOSS_METRIC_KEY: mean(spec.loss)}
    values = {name: metrics[name][0] for name in sorted(metrics)}
    update = group(*(metrics[name][1] for name in sorted(metrics)))
    return update, {**values, GraphKeys.GLOBAL_STEP: get_global_step()}


def _evaluation_scaffold(scaffold: Scaffold) -> Scaffold:
    """The model's scaffold, which initialises the local variables of the evaluation too."""
    if scaffold.local_init_op is None:
        return scaffold
    get_or_create_eval_step()
    both = group(scaffold.local_init_op, Scaffold.default_local_init_op())
    return Scaffold(local_init_op=both, copy_from_scaffold=scaffold)
