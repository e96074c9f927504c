"""The signatures of a version as they are run: their steps are counted, and their requests joined to batches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from aioexec.batching import Batcher
from aioexec.batching.batched_models import Array, Signature
from aioexec.errors import InvalidArgumentError
from aioexec.graph.node import Tensor
from aioexec.serving.models.model_config import Batching

_log = logging.getLogger(__name__)


class CountedSteps:
    """A signature that calls `on_step` with the rows of each step."""

    def __init__(self, signature: Signature, on_step: Callable[[int], None]) -> None:
        self._signature = signature
        self._on_step = on_step
        self.name: str = signature.name
        self.inputs: Mapping[str, Tensor] = signature.inputs
        self.outputs: Mapping[str, Tensor] = signature.outputs

    async def run(
        self, inputs: Mapping[str, Any], outputs: Collection[str] | None = None
    ) -> dict[str, Array]:
        """Run a step; see `Signature.run`."""
        self._on_step(rows_of(inputs))
        return await self._signature.run(inputs, outputs)


def batched(signature: CountedSteps, batching: Batching) -> CountedSteps | Batcher:
    """Return a batcher of the signature; the signature itself if its inputs have no batch dimension."""
    try:
        return Batcher(
            signature,
            max_batch_size=batching.max_batch_size,
            max_delay=batching.max_delay,
            max_queue=batching.max_queue,
            buckets=batching.buckets,
        )
    except InvalidArgumentError as error:
        _log.warning("signature %r runs without batching: %s", signature.name, error.message)
        return signature


def rows_of(inputs: Mapping[str, Any]) -> int:
    """The size of the batch: the first dimension of the first input."""
    shape = np.shape(next(iter(inputs.values()), ()))
    return shape[0] if shape else 1
