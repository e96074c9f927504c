"""The state of one version of a served model, as clients see it."""

from __future__ import annotations

from enum import IntEnum

from aioexec.data_classes import dataclass
from aioexec.errors import OpError


class VersionState(IntEnum):
    """The states of TensorFlow Serving, in the order in which a version has them, with the numbers of its protocol."""

    START = 10  # it is to be loaded
    LOADING = 20
    AVAILABLE = 30  # it is loaded and warmed, and takes requests
    UNLOADING = 40  # it takes no new requests, and waits for those it has
    END = 50  # unloaded, or failed to load


@dataclass(frozen=True, slots=True)
class VersionStatus:
    """A version with its state; `error` is why it could not be loaded, else None."""

    version: int
    state: VersionState
    error: OpError | None = None
