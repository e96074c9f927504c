"""The models of a server that are loaded from folders: which there are may change while it serves."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aioexec.errors import InvalidArgumentError
from aioexec.serving.models.model_config import ModelConfig
from aioexec.serving.models.owned_tasks import OwnedTasks
from aioexec.serving.models.run_listeners import RunListener
from aioexec.serving.models.version_loading import Loader
from aioexec.serving.models.watched_model import WatchedModel


class WatchedModels:
    """Models by name, each with a task that watches its folder. Runs in the loop's thread.

    Constant: the loader, the interval of watches, the listeners, `_tasks`, those of all models, `_loading`, their lock of
    loading, and `_configuring`, which orders calls of `configure`. Changing: `by_name`, the models; `_watches`, the tasks
    that watch them.
    """

    def __init__(self, load: Loader, poll_seconds: float, listeners: Sequence[RunListener]) -> None:
        self._load = load
        self._poll_seconds = poll_seconds
        self._listeners = listeners
        self._tasks = OwnedTasks()
        self._loading = asyncio.Lock()
        self._configuring = asyncio.Lock()
        self.by_name: dict[str, WatchedModel] = {}
        self._watches: dict[str, asyncio.Task[None]] = {}

    async def configure(self, configs: Sequence[ModelConfig]) -> None:
        """Serve these models, and no others: new ones when their folder was read, the others until their last requests.

        A model of the same name and path goes on serving; its policy and labels change. Its other settings do not.

        Raises:
            InvalidArgumentError: two models have one name.
        """
        names = [config.name for config in configs]
        if len(set(names)) < len(names):
            raise InvalidArgumentError(f"two models have one name: {names}")
        async with self._configuring:
            for config in configs:
                await self._serve(config)
            for name in self.by_name.keys() - set(names):
                self._remove(name)

    async def _serve(self, config: ModelConfig) -> None:
        known = self.by_name.get(config.name)
        if known is not None and known.config.path == config.path:
            known.configure(config)
            return
        model = WatchedModel(config, self._load, self._loading, self._tasks, self._listeners)
        await model.scan()
        if known is not None:
            self._remove(config.name)
        self.by_name[config.name] = model
        self._watches[config.name] = self._tasks.start(model.watch(self._poll_seconds))

    def _remove(self, name: str) -> None:
        self._watches.pop(name).cancel()
        self._tasks.start(self.by_name.pop(name).stop())

    async def stop(self) -> None:
        """Unload all models, and wait until their last requests have ended."""
        for watch in self._watches.values():
            watch.cancel()
        await asyncio.gather(*(model.stop() for model in self.by_name.values()))
        await self._tasks.join()
