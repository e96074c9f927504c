"""The names of `tf.estimator.tpu`; here everything runs on the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.estimator.tpu.settings import (
        InputPipelineConfig as InputPipelineConfig,
        RunConfig as RunConfig,
        TPUConfig as TPUConfig,
    )
    from aioexec.estimator.tpu.specification import TPUEstimatorSpec as TPUEstimatorSpec
    from aioexec.estimator.tpu.tpu_estimator import TPUEstimator as TPUEstimator
else:
    __getattr__, __dir__ = public_names(__name__)
