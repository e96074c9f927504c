"""Predictions of an estimator: which are computed, and the one of each example."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from aioexec.errors import GraphValueError
from aioexec.graph.graph import get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Tensor
from aioexec.ops.control_flow.nesting import flatten

logger = logging.getLogger(__name__)


def warn_of_endless(features: Any) -> None:
    """Warn if neither a dataset nor a queue ends the input."""
    graph = get_default_graph()
    tensors = [value for value in flatten(features) if isinstance(value, Tensor)]
    if any(tensor.op.type == "IteratorGetNext" for tensor in tensors):
        return
    if not graph.get_collection(GraphKeys.QUEUE_RUNNERS):
        logger.warning(
            "Input graph does not use tf.data.Dataset or contain a QueueRunner. That means predict yields forever. "
            "This is probably a mistake."
        )


def chosen(predictions: Any, keys: Any) -> Any:
    """The predictions with these names; all if there are no names.

    Raises:
        GraphValueError: the predictions have no names, or none of these.
    """
    if not keys:
        return predictions
    if not isinstance(predictions, dict):
        raise GraphValueError("predict_keys argument is not valid in case of non-dict predictions.")
    found = {key: value for key, value in predictions.items() if key in keys}
    if not found:
        raise GraphValueError(
            f"Expected to run at least one output from {list(predictions)}, provided {keys}."
        )
    return found


def examples(batch: Any) -> Iterable[Any]:
    """The predictions for each example of a batch.

    Raises:
        GraphValueError: they have different lengths.
    """
    if not isinstance(batch, dict):
        return list(batch)
    lengths = {key: len(value) for key, value in batch.items()}
    if len(set(lengths.values())) > 1:
        raise GraphValueError(f"Batch length of predictions should be same, but they are {lengths}.")
    return [
        {key: value[number] for key, value in batch.items()}
        for number in range(next(iter(lengths.values()), 0))
    ]
