"""Loads a version of a model and warms it: afterwards the kernels of its signatures are compiled, and its plans made."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from aioexec.dtypes import string
from aioexec.errors import OpError
from aioexec.graph.node import Tensor
from aioexec.serving.models.model_config import ModelConfig
from aioexec.serving.models.run_listeners import RunListener
from aioexec.serving.models.served_version import Model, ServedVersion, Signature

_WARM_SECONDS: Final = 60.0
"""The most seconds of warming: a signature may run forever for zeros."""

_RUNS: Final = 2
"""Of each signature: plans for concrete shapes are made at the second run."""

_log = logging.getLogger(__name__)


class ClosableModel(Model, Protocol):
    """A loaded model that can be closed."""

    async def close(self) -> None:
        """Release what it holds."""


Loader = Callable[[str], Awaitable[ClosableModel]]
"""Loads the SavedModel in a folder, without blocking the loop."""


async def load_version(
    config: ModelConfig, version: int, path: str, load: Loader, listeners: Sequence[RunListener]
) -> ServedVersion:
    """Load a version from its folder, and warm it."""
    model = await load(path)
    served = ServedVersion(
        config.name, version, model, close=model.close, listeners=listeners, batching=config.batching
    )
    if config.is_warmed:
        try:
            await _warm(served, [1] if config.batching is None else config.batching.sizes)
        except BaseException:
            await served.close()
            raise
    return served


async def _warm(served: ServedVersion, sizes: Sequence[int]) -> None:
    """Run each signature with zeros, in batches of these sizes.

    One that fails for them is left as it is, since zeros may be no valid input.
    """
    try:
        async with asyncio.timeout(_WARM_SECONDS):
            for signature in served.signatures.values():
                for size in sizes:
                    await _run(signature, size)
    except TimeoutError:
        _log.warning("model %r version %d: not warm after %g s", served.name, served.version, _WARM_SECONDS)


async def _run(signature: Signature, size: int) -> None:
    inputs = {name: _zeros(tensor, size) for name, tensor in signature.inputs.items()}
    try:
        for _ in range(_RUNS):
            await signature.run(inputs)
    except OpError as error:
        _log.info("signature %r is not warmed: %s", signature.name, error.message)


def _zeros(tensor: Tensor, size: int) -> npt.NDArray[Any]:
    """Zeros of the tensor's dtype and shape, with `size` for an unknown first dimension, and 1 for the others."""
    shape = [1 if known is None else known for known in tensor.dims or ()]
    if shape and tensor.dims is not None and tensor.dims[0] is None:
        shape[0] = size
    if tensor.dtype == string:
        return np.full(shape, b"", object)
    return np.zeros(shape, tensor.dtype.as_numpy_dtype)
