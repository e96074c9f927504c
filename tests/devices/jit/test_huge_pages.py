"""Huge pages: packed constants share chunks of memory that begin on one."""

from __future__ import annotations

import gc
import weakref

import pytest

from aioexec.devices.jit.huge_pages import CHUNK_BYTES, LEAST_BYTES, PAGE, HugePages


def address(array) -> int:
    return int(array.__array_interface__["data"][0])


@pytest.mark.parametrize("nbytes", [1, 100, LEAST_BYTES - 1, LEAST_BYTES + 1, CHUNK_BYTES])
def test_memory_has_the_size_asked_for_and_begins_on_a_cache_line(nbytes):
    array = HugePages().empty(nbytes)

    assert array.nbytes == nbytes
    assert address(array) % 64 == 0


def test_arrays_of_a_chunk_follow_each_other_and_the_first_begins_on_a_huge_page():
    pages = HugePages()

    one, other = (pages.empty(LEAST_BYTES + 1) for _ in range(2))

    assert address(one) % PAGE == 0
    assert address(other) == address(one) + LEAST_BYTES + 64


def test_an_array_that_does_not_fit_begins_a_chunk():
    pages = HugePages()
    arrays = [pages.empty(CHUNK_BYTES // 2 - 64) for _ in range(5)]

    assert [address(array) % PAGE == 0 for array in arrays] == [True, False, True, False, True]


def test_an_array_larger_than_half_a_chunk_has_a_mapping_of_its_own():
    pages = HugePages()
    small = pages.empty(LEAST_BYTES)
    large = pages.empty(CHUNK_BYTES)
    next_small = pages.empty(LEAST_BYTES)

    assert address(large) % PAGE == 0
    assert address(next_small) == address(small) + LEAST_BYTES


def test_a_chunk_is_freed_with_the_last_array_in_it():
    pages = HugePages()
    one, other = (pages.empty(CHUNK_BYTES // 2) for _ in range(2))
    chunk = weakref.ref(one.base)
    pages.empty(LEAST_BYTES)  # begins another chunk

    del one
    gc.collect()
    assert chunk() is not None

    del other
    gc.collect()
    assert chunk() is None
