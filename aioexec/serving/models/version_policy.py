"""Which versions of a model are served: the newest ones, all, or given ones."""

from __future__ import annotations

from collections.abc import Collection

from aioexec.data_classes import dataclass


@dataclass(frozen=True, slots=True)
class Latest:
    """The newest versions, so many."""

    count: int = 1

    def choose(self, versions: Collection[int]) -> set[int]:
        """Return those of `versions` to serve."""
        return set(sorted(versions)[-self.count :])


@dataclass(frozen=True, slots=True)
class All:
    """Every version."""

    def choose(self, versions: Collection[int]) -> set[int]:
        """Return those of `versions` to serve."""
        return set(versions)


@dataclass(frozen=True, slots=True)
class Specific:
    """The given versions."""

    versions: frozenset[int]

    def choose(self, versions: Collection[int]) -> set[int]:
        """Return those of `versions` to serve."""
        return set(versions) & self.versions


VersionPolicy = Latest | All | Specific
