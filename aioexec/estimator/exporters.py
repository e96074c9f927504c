"""Exporters: what `train_and_evaluate` calls after each evaluation."""

from __future__ import annotations

import glob
import inspect
import logging
import os
import shutil
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from aioexec.errors import GraphValueError
from aioexec.formats.event_files import summary_iterator
from aioexec.train.off_loop import off_loop

if TYPE_CHECKING:
    from aioexec.estimator.estimator import Estimator

logger = logging.getLogger(__name__)

_LOSS = "loss"


class Exporter:
    """The interface of an exporter; subclasses define both members."""

    @property
    def name(self) -> str:
        """The folder of its exports below `model_dir/export`."""
        raise NotImplementedError(f"{type(self).__name__} does not define name")

    def export(
        self,
        estimator: Estimator,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> Awaitable[Any] | Any:
        """Export a model, or not, by the results of its evaluation; plain or `async def`.

        Args:
            export_path: the folder for the exports of this exporter.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define export")


class _SavedModelExporter(Exporter):
    """Writes SavedModels.

    Constant: `_arguments` of `Estimator.export_saved_model`; `_exports_to_keep`, the number of versions, None for all.
    """

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Callable[[], Any] | None,
        assets_extra: Mapping[str, str] | None,
        as_text: bool,
        exports_to_keep: int | None,
    ) -> None:
        if exports_to_keep is not None and exports_to_keep <= 0:
            raise GraphValueError("`exports_to_keep`, if provided, must be positive number")
        self._name = name
        self._arguments = serving_input_receiver_fn, assets_extra, as_text
        self._exports_to_keep = exports_to_keep

    @property
    def name(self) -> str:
        return self._name

    async def _export(self, estimator: Estimator, export_path: str, checkpoint_path: str) -> bytes:
        """Write a version, and remove the oldest ones."""
        receiver_fn, assets_extra, as_text = self._arguments
        if receiver_fn is None:
            raise GraphValueError(f"{type(self).__name__}: serving_input_receiver_fn must be given")
        path = await estimator.export_saved_model(
            export_path,
            receiver_fn,
            assets_extra=assets_extra,
            as_text=as_text,
            checkpoint_path=checkpoint_path,
        )
        if self._exports_to_keep is not None:
            await off_loop(_remove_oldest, export_path, self._exports_to_keep)
        return path


class FinalExporter(_SavedModelExporter):
    """Exports the model once, at the end of the training.

    Args:
        name: the folder of the export below `model_dir/export`.
        serving_input_receiver_fn, assets_extra, as_text: see `Estimator.export_saved_model`.
    """

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Callable[[], Any],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
    ) -> None:
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, None)

    async def export(
        self,
        estimator: Estimator,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> bytes | None:
        """Export the model if this is the end of the training; returns the path of the SavedModel."""
        return await self._export(estimator, export_path, checkpoint_path) if is_the_final_export else None


class LatestExporter(_SavedModelExporter):
    """Exports the model after each evaluation.

    Args:
        name: the folder of the exports below `model_dir/export`.
        serving_input_receiver_fn, assets_extra, as_text: see `Estimator.export_saved_model`.
        exports_to_keep: the number of versions to keep; None for all.

    Raises:
        GraphValueError: `exports_to_keep` is not positive.
    """

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Callable[[], Any],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ) -> None:
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, exports_to_keep)

    async def export(
        self,
        estimator: Estimator,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> bytes | None:
        """Export the model; returns the path of the SavedModel."""
        return await self._export(estimator, export_path, checkpoint_path)


def _loss_smaller(best_eval_result: Mapping[str, Any], current_eval_result: Mapping[str, Any]) -> bool:
    """Whether the loss of the current evaluation is lower.

    Raises:
        GraphValueError: one of them has no loss.
    """
    for what, result in (
        ("best_eval_result", best_eval_result),
        ("current_eval_result", current_eval_result),
    ):
        if not result or _LOSS not in result:
            raise GraphValueError(f"{what} cannot be empty or no loss is found in it.")
    return bool(best_eval_result[_LOSS] > current_eval_result[_LOSS])


class BestExporter(_SavedModelExporter):
    """Exports the model after each evaluation that is better than all before.

    Args:
        name: the folder of the exports below `model_dir/export`.
        serving_input_receiver_fn, assets_extra, as_text: see `Estimator.export_saved_model`.
        event_file_pattern: the event files of earlier evaluations, below the folder of the model; None to begin anew.
        compare_fn: of `best_eval_result` and `current_eval_result`: whether the current one is better.
        exports_to_keep: the number of versions to keep; None for all.

    Raises:
        GraphValueError: `compare_fn` takes other arguments, or `exports_to_keep` is not positive.

    State: `_best`, the best results so far; `_model_dir`, the folder whose event files were read.
    """

    def __init__(
        self,
        name: str = "best_exporter",
        serving_input_receiver_fn: Callable[[], Any] | None = None,
        event_file_pattern: str | None = "eval/*.tfevents.*",
        compare_fn: Callable[..., bool] = _loss_smaller,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ) -> None:
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, exports_to_keep)
        _check_compare_fn(compare_fn)
        self._compare_fn = compare_fn
        self._event_file_pattern = event_file_pattern
        self._model_dir: str | None = None
        self._best: Mapping[str, Any] | None = None

    async def export(
        self,
        estimator: Estimator,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> bytes | None:
        """Export the model if its results are the best so far; returns the path of the SavedModel, else None."""
        if self._event_file_pattern and self._model_dir != estimator.model_dir:
            self._model_dir = estimator.model_dir
            pattern = os.path.join(self._model_dir, self._event_file_pattern)
            self._best = await off_loop(self._best_before, pattern, eval_result)
        if self._best is not None and not self._compare_fn(
            best_eval_result=self._best, current_eval_result=eval_result
        ):
            logger.info("Keeping the current best model.")
            return None
        path = await self._export(estimator, export_path, checkpoint_path)
        self._best = eval_result
        return path

    def _best_before(self, pattern: str, present: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The best results in event files, without those of the present evaluation. Blocks."""
        best: Mapping[str, Any] | None = None
        for path in sorted(glob.glob(pattern)):
            for event in summary_iterator(path):
                found = {
                    each.tag: each.simple_value
                    for each in event.summary.value
                    if each.HasField("simple_value")
                }
                if not found or event.step == present.get("global_step"):
                    continue
                if best is None or self._compare_fn(best_eval_result=best, current_eval_result=found):
                    best = found
        return best


def _check_compare_fn(compare_fn: Any) -> None:
    if compare_fn is None:
        raise GraphValueError("`compare_fn` must not be None.")
    names = set(inspect.signature(compare_fn).parameters)
    for name in ("best_eval_result", "current_eval_result"):
        if name not in names:
            raise GraphValueError(f"compare_fn ({compare_fn}) must include {name} argument.")
    other = names - {"best_eval_result", "current_eval_result"}
    if other:
        raise GraphValueError(f"compare_fn ({compare_fn}) has following not expected args: {sorted(other)}")


def _remove_oldest(folder: str, kept: int) -> None:
    """Remove all but the latest versions in a folder of exports."""
    versions = sorted((name for name in os.listdir(folder) if name.isdigit()), key=int)
    for name in versions[:-kept]:
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
