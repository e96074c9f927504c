"""Page-locked memory of a GPU of the stub: values that are copied once, and arrays that outlive the device."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

from aioexec.devices.cuda import pinned
from aioexec.devices.cuda.pinned import SMALL, PinnedMemory, is_page_locked
from tests.cuda.conftest import Gpus
from tests.cuda.test_cuda_device import FLOAT, content, ended

COUNTS = pytest.mark.parametrize("count", [10, SMALL])


class Ends:
    """Counts its calls."""

    count = 0

    def __call__(self) -> None:
        self.count += 1


def note_addresses(gpus: Gpus, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The addresses in main memory of all copies from now on."""
    found: list[int] = []
    copy_in, copy_out = gpus.stub._cuMemcpyHtoDAsync, gpus.stub._cuMemcpyDtoHAsync

    def noted_in(pointer: int, address: int, *rest: Any) -> Any:
        found.append(address)
        return copy_in(pointer, address, *rest)

    def noted_out(address: int, *rest: Any) -> Any:
        found.append(address)
        return copy_out(address, *rest)

    monkeypatch.setattr(gpus.stub, "_cuMemcpyHtoDAsync", noted_in)
    monkeypatch.setattr(gpus.stub, "_cuMemcpyDtoHAsync", noted_out)
    return found


@COUNTS
async def test_a_gpu_copies_to_and_from_an_array_once_there_is_a_block_for_it(
    gpus: Gpus, monkeypatch: pytest.MonkeyPatch, count: int
):
    (device,) = gpus.devices()
    value = np.arange(count, dtype=np.float32)
    x = device.copy_in(value)
    await device.sync()
    addresses = note_addresses(gpus, monkeypatch)

    found = await content(device, x)
    y = device.copy_in(found)
    again = await content(device, y)

    assert is_page_locked(found)
    assert addresses[:2] == [found.ctypes.data] * 2
    np.testing.assert_array_equal(found, value)
    np.testing.assert_array_equal(again, value)
    assert not is_page_locked(found[::2])
    assert not is_page_locked(value)
    del found, again, x, y
    await device.close()


@COUNTS
async def test_the_block_of_an_array_is_used_again_when_the_array_has_ended(gpus: Gpus, count: int):
    (device,) = gpus.devices()
    x = device.copy_in(np.ones(count, np.float32))
    await device.sync()

    for _ in range(5):
        part = (await content(device, x))[1:]
        assert part.sum() == count - 1
        del part

    assert gpus.stub.counts["pinned"] == 1
    await device.close()


async def test_an_array_of_another_dtype_and_shape_has_a_block(gpus: Gpus):
    (device,) = gpus.devices()
    value = np.arange(6, dtype=np.int64).reshape(2, 3)
    x = device.copy_in(value)
    await ended(x.ready)

    found = await content(device, x)

    assert is_page_locked(found)
    np.testing.assert_array_equal(found, value)
    assert (found.dtype, found.shape) == (value.dtype, value.shape)
    assert found.flags.writeable
    del found
    await device.close()


async def test_arrays_have_no_more_page_locked_memory_than_the_limit(
    gpus: Gpus, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(pinned, "_KEPT", 4 << 12)
    (device,) = gpus.devices()
    x = device.copy_in(np.arange(8.0))
    await ended(x.ready)

    found = [(await content(device, x), await content(device, x))[0] for _ in range(8)]

    assert sum(map(is_page_locked, found)) <= 4
    for each in found:
        np.testing.assert_array_equal(each, np.arange(8.0))
    del found, each
    await device.close()


async def test_an_array_outlives_its_device(gpus: Gpus):
    """The context ends with the last of the arrays, whichever thread drops it; another session may use the GPU meanwhile."""
    (device,) = gpus.devices()
    x = device.copy_in(np.arange(8, dtype=np.float32))
    await ended(x.ready)
    kept = [await content(device, x)]
    assert is_page_locked(kept[0])
    del x
    await device.close()
    assert gpus.stub.counts["context"] == 1
    (other,) = gpus.devices()
    await content(other, other.copy_in(np.ones(2)))
    await other.close()

    np.testing.assert_array_equal(kept[0], np.arange(8))
    assert (gpus.stub.counts["context"], gpus.stub.counts["pinned"]) == (1, 1)
    thread = threading.Thread(target=kept.clear)
    thread.start()
    thread.join()

    assert +gpus.stub.counts == {}


async def test_a_released_gpu_is_closed_by_the_next_call_if_the_lock_is_taken(gpus: Gpus):
    """As it is when a garbage collection inside of `hold` ends the last array."""
    (device,) = gpus.devices()
    x = device.copy_in(np.ones(2))
    await ended(x.ready)
    kept = await content(device, x)
    del x
    await device.close()

    with device._gpus._lock:
        del kept
        gc.collect()
    assert gpus.stub.counts["context"] == 1

    (other,) = gpus.devices()
    other.allocate(FLOAT, (1,))
    assert gpus.stub.calls.count("cuDevicePrimaryCtxRelease") == 1
    await other.close()


async def test_a_buffer_that_comes_from_a_gpu_out_of_reach_is_staged_once(gpus: Gpus):
    gpus.stub.gpus = 2
    first, second = gpus.devices()
    x = first.copy_in(np.arange(SMALL, dtype=np.float32))
    await first.sync()

    y = second.copy_from(x, first)

    np.testing.assert_array_equal(await content(second, y), np.arange(SMALL))
    assert gpus.stub.calls.count("cuMemHostAlloc") == 2  # of the first, and for `content`
    await first.close()
    await second.close()


async def test_an_array_for_a_value_to_copy_in_has_a_block_if_there_is_one(gpus: Gpus):
    (device,) = gpus.devices()
    assert not is_page_locked(device.host_array(FLOAT, (SMALL,)))
    device.copy_in(np.ones(SMALL, np.float32))
    await device.sync()

    array = device.host_array(FLOAT, (2, SMALL // 2))
    array[...] = 3

    assert is_page_locked(array)
    assert not is_page_locked(device.host_array(FLOAT, (0,)))
    np.testing.assert_array_equal(await content(device, device.copy_in(array)), array)
    del array
    await device.close()


def test_nothing_is_lent_that_would_have_to_be_allocated(gpus: Gpus):
    memory = PinnedMemory(gpus.factory._gpus.driver(), None)

    assert memory.lend(FLOAT, (4,)) is None
    block = memory.take(16)
    memory.give(block)
    array = memory.lend(FLOAT, (4,))

    assert array is not None
    assert array.ctypes.data == block.address
    memory.close(ends := Ends())
    assert ends.count == 0
    del array
    assert ends.count == 1
