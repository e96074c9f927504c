"""The versions of one model as a state machine: which are loaded, take requests, and are unloaded. No loop, clock or files.

    START ──▶ LOADING ──▶ AVAILABLE ──▶ UNLOADING ──▶ END
                 └───────────────────────────────────▶ END, with the error

Each event, of a scan of the folder, a load or a lease, returns the actions to take. The rules:

- The policy chooses among the versions in the folder, those that failed to load left out: so a bad version never replaces a
  good one, and a server that starts with a bad newest version serves the one before.
- One version is loaded at a time, the newest first.
- A version that is not chosen any more is unloaded when all those chosen are available, and closed when its last lease ends.
- If no version can be chosen (an empty or deleted folder, or only bad versions), what is loaded goes on serving.
- A version that failed is loaded again when its folder has changed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

from aioexec.data_classes import dataclass
from aioexec.errors import OpError
from aioexec.serving.models.version_policy import VersionPolicy
from aioexec.serving.models.version_status import VersionState, VersionStatus

_START, _LOADING = VersionState.START, VersionState.LOADING
_AVAILABLE, _UNLOADING, _END = VersionState.AVAILABLE, VersionState.UNLOADING, VersionState.END


@dataclass(frozen=True, slots=True)
class Load:
    """Load a version, then report `loaded` or `failed`."""

    version: int


@dataclass(frozen=True, slots=True)
class Close:
    """Close a version that has no lease, then report `closed`."""

    version: int


Action = Load | Close


class _Entry:
    """A version: its state, the stamp of its folder when it was last to be loaded, its error, the number of its leases."""

    __slots__ = ("error", "leases", "stamp", "state")

    def __init__(self, stamp: Hashable) -> None:
        self.state = _START
        self.stamp = stamp
        self.error: OpError | None = None
        self.leases = 0


class VersionTable:
    """The versions of one model.

    Changing: `_policy`; `_folders`, the stamps of the last scan by version; `_entries`, every version that was ever
    chosen, until it has ended and its folder is gone; `_is_stopped`, after which nothing is loaded.
    """

    def __init__(self, policy: VersionPolicy) -> None:
        self._policy = policy
        self._folders: Mapping[int, Hashable] = {}
        self._entries: dict[int, _Entry] = {}
        self._is_stopped = False

    # Events

    def scanned(self, folders: Mapping[int, Hashable]) -> list[Action]:
        """The folder holds these versions, each with a stamp that differs when its content does."""
        self._folders = dict(folders)
        for version, entry in [*self._entries.items()]:
            if entry.state is _END and version not in folders:
                del self._entries[version]
        return self._decide()

    def choose_by(self, policy: VersionPolicy) -> list[Action]:
        """Another policy chooses the versions from now on."""
        self._policy = policy
        return self._decide()

    def loaded(self, version: int) -> list[Action]:
        """A version is loaded and warmed."""
        entry = self._entry(version, _LOADING)
        entry.state = _AVAILABLE
        return self._decide()

    def failed(self, version: int, error: OpError) -> list[Action]:
        """A version could not be loaded."""
        entry = self._entry(version, _LOADING)
        entry.state, entry.error = _END, error
        return self._decide()

    def leased(self, version: int) -> None:
        """A request uses a version, which is available."""
        self._entry(version, _AVAILABLE).leases += 1

    def released(self, version: int) -> list[Action]:
        """A request has ended."""
        entry = self._entries[version]
        assert entry.leases > 0, version
        entry.leases -= 1
        return [Close(version)] if entry.state is _UNLOADING and entry.leases == 0 else []

    def closed(self, version: int) -> list[Action]:
        """A version is closed."""
        self._entry(version, _UNLOADING).state = _END
        return self._decide()

    def stop(self) -> list[Action]:
        """Unload every version, and load none any more."""
        self._is_stopped = True
        return self._decide()

    # Questions

    @property
    def has_ended(self) -> bool:
        """Whether no version is loaded, or being loaded."""
        return all(entry.state is _END for entry in self._entries.values())

    def available(self) -> list[int]:
        """Return the versions that take requests, newest first."""
        return sorted(self._in_state(_AVAILABLE), reverse=True)

    def statuses(self) -> list[VersionStatus]:
        """Return the status of each version, newest first."""
        return [
            VersionStatus(version, entry.state, entry.error)
            for version, entry in sorted(self._entries.items(), reverse=True)
        ]

    def check_invariants(self) -> None:
        """Raise AssertionError if the table contradicts itself."""
        assert len([*self._in_state(_LOADING)]) <= 1
        for entry in self._entries.values():
            assert entry.leases == 0 or entry.state in (_AVAILABLE, _UNLOADING)
            assert entry.error is None or entry.state is _END
        if not self._is_stopped:
            assert not [*self._in_state(_START)] or [*self._in_state(_LOADING)]

    # Decisions

    def _decide(self) -> list[Action]:
        """Bring the entries in line with the policy's choice."""
        wanted = set() if self._is_stopped else self._wanted()
        for version in wanted:
            self._want(version)
        for version in [*self._in_state(_START)]:
            if version not in wanted:
                self._entries[version].state = _END
        return [*self._unload(wanted), *self._load()]

    def _wanted(self) -> set[int]:
        return self._policy.choose([v for v, stamp in self._folders.items() if not self._is_bad(v, stamp)])

    def _is_bad(self, version: int, stamp: Hashable) -> bool:
        entry = self._entries.get(version)
        return entry is not None and entry.error is not None and entry.stamp == stamp

    def _want(self, version: int) -> None:
        entry = self._entries.get(version)
        if entry is None or entry.state is _END:
            self._entries[version] = _Entry(self._folders[version])

    def _unload(self, wanted: set[int]) -> Iterator[Action]:
        available = set(self._in_state(_AVAILABLE))
        if not self._is_stopped and not (wanted and wanted <= available):
            return
        for version in sorted(available - wanted):
            entry = self._entries[version]
            entry.state = _UNLOADING
            if entry.leases == 0:
                yield Close(version)

    def _load(self) -> Iterator[Action]:
        waiting = [*self._in_state(_START)]
        if waiting and not [*self._in_state(_LOADING)]:
            newest = max(waiting)
            entry = self._entries[newest]
            entry.state, entry.stamp = _LOADING, self._folders[newest]
            yield Load(newest)

    def _in_state(self, state: VersionState) -> Iterator[int]:
        return (version for version, entry in self._entries.items() if entry.state is state)

    def _entry(self, version: int, state: VersionState) -> _Entry:
        entry = self._entries[version]
        assert entry.state is state, (version, entry.state)
        return entry
