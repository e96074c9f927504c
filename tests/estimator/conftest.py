"""The event files that tests of estimators open."""

import pytest

import aioexec as ax


@pytest.fixture
async def directory(tmp_path):
    """A directory whose event files, which the cache keeps open for later writes, are closed."""
    yield str(tmp_path)
    await ax.summary.FileWriterCache.clear()
