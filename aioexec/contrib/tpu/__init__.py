"""The names of `tf.contrib.tpu` that programs use also without a TPU; here everything runs on the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib.tpu.cross_shard import (
        CrossShardOptimizer as CrossShardOptimizer,
        cross_replica_sum as cross_replica_sum,
    )
    from aioexec.contrib.tpu.settings import (
        InputPipelineConfig as InputPipelineConfig,
        RunConfig as RunConfig,
        TPUConfig as TPUConfig,
    )
    from aioexec.contrib.tpu.specification import TPUEstimatorSpec as TPUEstimatorSpec
    from aioexec.contrib.tpu.tpu_estimator import TPUEstimator as TPUEstimator
else:
    __getattr__, __dir__ = public_names(__name__)
