"""The names of `tf.contrib.tpu` that programs use also without a TPU; here everything runs on the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib.tpu.bfloat16 import bfloat16_scope as bfloat16_scope
    from aioexec.estimator.tpu.settings import (
        InputPipelineConfig as InputPipelineConfig,
        RunConfig as RunConfig,
        TPUConfig as TPUConfig,
    )
    from aioexec.estimator.tpu.specification import TPUEstimatorSpec as TPUEstimatorSpec
    from aioexec.estimator.tpu.tpu_estimator import TPUEstimator as TPUEstimator
    from aioexec.train.optimizers.cross_shard import (
        CrossShardOptimizer as CrossShardOptimizer,
        cross_replica_sum as cross_replica_sum,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
