"""A model that the caller gave to a repository, loaded already, as its version 1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from aioexec.data_classes import dataclass
from aioexec.errors import NotFoundError, UnavailableError
from aioexec.serving.models.run_listeners import RunListener
from aioexec.serving.models.served_version import DEFAULT_SIGNATURE, Model, ServedVersion, Signature
from aioexec.serving.models.version_status import VersionState, VersionStatus

_VERSION: Final = 1


class GivenModel:
    """A loaded model, or a single signature; the caller closes it after `stop`."""

    def __init__(self, name: str, model: Model | Signature, listeners: Sequence[RunListener]) -> None:
        whole = model if isinstance(model, Model) else _SingleSignature({DEFAULT_SIGNATURE: model})
        self.labels: Mapping[str, int] = {}
        self._name = name
        self._served: ServedVersion | None = ServedVersion(
            name, _VERSION, whole, listeners=listeners
        )  # None once it is stopped

    def statuses(self) -> list[VersionStatus]:
        """Return the status of the only version."""
        state = VersionState.END if self._served is None else VersionState.AVAILABLE
        return [VersionStatus(_VERSION, state)]

    @contextmanager
    def lease(self, version: int | None) -> Iterator[ServedVersion]:
        """Lease the only version.

        Raises:
            NotFoundError: another version.
            UnavailableError: the repository is stopped.
        """
        if version not in (None, _VERSION):
            raise NotFoundError(f"model {self._name!r}: version {version} is not served")
        if self._served is None:
            raise UnavailableError(f"model {self._name!r}: no version is available")
        yield self._served

    def stop(self) -> None:
        """Release the model."""
        self._served = None


@dataclass(frozen=True, slots=True)
class _SingleSignature:
    """A model of one signature."""

    signatures: Mapping[str, Signature]
