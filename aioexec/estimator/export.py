"""The inputs and outputs of exported models under the names of `tf.estimator.export`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.estimator.export_outputs import (
        ClassificationOutput as ClassificationOutput,
        ExportOutput as ExportOutput,
        PredictOutput as PredictOutput,
        RegressionOutput as RegressionOutput,
    )
    from aioexec.estimator.serving_inputs import (
        ServingInputReceiver as ServingInputReceiver,
        TensorServingInputReceiver as TensorServingInputReceiver,
        build_parsing_serving_input_receiver_fn as build_parsing_serving_input_receiver_fn,
        build_raw_serving_input_receiver_fn as build_raw_serving_input_receiver_fn,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
