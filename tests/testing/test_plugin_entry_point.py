"""As an entry point the plugin changes nothing in projects that do not use it, costs little, and is not loaded twice."""

import subprocess
import sys

import pytest

from tests.testing.plugin_runs import REPOSITORY, installed as installed, suite as suite

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow  # each test is a pytest of its own

PLAIN = "[pytest]\nfilterwarnings = error\n"
STRICT = PLAIN + "asyncio_default_fixture_loop_scope = function\n"
AUTO = STRICT + "asyncio_mode = auto\n"

FOREIGN = """
import asyncio, os, sys, threading, time

kept = []


async def test_leaves_everything_behind():
    kept.append(os.pipe())
    kept.append(asyncio.ensure_future(asyncio.sleep(60)))
    time.sleep(0)


def test_loads_nothing():
    heavy = {"aioexec", "numpy", "numba", "blockbuster", "uvloop", "aiohttp"}
    assert heavy & set(sys.modules) == set()
"""


def test_a_foreign_project_runs_as_before(installed):
    result = installed(FOREIGN, "--strict-markers", "--strict-config", settings=AUTO)

    result.assert_outcomes(passed=2)
    result.stdout.no_fnmatch_line("*loop:*")


def test_a_foreign_project_needs_no_asynchronous_plugin(installed):
    result = installed(
        "def test_it(): pass", "-p", "no:asyncio", "-p", "no:anyio", "--strict-config", settings=PLAIN
    )

    result.assert_outcomes(passed=1)


def test_a_foreign_project_keeps_its_names_and_loops(installed):
    result = installed(
        """
        import asyncio
        import pytest
        class Loop(asyncio.SelectorEventLoop): pass
        @pytest.fixture
        def ax_session():
            return "its own"
        async def test_it(ax_session):
            assert ax_session == "its own"
            assert type(asyncio.get_running_loop()) is Loop
        """,
        "-v",
        settings=AUTO,
        conftest="""
        import asyncio, sys
        def pytest_asyncio_loop_factories(config, item):
            return {"own": sys.modules["test_it"].Loop}
        """,
    )

    result.assert_outcomes(passed=1)


def test_beside_its_entry_point_a_conftest_may_name_it_too(installed):
    result = installed(
        "async def test_it(virtual_clock): pass",
        settings=AUTO,
        conftest='pytest_plugins = ["aioexec_pytest"]',
    )

    result.assert_outcomes(passed=1)


def test_without_a_plugin_for_asynchronous_tests_the_error_names_some(installed):
    result = installed("def test_it(ax_session): pass", "-p", "no:asyncio", "-p", "no:anyio", settings=PLAIN)

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["ax_session: no plugin runs asynchronous tests: install pytest-asyncio 1.5*"]
    )


@pytest.mark.parametrize(
    ("settings", "backend", "message"),
    [
        (STRICT, "trio", "ax_session needs asyncio, not trio*"),
        (AUTO, "asyncio", "ax_session: pytest-asyncio in auto mode takes the tests of anyio's plugin*"),
    ],
)
def test_what_anyio_cannot_run_is_said_in_a_line(installed, settings, backend, message):
    result = installed(
        f"""
        import pytest
        @pytest.fixture
        def anyio_backend(): return {backend!r}
        @pytest.mark.anyio
        async def test_it(ax_session): pass
        """,
        settings=settings,
    )

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([message])


def test_the_leak_check_comes_after_the_end_of_other_fixtures(installed):
    result = installed(
        """
        import asyncio
        from aioexec.testing import leaks
        kept = []
        async def test_session(ax_session, ax_leak_check):
            import aioexec as ax
            await ax_session.run(ax.constant(1.0) + 1.0)
        async def test_task(ax_session, ax_leak_check):
            kept.append(asyncio.create_task(asyncio.sleep(60), name="lost"))
        """,
        settings=AUTO,
    )

    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*left over: task 'lost'*"])


def test_a_fixture_runs_in_the_loop_of_its_test_whatever_the_scope(installed):
    result = installed(
        """
        import asyncio
        import pytest
        import aioexec as ax
        loops = set()
        @pytest.mark.asyncio(loop_scope="module")
        class TestTogether:
            async def test_one(self, ax_session):
                loops.add(asyncio.get_running_loop())
                assert await ax_session.run(ax.constant(1.0) + 1.0) == 2
            async def test_other(self, ax_session):
                loops.add(asyncio.get_running_loop())
                assert await ax_session.run(ax.constant(1.0) + 1.0) == 2
        def test_loops():
            assert len(loops) == 1
        """,
        settings=STRICT,
    )

    result.assert_outcomes(passed=3)


def test_importing_it_takes_a_fraction_of_a_second():
    code = "import pytest, sys; before = set(sys.modules); import aioexec_pytest; print(*sys.modules.keys() - before)"
    shown = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=REPOSITORY
    ).stdout

    assert shown.split() == ["aioexec_pytest"]
