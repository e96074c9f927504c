"""train_and_evaluate: trains, and evaluates the checkpoints meanwhile; locally, or as one task of a cluster.

Locally one loop does both: after each checkpoint, but not more often than `throttle_secs`, training pauses for an evaluation.
In a cluster that TF_CONFIG describes, the task of this process decides: the chief and workers train, parameter servers serve,
and the evaluator evaluates checkpoints of the model's folder until the last step.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Any, Final

from aioexec.distributed.server.server import Server
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.estimator.cluster_settings import TaskType
from aioexec.estimator.estimator import Estimator
from aioexec.estimator.run_config import RunConfig
from aioexec.estimator.specs import EvalSpec, TrainSpec
from aioexec.formats.protos import ConfigProto
from aioexec.graph.keys import GraphKeys
from aioexec.train.callbacks import settle
from aioexec.train.checkpoints.checkpoint_state import latest_checkpoint
from aioexec.train.hooks.saving_hooks import CheckpointSaverListener
from aioexec.train.hooks.timers import SecondOrStepTimer
from aioexec.train.off_loop import off_loop

logger = logging.getLogger(__name__)

_MOST_DELAY_SECS: Final = 60
_DELAY_SECS_PER_WORKER: Final = 5

Results = tuple[dict[str, Any] | None, list[Any] | None]
"""The metrics of the last evaluation, and what the exporters returned; None without an evaluation."""


async def train_and_evaluate(estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec) -> Any:
    """Train an estimator and evaluate it.

    Returns:
        (metrics, exports) of the last evaluation; None in a cluster.

    Raises:
        GraphTypeError: an argument is of another type.
        GraphValueError: TF_CONFIG has no such task.
    """
    for name, value, kind in (
        ("estimator", estimator, Estimator),
        ("train_spec", train_spec, TrainSpec),
        ("eval_spec", eval_spec, EvalSpec),
    ):
        if not isinstance(value, kind):
            raise GraphTypeError(
                f"`{name}` must have type `tf.estimator.{kind.__name__}`. Got: {type(value)}"
            )
    config = estimator.config
    if config.task_type == TaskType.EVALUATOR and config.task_id > 0:
        raise GraphValueError(
            "For distributed training, there can only be one `evaluator` task (with task id 0). "
            f"Given task id {config.task_id}"
        )
    evaluator = Evaluator(estimator, eval_spec, train_spec.max_steps)
    if config.task_type == TaskType.EVALUATOR:
        await _evaluate_continuously(evaluator, eval_spec, train_spec.max_steps)
        return None
    if not config.cluster_spec:
        logger.info("Running training and evaluation locally (non-distributed).")
        return await _train_with(estimator, train_spec, evaluator)
    return await _run_task(config, estimator, train_spec, evaluator)


async def _train_with(estimator: Estimator, spec: TrainSpec, evaluator: Evaluator) -> Results:
    """Train, and evaluate when checkpoints are saved."""
    listener = _EvaluationListener(evaluator)
    await estimator.train(
        spec.input_fn,
        hooks=spec.hooks,
        max_steps=spec.max_steps,
        saving_listeners=(*spec.saving_listeners, listener),
    )
    return listener.results


class Evaluator:
    """Evaluates the latest checkpoint, once, and calls the exporters.

    State: `_last` is the path of the last evaluated checkpoint.
    """

    def __init__(self, estimator: Estimator, spec: EvalSpec, max_steps: int | None) -> None:
        self._estimator = estimator
        self.spec = spec
        self._max_steps = max_steps
        self._last: str | None = None

    async def evaluate(self) -> Results:
        """Evaluate and export; (None, None) if there is no new checkpoint."""
        path = await off_loop(latest_checkpoint, self._estimator.model_dir)
        if path is None or path == self._last:
            logger.warning("No new checkpoint ready for evaluation in %s.", self._estimator.model_dir)
            return None, None
        metrics = await self._estimator.evaluate(
            self.spec.input_fn,
            steps=self.spec.steps,
            hooks=self.spec.hooks,
            checkpoint_path=path,
            name=self.spec.name,
        )
        exports = [
            await settle(
                exporter.export(
                    estimator=self._estimator,
                    export_path=os.path.join(self._estimator.model_dir, "export", exporter.name),
                    checkpoint_path=path,
                    eval_result=metrics,
                    is_the_final_export=bool(
                        self._max_steps and metrics[GraphKeys.GLOBAL_STEP] >= self._max_steps
                    ),
                )
            )
            for exporter in self.spec.exporters
        ]
        self._last = path
        return metrics, exports


class _EvaluationListener(CheckpointSaverListener):
    """Evaluates after a checkpoint was saved, except for the first, of the untrained model.

    State: `results` are those of the last evaluation.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._timer = SecondOrStepTimer(every_secs=evaluator.spec.throttle_secs)
        self._is_first = True
        self.results: Results = None, None

    async def after_save(self, session: Any, global_step_value: int) -> None:
        if self._is_first:
            self._is_first = False
        elif self._timer.should_trigger_for_step(global_step_value):
            await self._evaluate(global_step_value)
        else:
            logger.info(
                "Skip the current checkpoint eval due to throttle secs (%s secs).",
                self._evaluator.spec.throttle_secs,
            )

    async def end(self, session: Any, global_step_value: int) -> None:
        if global_step_value != self._timer.last_triggered_step():
            await self._evaluate(global_step_value)

    async def _evaluate(self, step: int) -> None:
        self._timer.update_last_triggered_step(step)
        self.results = await self._evaluator.evaluate()


