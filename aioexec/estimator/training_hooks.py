"""The hooks of an estimator's training: those of the caller and the model, and those that its settings ask for."""

from __future__ import annotations

from aioexec.errors import GraphValueError
from aioexec.estimator.cluster_settings import TaskType
from aioexec.estimator.run_config import RunConfig
from aioexec.estimator.specification import EstimatorSpec
from aioexec.graph.graph import get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.ops.io.summary_functions import scalar
from aioexec.train.checkpoints.saver import Saver
from aioexec.train.global_steps import get_global_step
from aioexec.train.hooks.logging_hooks import LoggingTensorHook, StepCounterHook
from aioexec.train.hooks.saving_hooks import CheckpointSaverHook, CheckpointSaverListener
from aioexec.train.hooks.session_run_hook import SessionRunHook
from aioexec.train.hooks.stopping_hooks import NanTensorHook
from aioexec.train.hooks.summary_hooks import SummarySaverHook
from aioexec.train.sessions.monitored_session import MonitoredSession
from aioexec.train.sessions.monitored_training import MonitoredTrainingSession


class TrainingHooks:
    """The hooks and the session of one training; made in its graph, which is the default one.

    Args:
        first: the hooks of the input and of the caller, which come first.
        listeners: added to the hook that saves checkpoints.

    State: `worker`: the hooks of each task; `chief`: those of the chief only.
    """

    def __init__(
        self,
        config: RunConfig,
        spec: EstimatorSpec,
        first: list[SessionRunHook],
        listeners: list[CheckpointSaverListener],
    ) -> None:
        self._config = config
        self._spec = spec
        graph = get_default_graph()
        if not any(summary.op.name == "loss" for summary in graph.get_collection(GraphKeys.SUMMARIES)):
            scalar("loss", spec.loss)
        graph.add_to_collection(GraphKeys.LOSSES, spec.loss)
        self.worker: list[SessionRunHook] = [*first, NanTensorHook(spec.loss)]
        if config.log_step_count_steps is not None:
            logged = {"loss": spec.loss, "step": get_global_step()}
            self.worker.append(LoggingTensorHook(logged, every_n_iter=config.log_step_count_steps))
        self.worker.extend(spec.training_hooks)
        _add_saver(config, spec)
        self.chief: list[SessionRunHook] = []
        self._add_listeners(listeners)
        self.chief.extend(spec.training_chief_hooks)

    def _add_listeners(self, listeners: list[CheckpointSaverListener]) -> None:
        """Add the hook that saves checkpoints, unless the caller or the model has one, and its listeners."""
        config = self._config
        savers = [
            hook
            for hook in (*self.worker, *self._spec.training_chief_hooks)
            if isinstance(hook, CheckpointSaverHook)
        ]
        if not savers and (config.save_checkpoints_secs or config.save_checkpoints_steps):
            assert config.model_dir is not None
            hook = CheckpointSaverHook(
                config.model_dir,
                save_secs=config.save_checkpoints_secs,
                save_steps=config.save_checkpoints_steps,
                scaffold=self._spec.scaffold,
                save_graph_def=config.checkpoint_save_graph_def,
            )
            savers = [hook]
            self.chief.append(hook)
        if listeners and not savers:
            raise GraphValueError(
                "There should be a CheckpointSaverHook to use saving_listeners. Please set one of the "
                "RunConfig.save_checkpoints_steps or RunConfig.save_checkpoints_secs."
            )
        for listener in listeners:
            savers[0].add_listener(listener)

    def session(self) -> MonitoredSession:
        """The session, not opened yet."""
        config, has_own_summaries = self._config, self._summarizes_elsewhere()
        return MonitoredTrainingSession(
            master=config.master,
            is_chief=config.is_chief,
            checkpoint_dir=config.model_dir,
            scaffold=self._spec.scaffold,
            hooks=self.worker,
            chief_only_hooks=self.chief,
            save_checkpoint_secs=0,  # the hook is among the chief's
            save_summaries_steps=0 if has_own_summaries else config.save_summary_steps,
            config=config.session_config,
            max_wait_secs=config.session_creation_timeout_secs,
            log_step_count_steps=None if has_own_summaries else config.log_step_count_steps,
            save_graph_def=config.checkpoint_save_graph_def,
        )

    def _summarizes_elsewhere(self) -> bool:
        """Whether worker 0 writes the summaries, because the master evaluates too; adds the hooks to that worker."""
        config = self._config
        if not {TaskType.WORKER, TaskType.MASTER} <= set(config.cluster_spec.jobs):
            return False
        if config.task_type == TaskType.WORKER and config.task_id == 0:
            folder = config.model_dir
            if config.save_summary_steps:
                self.worker.append(
                    SummarySaverHook(
                        save_steps=config.save_summary_steps, output_dir=folder, scaffold=self._spec.scaffold
                    )
                )
            if config.log_step_count_steps:
                self.worker.append(
                    StepCounterHook(every_n_steps=config.log_step_count_steps, output_dir=folder)
                )
        return True


def _add_saver(config: RunConfig, spec: EstimatorSpec) -> None:
    """Add a saver to the graph, unless the model has one."""
    graph = get_default_graph()
    if spec.scaffold.saver is None and not graph.get_collection(GraphKeys.SAVERS):
        saver = Saver(
            sharded=True,
            max_to_keep=config.keep_checkpoint_max,
            keep_checkpoint_every_n_hours=config.keep_checkpoint_every_n_hours or 10000,
            defer_build=True,
            save_relative_paths=True,
        )
        graph.add_to_collection(GraphKeys.SAVERS, saver)
