"""Changes of the folders of models while they serve: versions are added, damaged, mended and removed."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from random import Random

from tests.serving.soak.loading import Loading
from tests.serving.soak.versions import DAMAGES, copy_in_place, publish, write

KEPT = 3
"""How many good versions of a model are kept in its folder, and how many damaged ones."""


class ModelFolder:
    """The folder of one model.

    Attributes:
        good: the versions whose files are right; they may still be on their way to the folder.
        damaged: the versions whose files are damaged now.
        removed: the good versions that are no longer there.
        serves_all: whether every version is to be served, not only the newest.
    """

    def __init__(self, path: Path, loading: Loading, random: Random, *, serves_all: bool) -> None:
        self.path = path
        self.name = path.name
        self.good: set[int] = set()
        self.damaged: set[int] = set()
        self.removed: set[int] = set()
        self.serves_all = serves_all
        self._loading = loading
        self._random = random
        self._newest = 0
        self._aside = path.parent / f"aside-{path.name}"  # where versions are written: it is not watched
        self._aside.mkdir()
        path.mkdir()

    async def change(self) -> None:
        """Change something, and wait until the server has seen it."""
        kinds = [self.add, self.add, self.add_in_place, self.add_damaged]
        if self.damaged:
            kinds.append(self.mend)
        await self._random.choice(kinds)()
        while len(self.good - self.removed) > KEPT:
            await self._remove(min(self.good - self.removed))
        while len(self.damaged) > KEPT:
            await self._remove(min(self.damaged))

    async def add(self) -> None:
        """Add a version, all of it at once."""
        version = self._next()
        source = await self._written(version)
        self.good.add(version)
        is_available = self._loading.next_end(self.name, version)
        await publish(source, self.path / str(version))
        assert await is_available, f"{self.name} version {version} was not loaded"

    async def add_in_place(self) -> None:
        """Add a version file by file, its proto first; the server may try to load it before it is whole."""
        version = self._next()
        source = await self._written(version)
        self.good.add(version)
        outcome = self._loading.next_end(self.name, version)
        for step in await asyncio.to_thread(copy_in_place, source, self.path / str(version)):
            await asyncio.to_thread(step)
        await asyncio.to_thread(shutil.rmtree, source)
        while not await outcome:
            outcome = self._loading.next_end(self.name, version)

    async def add_damaged(self) -> None:
        """Add a version that cannot be loaded."""
        version = self._next()
        source = await self._written(version)
        damage = self._random.choice(DAMAGES)
        await asyncio.to_thread(damage, source)
        self.damaged.add(version)
        is_available = self._loading.next_end(self.name, version)
        await publish(source, self.path / str(version))
        assert not await is_available, f"{self.name} version {version} was loaded after {damage.__name__}"

    async def mend(self) -> None:
        """Replace a damaged version by a right one."""
        version = max(self.damaged)
        source = await self._written(version)
        self.damaged.remove(version)
        self.good.add(version)
        target = self.path / str(version)
        await publish(target, self._aside / "damaged")
        is_available = self._loading.next_end(self.name, version)
        await publish(source, target)
        await asyncio.to_thread(shutil.rmtree, self._aside / "damaged")
        if self.serves_all or version > self._loading.newest(self.name):
            assert await is_available, f"{self.name} version {version} was not loaded once mended"

    async def _remove(self, version: int) -> None:
        if version in self.damaged:
            self.damaged.remove(version)
        else:
            self.removed.add(version)
        await publish(self.path / str(version), self._aside / "removed")
        await asyncio.to_thread(shutil.rmtree, self._aside / "removed")

    async def _written(self, version: int) -> Path:
        source = self._aside / f"{self.name}-{version}"
        await write(source, version)
        return source

    def must_serve(self, version: int, loaded_before: frozenset[int]) -> bool:
        """Whether a request for a version is to be answered now, of which these were loaded when it was sent."""
        is_wanted = self.serves_all or version == self._loading.newest(self.name)
        return is_wanted and version in loaded_before and version not in self.removed

    def _next(self) -> int:
        self._newest += 1
        return self._newest
