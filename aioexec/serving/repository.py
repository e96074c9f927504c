"""`Repository`: the models of a server by name, with their versions.

Protocols look a version up with `lease`, run it inside the block, and report `status`. Use a repository in one event loop only.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from aioexec.errors import NotFoundError
from aioexec.serving.served_version import DEFAULT_SIGNATURE, Model, ServedVersion, Signature
from aioexec.serving.version_status import VersionState, VersionStatus

_EMBEDDED_VERSION = 1


class Repository:
    """Models by name.

    `Repository({"digits": model})` serves loaded models, or single signatures, as version 1 of each; the caller owns the models
    and closes them after the repository's last request.
    """

    def __init__(self, models: Mapping[str, Model | Signature]) -> None:
        self._versions = {
            name: ServedVersion(name, _EMBEDDED_VERSION, _signatures(model)) for name, model in models.items()
        }

    def names(self) -> list[str]:
        """Return the names of the models, sorted."""
        return sorted(self._versions)

    def status(self, name: str, version: int | None = None) -> list[VersionStatus]:
        """Return the status of each known version of a model, or of one version, newest first.

        Raises:
            NotFoundError: no such model or version.
        """
        served = self._model(name)
        if version not in (None, served.version):
            raise NotFoundError(f"model {name!r}: no version {version}, only [{served.version}]")
        return [VersionStatus(served.version, VersionState.AVAILABLE)]

    @contextmanager
    def lease(
        self, name: str, *, version: int | None = None, label: str | None = None
    ) -> Iterator[ServedVersion]:
        """Lease a version of a model, by default its newest; a leased version is not unloaded.

            with repository.lease("digits") as served:
                outputs = await served.run("serving_default", {"images": images})

        Raises:
            NotFoundError: no such model, version or label.
            UnavailableError: the version is not loaded yet, could not be loaded, or is being unloaded.
        """
        served = self._model(name)
        if label is not None:
            raise NotFoundError(f"model {name!r}: no label {reprlib.repr(label)}, only []")
        if version not in (None, served.version):
            raise NotFoundError(f"model {name!r}: no version {version}, only [{served.version}]")
        yield served

    def _model(self, name: str) -> ServedVersion:
        found = self._versions.get(name)
        if found is None:
            raise NotFoundError(f"no model {reprlib.repr(name)} here, only {reprlib.repr(self.names())}")
        return found


def _signatures(model: Model | Signature) -> Mapping[str, Signature]:
    if isinstance(model, Model):
        return model.signatures
    return {DEFAULT_SIGNATURE: model}
