"""Exporters: what `train_and_evaluate` calls after each evaluation."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aioexec.estimator.estimator import Estimator


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
