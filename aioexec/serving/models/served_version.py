"""`ServedVersion`: a loaded version of a model, whose signatures requests run."""

from __future__ import annotations

import reprlib
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping, Sequence
from time import perf_counter
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from aioexec.batching import Batcher
from aioexec.errors import OK, InvalidArgumentError
from aioexec.graph.node import Tensor
from aioexec.serving.models.batched_signatures import CountedSteps, batched, rows_of
from aioexec.serving.models.model_config import Batching
from aioexec.serving.models.run_listeners import Run, RunListener, code_of

Array = npt.NDArray[Any]

DEFAULT_SIGNATURE = "serving_default"
"""The signature of a request that names none."""


class Signature(Protocol):
    """What serving uses of a signature: its tensors by the names in requests, and a coroutine that runs it."""

    @property
    def name(self) -> str:
        """Its key in the model, such as "serving_default"."""

    @property
    def method_name(self) -> str:
        """What it is for, such as "tensorflow/serving/predict"."""

    @property
    def inputs(self) -> Mapping[str, Tensor]:
        """The tensors to feed."""

    @property
    def outputs(self) -> Mapping[str, Tensor]:
        """The tensors that can be fetched."""

    async def run(
        self, inputs: Mapping[str, Any], outputs: Collection[str] | None = None
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Run a step with values for the inputs; return the named outputs, or all.

        Raises:
            InvalidArgumentError: names, dtypes or shapes differ from the signature's.
        """


@runtime_checkable
class Model(Protocol):
    """A loaded model: its signatures by name."""

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """The signatures by name."""


class ServedVersion:
    """A version of a model that takes requests. Use it inside a lease only: it may be unloaded afterwards."""

    def __init__(
        self,
        name: str,
        version: int,
        model: Model,
        *,
        close: Callable[[], Awaitable[None]] | None = None,
        listeners: Sequence[RunListener] = (),
        batching: Batching | None = None,
    ) -> None:
        self.name = name
        self.version = version
        self.model = model
        self.signatures = model.signatures
        self._close = close  # None if the caller owns the model
        self._listeners = listeners
        counted = {
            name: CountedSteps(signature, self._on_step) for name, signature in self.signatures.items()
        }
        self._runners: Mapping[str, CountedSteps | Batcher] = {
            name: signature if batching is None else batched(signature, batching)
            for name, signature in counted.items()
        }

    def signature(self, name: str) -> Signature:
        """Return the signature of that name.

        Raises:
            InvalidArgumentError: there is none.
        """
        found = self.signatures.get(name)
        if found is None:
            raise InvalidArgumentError(
                f"model {self.name!r} version {self.version}: no signature {reprlib.repr(name)}, "
                f"only {reprlib.repr(sorted(self.signatures))}"
            )
        return found

    async def run(
        self,
        signature_name: str,
        inputs: Mapping[str, Any],
        outputs: Collection[str] | None = None,
        *,
        caller: Hashable = None,
    ) -> dict[str, Array]:
        """Run a signature with values for its inputs; return the named outputs, or all.

        `caller` is who makes the request: the rows of batches are divided equally among the callers that wait.

        Raises:
            InvalidArgumentError: no such signature, or names, dtypes or shapes differ from the signature's.
        """
        self.signature(signature_name)
        runner = self._runners[signature_name]
        started, code = perf_counter(), OK
        try:
            if isinstance(runner, Batcher):
                return await runner.run(inputs, outputs, caller=caller)
            return await runner.run(inputs, outputs)
        except BaseException as error:
            code = code_of(error)
            raise
        finally:
            seconds = perf_counter() - started
            run = Run(self.name, self.version, signature_name, rows_of(inputs), seconds, code)
            for listener in self._listeners:
                listener.on_run(run)

    async def close(self) -> None:
        """Close the model, unless the caller owns it; no lease may be left."""
        for runner in self._runners.values():
            if isinstance(runner, Batcher):
                await runner.close()
        try:
            if self._close is not None:
                await self._close()
        finally:
            for listener in self._listeners:
                listener.on_unload(self.name, self.version)

    def _on_step(self, rows: int) -> None:
        for listener in self._listeners:
            listener.on_step(self.name, self.version, rows)
