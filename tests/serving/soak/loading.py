"""The loader of the soak test: models whose steps fail now and then, and a record of the versions that are loaded."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path
from random import Random
from typing import Any

import aioexec as ax
from aioexec.errors import InternalError
from aioexec.saved_model.loaded_model import LoadedModel
from aioexec.saved_model.signature import Signature
from aioexec.serving.models.served_version import ServedVersion
from tests.serving.soak.versions import Array

FAULT = "injected fault"


class Loading:
    """Loads models from folders.

    Attributes:
        loaded: the versions of each model that take requests, or have taken them.
        open_models: how many models are loaded and not closed.
    """

    def __init__(self, random: Random, fault_share: float) -> None:
        self.loaded: defaultdict[str, set[int]] = defaultdict(set)
        self.open_models = 0
        self._random = random
        self._fault_share = fault_share
        self._waiters: dict[tuple[str, int], asyncio.Future[bool]] = {}

    async def __call__(self, path: str) -> FaultyModel:
        """Load a model. The task that calls this ends when the version is warm, and takes requests or has failed."""
        task = asyncio.current_task()
        assert task is not None
        folder = Path(path)
        version = folder.parent.name, int(folder.name)
        task.add_done_callback(lambda ended: self._on_end(version, ended))
        model = await ax.load(path)
        self.open_models += 1
        return FaultyModel(model, self)

    def next_end(self, name: str, version: int) -> asyncio.Future[bool]:
        """The end of the next loading of a version: whether it takes requests then."""
        return self._waiters.setdefault((name, version), asyncio.get_running_loop().create_future())

    def newest(self, name: str) -> int:
        """The newest version that takes requests; 0 if there is none."""
        return max(self.loaded[name], default=0)

    def is_fault(self) -> bool:
        """Decide whether the next step fails."""
        return self._random.random() < self._fault_share

    def _on_end(self, version: tuple[str, int], task: asyncio.Task[Any]) -> None:
        is_loaded = not task.cancelled() and isinstance(task.result(), ServedVersion)
        if is_loaded:
            self.loaded[version[0]].add(version[1])
        waiter = self._waiters.pop(version, None)
        if waiter is not None and not waiter.done():
            waiter.set_result(is_loaded)


class FaultyModel:
    """A loaded model whose steps fail now and then. It must be idle when it is closed."""

    def __init__(self, model: LoadedModel, loading: Loading) -> None:
        self._model = model
        self._loading = loading
        self.running = 0
        self.is_closed = False
        self.signatures = {
            name: FaultySignature(signature, self, loading) for name, signature in model.signatures.items()
        }

    async def close(self) -> None:
        assert not self.running, "closed while it was running"
        self.is_closed = True
        await self._model.close()
        self._loading.open_models -= 1


class FaultySignature:
    """A signature some of whose steps raise InternalError after they have run."""

    def __init__(self, signature: Signature, model: FaultyModel, loading: Loading) -> None:
        self.name = signature.name
        self.method_name = signature.method_name
        self.inputs: Mapping[str, Any] = signature.inputs
        self.outputs: Mapping[str, Any] = signature.outputs
        self._signature = signature
        self._model = model
        self._loading = loading

    async def run(
        self, inputs: Mapping[str, Any], outputs: Collection[str] | None = None
    ) -> dict[str, Array]:
        """Run a step; see `Signature.run`."""
        assert not self._model.is_closed, "used after it was closed"
        self._model.running += 1
        try:
            is_fault = self._loading.is_fault()
            results = await self._signature.run(inputs, outputs)
            if is_fault:
                raise InternalError(FAULT)
            return results
        finally:
            self._model.running -= 1
