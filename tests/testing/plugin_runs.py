"""Runs pytest in a process of its own, with our plugin loaded in one of the two ways: as installed, or from a source tree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import aioexec

REPOSITORY = Path(aioexec.__file__).parents[1]

Run = Callable[..., pytest.RunResult]

UNUSED = ("randomly", "cacheprovider", "hypothesispytest", "timeout")
"""Plugins that would only take time: Hypothesis alone half a second."""

STRICT = """
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
aioexec_leak_check = true
aioexec_blocking_check = true
filterwarnings = error
"""


def _runner(pytester: pytest.Pytester, usual: str) -> Run:
    def run(source: str, *options: str, settings: str = STRICT, conftest: str = usual) -> pytest.RunResult:
        pytester.makeini(settings)
        pytester.makeconftest(conftest)
        pytester.makepyfile(test_it=source)
        unused = [part for name in UNUSED for part in ("-p", f"no:{name}")]
        return pytester.runpytest_subprocess(*unused, *options, timeout=60)

    return run


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a suite whose conftest loads the plugin, as in a source tree that is not installed."""
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    return _runner(pytester, 'pytest_plugins = ["aioexec_pytest"]')


@pytest.fixture
def installed(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a suite of an environment in which the package is installed, with its entry point."""
    metadata = pytester.mkdir("site") / "aioexec_stub-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: aioexec-stub\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[pytest11]\naioexec_pytest = aioexec_pytest\n")
    monkeypatch.setenv("PYTHONPATH", f"{REPOSITORY}:{metadata.parent}")
    return _runner(pytester, "")
