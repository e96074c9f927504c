"""ModeKeys and RunConfig of `tf.contrib.learn`."""

from __future__ import annotations

from dataclasses import replace as replaced
from typing import Any, Final

from aioexec.estimator.run_config import RunConfig as EstimatorRunConfig
from aioexec.formats.protos import ConfigProto


class ModeKeys:
    """The modes of a model function."""

    TRAIN: Final = "train"
    EVAL: Final = "eval"
    INFER: Final = "infer"


class RunConfig(EstimatorRunConfig):
    """The settings of an estimator, with those of sessions as arguments.

    Args:
        master, evaluation_master: targets of sessions, by default those of TF_CONFIG.
        num_cores: threads of the CPU; 0: as many as it has.
        log_device_placement: log the device of each node.
        gpu_memory_fraction: the share of a GPU's memory that is used.

    The others are those of `estimator.RunConfig`; `session_config` replaces what the arguments say of sessions.
    """

    def __init__(
        self,
        master: str | None = None,
        num_cores: int = 0,
        log_device_placement: bool = False,
        gpu_memory_fraction: float = 1,
        tf_random_seed: int | None = None,
        save_summary_steps: int | None = 100,
        save_checkpoints_secs: Any = 600,
        save_checkpoints_steps: Any = None,
        keep_checkpoint_max: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000,
        log_step_count_steps: int | None = 100,
        protocol: str | None = None,
        evaluation_master: str = "",
        model_dir: Any = None,
        session_config: Any = None,
    ) -> None:
        if session_config is None:
            session_config = ConfigProto(
                log_device_placement=log_device_placement,
                inter_op_parallelism_threads=num_cores,
                intra_op_parallelism_threads=num_cores,
            )
            session_config.gpu_options.per_process_gpu_memory_fraction = gpu_memory_fraction
        super().__init__(
            model_dir=model_dir,
            tf_random_seed=tf_random_seed,
            save_summary_steps=save_summary_steps,
            save_checkpoints_steps=save_checkpoints_steps,
            save_checkpoints_secs=None if save_checkpoints_steps is not None else save_checkpoints_secs,
            session_config=session_config,
            keep_checkpoint_max=keep_checkpoint_max,
            keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
            log_step_count_steps=log_step_count_steps,
            protocol=protocol,
        )
        if master is not None:
            self._cluster = replaced(self._cluster, master=master)
        if evaluation_master:
            self._cluster = replaced(self._cluster, evaluation_master=evaluation_master)

    @property
    def tf_config(self) -> Any:
        """The older name of `session_config`."""
        return self.session_config
