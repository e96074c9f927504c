"""Estimators under the names of `tf.estimator`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.estimator import export as export, inputs as inputs, tpu as tpu
    from aioexec.estimator.canned.baseline import (
        BaselineClassifier as BaselineClassifier,
        BaselineRegressor as BaselineRegressor,
    )
    from aioexec.estimator.canned.deep import DNNClassifier as DNNClassifier, DNNRegressor as DNNRegressor
    from aioexec.estimator.canned.linear import (
        LinearClassifier as LinearClassifier,
        LinearRegressor as LinearRegressor,
    )
    from aioexec.estimator.canned.wide_and_deep import (
        DNNLinearCombinedClassifier as DNNLinearCombinedClassifier,
        DNNLinearCombinedRegressor as DNNLinearCombinedRegressor,
    )
    from aioexec.estimator.estimator import Estimator as Estimator
    from aioexec.estimator.exporters import (
        BestExporter as BestExporter,
        Exporter as Exporter,
        FinalExporter as FinalExporter,
        LatestExporter as LatestExporter,
    )
    from aioexec.estimator.modes import ModeKeys as ModeKeys
    from aioexec.estimator.parsing import (
        classifier_parse_example_spec as classifier_parse_example_spec,
        regressor_parse_example_spec as regressor_parse_example_spec,
    )
    from aioexec.estimator.run_config import RunConfig as RunConfig
    from aioexec.estimator.specification import EstimatorSpec as EstimatorSpec
    from aioexec.estimator.specs import EvalSpec as EvalSpec, TrainSpec as TrainSpec
    from aioexec.estimator.training import train_and_evaluate as train_and_evaluate
    from aioexec.estimator.warm_starts import WarmStartSettings as WarmStartSettings
    from aioexec.train.checkpoints.warm_starting import VocabInfo as VocabInfo
    from aioexec.train.hooks.feed_hooks import FeedFnHook as FeedFnHook, FinalOpsHook as FinalOpsHook
    from aioexec.train.hooks.logging_hooks import (
        LoggingTensorHook as LoggingTensorHook,
        StepCounterHook as StepCounterHook,
    )
    from aioexec.train.hooks.profiler_hook import ProfilerHook as ProfilerHook
    from aioexec.train.hooks.saving_hooks import (
        CheckpointSaverHook as CheckpointSaverHook,
        CheckpointSaverListener as CheckpointSaverListener,
    )
    from aioexec.train.hooks.session_run_hook import (
        SessionRunArgs as SessionRunArgs,
        SessionRunContext as SessionRunContext,
        SessionRunHook as SessionRunHook,
        SessionRunValues as SessionRunValues,
    )
    from aioexec.train.hooks.stopping_hooks import (
        GlobalStepWaiterHook as GlobalStepWaiterHook,
        NanLossDuringTrainingError as NanLossDuringTrainingError,
        NanTensorHook as NanTensorHook,
        StopAtStepHook as StopAtStepHook,
    )
    from aioexec.train.hooks.summary_hooks import SummarySaverHook as SummarySaverHook
    from aioexec.train.hooks.timers import SecondOrStepTimer as SecondOrStepTimer
else:
    __getattr__, __dir__ = public_names(__name__)
