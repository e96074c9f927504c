"""The plugin chooses the loop of a test and fails tests that leak or block, where a project's configuration wants that."""

import asyncio

import pytest

from aioexec.testing import VirtualClockLoop
from aioexec.testing.loops import LOOPS
from tests.testing.plugin_runs import installed as installed, suite as suite

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow  # each test is a pytest of its own


@pytest.mark.parametrize("loop", LOOPS)
def test_the_option_chooses_the_loop(suite, loop):
    module = {"asyncio": "asyncio", "uvloop": "uvloop"}[loop]

    result = suite(
        f"""
        import asyncio
        async def test_it():
            assert type(asyncio.get_running_loop()).__module__.split(".")[0] == {module!r}
        """,
        f"--aioexec-loop={loop}",
    )

    result.assert_outcomes(passed=1)


def test_both_loops_run_a_test_once_each(suite):
    result = suite(
        """
        import pytest
        async def test_by_option(): pass
        @pytest.mark.both_loops
        async def test_by_marker(): pass
        """,
        "--aioexec-loop=both",
    )

    result.assert_outcomes(passed=4)


@pytest.mark.both_loops
async def test_virtual_time_wins_over_the_choice_of_a_loop(virtual_clock):
    assert isinstance(asyncio.get_running_loop(), VirtualClockLoop)


def test_what_a_test_leaves_behind_is_an_error(suite):
    result = suite(
        """
        import asyncio, os, threading
        from aioexec.testing import leaks
        leaks.JOIN_SECONDS = 0.01
        kept = []
        async def test_task():
            kept.append(asyncio.create_task(asyncio.sleep(60), name="lost"))
        async def test_descriptor():
            kept.append(os.pipe())
        def test_thread():
            kept.append(threading.Event())
            threading.Thread(target=kept[-1].wait, daemon=True, name="stubborn").start()
        """
    )

    result.assert_outcomes(passed=3, errors=3)
    result.stdout.fnmatch_lines_random(["*task 'lost'*", "*file descriptor*pipe:*", "*thread 'stubborn'*"])


def test_what_fixtures_and_the_loop_clean_up_is_no_leak(suite):
    result = suite(
        """
        import asyncio, os, pytest, pytest_asyncio
        @pytest.fixture(scope="module")
        def lasting():
            ends = os.pipe()
            yield ends
            for end in ends: os.close(end)
        @pytest_asyncio.fixture
        async def background():
            task = asyncio.create_task(asyncio.sleep(60))
            yield
            task.cancel()
        async def test_it(background, lasting):
            await asyncio.to_thread(int)
        @pytest.mark.allow_leaks("shows that it can")
        async def test_marked(background):
            asyncio.create_task(asyncio.sleep(60))
        """
    )

    result.assert_outcomes(passed=2)


def test_a_blocking_call_of_the_library_on_the_loop_is_an_error(suite):
    result = suite(
        """
        import pytest, time
        from aioexec import blocks
        async def test_blocked():
            blocks.sleep()
        @pytest.mark.may_block("shows that it can")
        async def test_marked():
            blocks.sleep()
        async def test_not_the_library():
            time.sleep(0)
        def test_no_loop():
            blocks.sleep()
        """,
        "-p",
        "blocking_module",
    )

    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*BlockingError: Blocking call to time.sleep*"])


@pytest.fixture(autouse=True)
def blocking_module(pytester):
    """A module that looks like part of the library and sleeps."""
    pytester.makepyfile(
        blocking_module="""
        import pathlib, sys, types
        import aioexec
        path = str(pathlib.Path(aioexec.__path__[0]) / "blocks.py")
        module = types.ModuleType("aioexec.blocks")
        exec(compile("import time\\ndef sleep(): time.sleep(0)", path, "exec"), module.__dict__)
        sys.modules["aioexec.blocks"] = aioexec.blocks = module
        """
    )
