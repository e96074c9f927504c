"""A model whose folder is watched: carries out what its `VersionTable` decides. Runs in the loop's thread.

The folder is read in a thread, in regular intervals. A version is loaded in a task of its own, one at a time over all models,
so that loading takes little from the requests of other versions.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import reprlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from aioexec.errors import NotFoundError, OpError, UnavailableError, UnknownError
from aioexec.in_thread import in_thread
from aioexec.serving.models.model_config import ModelConfig
from aioexec.serving.models.model_folder import VersionFolder, versions_in
from aioexec.serving.models.owned_tasks import OwnedTasks
from aioexec.serving.models.run_listeners import RunListener
from aioexec.serving.models.served_version import ServedVersion
from aioexec.serving.models.version_loading import Loader, load_version
from aioexec.serving.models.version_status import VersionState, VersionStatus
from aioexec.serving.models.version_table import Action, Load, VersionTable

_log = logging.getLogger(__name__)


class WatchedModel:
    """A model that is served from its folder.

    Constant: the loader, `_loading`, the lock of all models, and `_tasks`, those of all models. Changing: `config` and
    `labels`; `_table`; `_served`, the versions that are loaded; `_loads`, the tasks that load; `_folders`, those of the last
    scan; `_ended`, set when the model is stopped and no version is loaded any more.
    """

    def __init__(
        self,
        config: ModelConfig,
        load: Loader,
        loading: asyncio.Lock,
        tasks: OwnedTasks,
        listeners: Sequence[RunListener],
    ) -> None:
        self.config = config
        self.labels = config.labels
        self._load_folder = load
        self._loading = loading
        self._tasks = tasks
        self._listeners = listeners
        self._table = VersionTable(config.policy)
        self._served: dict[int, ServedVersion] = {}
        self._loads: set[asyncio.Task[ServedVersion | OpError]] = set()
        self._folders: dict[int, VersionFolder] = {}
        self._is_stopping = False
        self._ended = asyncio.Event()

    async def scan(self) -> None:
        """Read the folder once, and load and unload accordingly."""
        self._folders = await in_thread(versions_in, self.config.path)
        self._perform(self._table.scanned({v: folder.stamp for v, folder in self._folders.items()}))

    def configure(self, config: ModelConfig) -> None:
        """Change the policy and the labels to those of another configuration."""
        self.config = replace(self.config, policy=config.policy, labels=config.labels)
        self.labels = config.labels
        self._perform(self._table.choose_by(config.policy))

    async def watch(self, poll_seconds: float) -> None:
        """Read the folder every so often, until cancelled."""
        while True:
            await asyncio.sleep(poll_seconds)
            try:
                await self.scan()
            except OpError as error:  # no thread can be started now
                _log.error("model %r: its folder is not read: %s", self.config.name, error.message)

    async def stop(self) -> None:
        """Unload all versions, and wait until their last requests have ended."""
        self._is_stopping = True
        actions = self._table.stop()
        for task in self._loads:
            task.cancel()
        self._perform(actions)
        await self._ended.wait()

    def statuses(self) -> list[VersionStatus]:
        """Return the status of each version, newest first."""
        return self._table.statuses()

    @contextmanager
    def lease(self, version: int | None) -> Iterator[ServedVersion]:
        """Lease a version, by default the newest that is available.

        Raises:
            NotFoundError: no such version.
            UnavailableError: it is not available.
        """
        chosen = self._choose(version)
        self._table.leased(chosen)
        try:
            yield self._served[chosen]
        finally:
            self._perform(self._table.released(chosen))

    def _choose(self, version: int | None) -> int:
        available = self._table.available()
        if version is None and available:
            return available[0]
        if version in available:
            return version
        statuses = {status.version: status for status in self.statuses()}
        if version is None:
            raise UnavailableError(
                f"model {self.config.name!r}: no version is available; {_listed([*statuses.values()])}"
            )
        if version not in statuses or statuses[version].state is VersionState.END:
            raise _ended_error(self.config.name, version, statuses.get(version))
        raise UnavailableError(
            f"model {self.config.name!r}: version {version} is not available; {_listed([statuses[version]])}"
        )

    def _perform(self, actions: Sequence[Action]) -> None:
        for action in actions:
            if isinstance(action, Load):
                task = self._tasks.start(self._load(action.version))
                self._loads.add(task)
                # A callback, since a task that is cancelled before its first step runs no code.
                task.add_done_callback(partial(self._on_load_end, action.version))
            else:
                self._tasks.start(self._close(action.version))
        if self._is_stopping and self._table.has_ended:
            self._ended.set()

    async def _load(self, version: int) -> ServedVersion | OpError:
        try:
            async with self._loading:
                _log.info("%s: loading", self._version(version))
                path = self._folders[version].path
                return await load_version(self.config, version, path, self._load_folder, self._listeners)
        except OpError as error:
            return error
        except Exception as error:  # whatever a damaged file raises, the other versions go on
            _log.exception("%s: loading raised an exception that is no OpError", self._version(version))
            return UnknownError(f"{type(error).__name__}: {error}")

    def _on_load_end(self, version: int, task: asyncio.Task[ServedVersion | OpError]) -> None:
        self._loads.discard(task)
        outcome = UnavailableError("loading was cancelled") if task.cancelled() else task.result()
        if isinstance(outcome, OpError):
            _log.error("%s: not loaded: %s", self._version(version), outcome.message)
            # A copy, without the traceback: its frames hold the graph and what else was loaded.
            self._perform(self._table.failed(version, copy.copy(outcome)))
        else:
            _log.info("%s: available", self._version(version))
            self._served[version] = outcome
            self._perform(self._table.loaded(version))

    async def _close(self, version: int) -> None:
        try:
            await self._served.pop(version).close()
        except Exception:
            _log.exception("%s: closing it raised an exception", self._version(version))
        _log.info("%s: unloaded", self._version(version))
        self._perform(self._table.closed(version))

    def _version(self, version: int) -> str:
        return f"model {self.config.name!r} version {version}"


def _ended_error(name: str, version: int, status: VersionStatus | None) -> OpError:
    if status is None or status.error is None:
        return NotFoundError(f"model {name!r}: version {version} is not served")
    return UnavailableError(f"model {name!r}: version {version} could not be loaded: {status.error.message}")


def _listed(statuses: Sequence[VersionStatus]) -> str:
    return reprlib.repr({status.version: status.state.name for status in statuses})
