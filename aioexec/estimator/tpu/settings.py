"""RunConfig, TPUConfig and InputPipelineConfig of `tf.contrib.tpu`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace as replaced
from typing import Any, Final, NamedTuple, Self

from aioexec.errors import GraphValueError
from aioexec.estimator.run_config import RunConfig as EstimatorRunConfig


class InputPipelineConfig:
    """How often an input function is called on TPUs; on the CPU it is called once."""

    PER_SHARD_V1: Final = 1
    PER_HOST_V1: Final = 2
    PER_HOST_V2: Final = 3
    BROADCAST: Final = 4
    SLICED: Final = 5


class _TPUConfig(NamedTuple):
    iterations_per_loop: int
    num_shards: int | None
    num_cores_per_replica: int | None
    per_host_input_for_training: Any
    tpu_job_name: str | None
    initial_infeed_sleep_secs: int | None
    input_partition_dims: Sequence[Any] | None
    eval_training_input_configuration: int
    experimental_host_call_every_n_steps: int


class TPUConfig(_TPUConfig):
    """Settings of TPUs, which have no effect on the CPU.

    Raises:
        GraphValueError: a number that is not positive.
    """

    __slots__ = ()

    def __new__(
        cls,
        iterations_per_loop: int = 2,
        num_shards: int | None = None,
        num_cores_per_replica: int | None = None,
        per_host_input_for_training: Any = True,
        tpu_job_name: str | None = None,
        initial_infeed_sleep_secs: int | None = None,
        input_partition_dims: Sequence[Any] | None = None,
        eval_training_input_configuration: int = InputPipelineConfig.PER_HOST_V1,
        experimental_host_call_every_n_steps: int = 1,
    ) -> Self:
        for name, value in (
            ("iterations_per_loop", iterations_per_loop),
            ("num_shards", num_shards),
            ("num_cores_per_replica", num_cores_per_replica),
        ):
            if value is not None and value <= 0:
                raise GraphValueError(f"TPUConfig {name} must be positive, got {value}")
        if isinstance(per_host_input_for_training, bool):
            per_host_input_for_training = (
                InputPipelineConfig.PER_HOST_V1
                if per_host_input_for_training
                else InputPipelineConfig.PER_SHARD_V1
            )
        return super().__new__(
            cls,
            iterations_per_loop,
            num_shards,
            num_cores_per_replica,
            per_host_input_for_training,
            tpu_job_name,
            initial_infeed_sleep_secs,
            input_partition_dims,
            eval_training_input_configuration,
            experimental_host_call_every_n_steps,
        )


class RunConfig(EstimatorRunConfig):
    """The settings of a TPUEstimator.

    Args:
        tpu_config: a TPUConfig.
        master, evaluation_master: targets of sessions, by default those of TF_CONFIG.
        cluster: a ClusterResolver, which gives the target instead.
        kwargs: those of `estimator.RunConfig`.

    Raises:
        GraphValueError: both a cluster and a master; see `estimator.RunConfig`.
    """

    def __init__(
        self,
        tpu_config: TPUConfig | None = None,
        evaluation_master: str | None = None,
        master: str | None = None,
        cluster: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if master is not None and master != "" and cluster is not None:
            raise GraphValueError("You cannot have both master and cluster in a RunConfig")
        self._tpu_config = tpu_config or TPUConfig()
        self._resolver = cluster
        if cluster is not None:
            master = cluster.master()
        if master is not None:
            self._cluster = replaced(self._cluster, master=master)
        if evaluation_master is not None or master is not None:
            of_evaluation = master if evaluation_master is None else evaluation_master
            self._cluster = replaced(self._cluster, evaluation_master=of_evaluation or "")

    @property
    def tpu_config(self) -> TPUConfig:
        return self._tpu_config

    @property
    def cluster(self) -> Any:
        """The given ClusterResolver."""
        return self._resolver

    def replace(self, **kwargs: Any) -> Self:
        """Return a copy with other values; `tpu_config` may be replaced too."""
        tpu_config = kwargs.pop("tpu_config", self._tpu_config)
        copied = super().replace(**kwargs)
        copied._tpu_config = tpu_config
        return copied
