"""Inputs from arrays in memory, under the names of `tf.estimator.inputs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.estimator.inputs.numpy_inputs import numpy_input_fn as numpy_input_fn
    from aioexec.estimator.inputs.pandas_inputs import pandas_input_fn as pandas_input_fn
else:
    __getattr__, __dir__ = public_names(__name__)
