"""TPUEstimator: an Estimator whose functions get the batch size in `params`; here it runs on the CPU."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from aioexec.errors import GraphTypeError, GraphValueError, UnimplementedError
from aioexec.estimator.arguments import argument_names, call_with
from aioexec.estimator.estimator import Estimator
from aioexec.estimator.modes import ModeKeys
from aioexec.estimator.specification import EstimatorSpec
from aioexec.estimator.tpu.settings import RunConfig
from aioexec.estimator.tpu.specification import TPUEstimatorSpec
from aioexec.train.hooks.session_run_hook import SessionRunHook

logger = logging.getLogger(__name__)

_RESERVED = ("batch_size", "context")


class TPUEstimator(Estimator):
    """An Estimator whose model function may return a TPUEstimatorSpec.

    `params` of the model function and of input functions, which must take them, have the entry `batch_size`, and those of the
    model function `use_tpu`, which is False.

    Args:
        config: a `contrib.tpu.RunConfig`.
        params: a dict without the reserved entries, or an object with `add_hparam`.
        use_tpu: must be False.
        train_batch_size, eval_batch_size, predict_batch_size: the batch size of each mode.
        batch_axis, eval_on_tpu, export_to_tpu, export_to_cpu: have no effect on the CPU.

    The others are those of Estimator.

    Raises:
        UnimplementedError: `use_tpu` is true.
        GraphValueError: a reserved entry, or no batch size for training; see Estimator.
        GraphTypeError: `config` is no such RunConfig.
    """

    def __init__(
        self,
        model_fn: Callable[..., Any],
        model_dir: Any = None,
        config: RunConfig | None = None,
        params: Any = None,
        use_tpu: bool = True,
        train_batch_size: int | None = None,
        eval_batch_size: int | None = None,
        predict_batch_size: int | None = None,
        batch_axis: Any = None,
        eval_on_tpu: bool = True,
        export_to_tpu: bool = True,
        export_to_cpu: bool = True,
        warm_start_from: Any = None,
    ) -> None:
        if use_tpu:
            raise UnimplementedError(
                "TPUEstimator: there are no TPUs here; pass use_tpu=False to run on the CPU"
            )
        if not isinstance(config, RunConfig):
            raise GraphTypeError("`config` must be `tf.contrib.tpu.RunConfig`")
        for name in _RESERVED:
            if params is not None and name in _names_of(params):
                raise GraphValueError(f"{list(_RESERVED)} are reserved keys but existed in params {params}.")
        self._batch_sizes = {
            ModeKeys.TRAIN: train_batch_size,
            ModeKeys.EVAL: eval_batch_size,
            ModeKeys.PREDICT: predict_batch_size,
        }
        # The model function must take params, since they have the batch size.
        super().__init__(model_fn, model_dir, config, {} if params is None else params, warm_start_from)

    def _check_members(self) -> None:
        """Its own methods may replace those of the base."""

    def _inputs(self, input_fn: Callable[..., Any], mode: str) -> tuple[Any, Any, list[SessionRunHook]]:
        if "params" not in argument_names(input_fn):
            raise GraphValueError(
                f"input_fn ({input_fn}) does not include params argument, required by TPUEstimator to pass batch size as "
                'params["batch_size"]'
            )

        def with_batch_size(mode: str, params: Any, config: Any) -> Any:
            self._add_batch_size(params, mode)
            return call_with(input_fn, mode=mode, params=params, config=config)

        return super()._inputs(with_batch_size, mode)

    def _call_model_fn(self, features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
        logger.info("Running %s on CPU", mode)
        return super()._call_model_fn(features, labels, mode, config)

    def _run_model_fn(self, **arguments: Any) -> Any:
        params = arguments["params"]
        self._add_batch_size(params, arguments["mode"])
        _put(params, "use_tpu", False)
        spec = super()._run_model_fn(**arguments)
        return spec.as_estimator_spec() if isinstance(spec, TPUEstimatorSpec) else spec

    def _add_batch_size(self, params: Any, mode: str) -> None:
        size = self._batch_sizes[mode]
        if size is None and mode == ModeKeys.TRAIN:
            raise GraphValueError("TPUEstimator: train_batch_size must be set to train")
        if size is not None:
            _put(params, "batch_size", size)


def _names_of(params: Any) -> Any:
    return params.values() if hasattr(params, "add_hparam") else params


def _put(params: Any, name: str, value: Any) -> None:
    """Add an entry to a dict, or to hyperparameters."""
    if not hasattr(params, "add_hparam"):
        params[name] = value
    elif name in params:
        params.set_hparam(name, value)
    else:
        params.add_hparam(name, value)
