"""`Repository`: the models of a server by name, with their versions.

Protocols look a version up with `lease`, run it inside the block, and report `status`. Use a repository in one event loop only.
"""

from __future__ import annotations

import reprlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Final

from aioexec.errors import FailedPreconditionError, NotFoundError
from aioexec.serving.models.given_model import GivenModel
from aioexec.serving.models.model_config import ModelConfig
from aioexec.serving.models.run_listeners import RunListener
from aioexec.serving.models.served_version import Model, ServedVersion, Signature
from aioexec.serving.models.version_loading import Loader
from aioexec.serving.models.version_status import VersionState, VersionStatus
from aioexec.serving.models.watched_model import WatchedModel
from aioexec.serving.models.watched_models import WatchedModels

__all__ = ["POLL_SECONDS", "Repository", "ServedVersion", "VersionState", "VersionStatus"]

POLL_SECONDS: Final = 5.0
"""Between two looks at the folders of models."""


class Repository:
    """Models by name.

    `Repository({"digits": model})` serves loaded models, or single signatures, as version 1 of each; the caller owns the models
    and closes them after the repository's last request. `Repository.watching` serves models from folders.

    Attributes:
        listeners: are called after each run of a model.
    """

    def __init__(self, models: Mapping[str, Model | Signature]) -> None:
        self.listeners: list[RunListener] = []
        self._models: Mapping[str, GivenModel | WatchedModel] = {
            name: GivenModel(name, model, self.listeners) for name, model in models.items()
        }
        self._watched: WatchedModels | None = None  # None: the models were given

    @classmethod
    @asynccontextmanager
    async def watching(
        cls, configs: Sequence[ModelConfig], load: Loader, *, poll_seconds: float = POLL_SECONDS
    ) -> AsyncIterator[Repository]:
        """Serve models from folders in the block: load their versions, and follow changes of the folders.

            async with Repository.watching([ModelConfig("digits", "models/digits")], ax.load) as repository: ...

        The block begins when the folders were read for the first time, and versions are being loaded. At its end versions are
        unloaded, after their last requests.

        Raises:
            InvalidArgumentError: two models have one name.
        """
        repository = cls({})
        watched = WatchedModels(load, poll_seconds, repository.listeners)
        repository._watched, repository._models = watched, watched.by_name
        try:
            await watched.configure(configs)
            yield repository
        finally:
            await watched.stop()

    async def reload(self, configs: Sequence[ModelConfig]) -> None:
        """Serve these models from now on, and no others; returns when their folders were read, and versions are being loaded.

        A model of the same name and path goes on serving; its policy and labels change. Its other settings do not.

        Raises:
            FailedPreconditionError: the models were given, not loaded from folders.
            InvalidArgumentError: two models have one name.
        """
        if self._watched is None:
            raise FailedPreconditionError("the models of this server are given, and cannot be configured")
        await self._watched.configure(configs)

    def names(self) -> list[str]:
        """Return the names of the models, sorted."""
        return sorted(self._models)

    def status(self, name: str, version: int | None = None, label: str | None = None) -> list[VersionStatus]:
        """Return the status of each known version of a model, newest first; or of one version, by its number or label.

        Raises:
            NotFoundError: no such model, version or label.
        """
        model = self._model(name)
        if label is not None:
            version = _labelled(name, model.labels, label)
        if version is None:
            return model.statuses()
        found = [status for status in model.statuses() if status.version == version]
        if not found:
            raise NotFoundError(f"model {name!r}: version {version} is not served")
        return found

    def labels(self, name: str) -> Mapping[str, int]:
        """Return the versions of a model that have labels.

        Raises:
            NotFoundError: no such model.
        """
        return self._model(name).labels

    def is_ready(self) -> bool:
        """Whether each model has a version that takes requests."""
        return all(
            any(status.state is VersionState.AVAILABLE for status in model.statuses())
            for model in self._models.values()
        )

    def lease(
        self, name: str, *, version: int | None = None, label: str | None = None
    ) -> AbstractContextManager[ServedVersion]:
        """Lease a version of a model, by default its newest; a leased version is not unloaded.

            with repository.lease("digits") as served:
                outputs = await served.run("serving_default", {"images": images})

        Raises:
            NotFoundError: no such model, version or label.
            UnavailableError: the version is not loaded yet, could not be loaded, or is being unloaded.
        """
        model = self._model(name)
        return model.lease(version if label is None else _labelled(name, model.labels, label))

    def stop(self) -> None:
        """Release the models that were given."""
        for model in self._models.values():
            if isinstance(model, GivenModel):
                model.stop()

    def _model(self, name: str) -> GivenModel | WatchedModel:
        found = self._models.get(name)
        if found is None:
            raise NotFoundError(f"no model {reprlib.repr(name)} here, only {reprlib.repr(self.names())}")
        return found


def _labelled(name: str, labels: Mapping[str, int], label: str) -> int:
    if label not in labels:
        raise NotFoundError(
            f"model {name!r}: no label {reprlib.repr(label)}, only {reprlib.repr(sorted(labels))}"
        )
    return labels[label]