# Tasks of a cluster


async def _run_task(config: RunConfig, estimator: Estimator, spec: TrainSpec, evaluator: Evaluator) -> None:
    """Serve and train as this process's task does, until the training ends; a parameter server serves until it is stopped."""
    server = _server_of(config)
    try:
        if server is not None:
            server.start()
        if config.task_type == TaskType.PS:
            assert server is not None
            await server.join()
            return
        if config.task_type not in (TaskType.CHIEF, TaskType.MASTER, TaskType.WORKER):
            raise GraphValueError(
                f"Task type {config.task_type} is not supported. "
                "Supported task types are ['chief', 'evaluator', 'master', 'ps', 'worker']"
            )
        await _wait_for_turn(config)
        if config.task_type == TaskType.MASTER:
            await _train_with(estimator, spec, evaluator)
        else:
            listeners = spec.saving_listeners if config.task_type == TaskType.CHIEF else None
            await estimator.train(
                spec.input_fn, hooks=spec.hooks, max_steps=spec.max_steps, saving_listeners=listeners
            )
    finally:
        if server is not None:
            await server.stop()


def _server_of(config: RunConfig) -> Server | None:
    """The server of this task; None for the only task of a cluster, which needs none."""
    if not config.master and config.task_type != TaskType.PS:
        return None
    session_config = ConfigProto()
    if config.session_config is not None:
        session_config.gpu_options.CopyFrom(config.session_config.gpu_options)
    return Server(
        config.cluster_spec,
        job_name=config.task_type,
        task_index=config.task_id,
        protocol=config.protocol,
        config=session_config,
        start=False,
    )


async def _wait_for_turn(config: RunConfig) -> None:
    """Let workers start one after another, which helps models with new variables to converge."""
    if config.task_type != TaskType.WORKER:
        return
    most = config.experimental_max_worker_delay_secs
    delay = min(_MOST_DELAY_SECS if most is None else most, (config.task_id + 1) * _DELAY_SECS_PER_WORKER)
    if delay > 0:
        logger.info("Waiting %d secs before starting training.", delay)
        await asyncio.sleep(delay)


async def _evaluate_continuously(evaluator: Evaluator, spec: EvalSpec, max_steps: int | None) -> None:
    """Evaluate new checkpoints until the one of the last step."""
    if spec.start_delay_secs:
        logger.info("Waiting %f secs before starting eval.", spec.start_delay_secs)
        await asyncio.sleep(spec.start_delay_secs)
    loop = asyncio.get_running_loop()
    while True:
        started = loop.time()
        metrics, _ = await evaluator.evaluate()
        step = metrics[GraphKeys.GLOBAL_STEP] if metrics else 0
        if max_steps and step >= max_steps:
            logger.info("Exiting evaluation, global_step=%s >= train max_steps=%s", step, max_steps)
            return
        await asyncio.sleep(max(0.0, started + spec.throttle_secs - loop.time()))
