"""The garbage collector is disabled while many objects are allocated, and restored afterwards."""

import gc
from collections.abc import Iterator

import pytest

from aioexec.graph.io.collector import collector_disabled


@pytest.fixture(autouse=True)
def _collector_as_it_was() -> Iterator[None]:
    was_enabled = gc.isenabled()
    yield
    if was_enabled:
        gc.enable()


def test_it_rests_inside_and_works_again_outside() -> None:
    gc.enable()

    with collector_disabled():
        assert not gc.isenabled()

    assert gc.isenabled()


def test_it_works_again_after_an_error() -> None:
    gc.enable()

    with pytest.raises(KeyError), collector_disabled():
        raise KeyError("planning failed")

    assert gc.isenabled()


def test_a_caller_that_has_stopped_it_finds_it_stopped() -> None:
    gc.disable()

    with collector_disabled():
        assert not gc.isenabled()

    assert not gc.isenabled()


def test_the_outer_one_lets_it_work_again() -> None:
    gc.enable()

    with collector_disabled():
        with collector_disabled():
            pass
        assert not gc.isenabled()

    assert gc.isenabled()


def test_the_last_of_several_threads_to_leave_lets_it_work_again() -> None:
    gc.enable()
    first, second = collector_disabled(), collector_disabled()

    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)

    assert gc.isenabled()
