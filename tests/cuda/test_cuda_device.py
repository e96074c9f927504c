"""A GPU device without a session, on the stub: memory, copies, work that is held, and the end."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from aioexec import dtypes
from aioexec.devices.cuda.device import CudaDevice
from aioexec.devices.cuda.kernels import accepted
from aioexec.devices.cuda.launch import Launch, Module
from aioexec.devices.cuda.pinned import SMALL
from aioexec.devices.device import DeviceAttributes
from aioexec.devices.threads.pools import acquire_pool
from aioexec.errors import InternalError, ResourceExhaustedError, UnavailableError
from aioexec.resources.buffer import Event
from aioexec.resources.device_variable import DeviceVariable
from aioexec.testing.cuda_driver import StubDriver
from aioexec.testing.opaque_device import OpaqueDevice
from tests.cuda.conftest import Gpus
from tests.cuda.kernels import MODULE, floats, launch

FLOAT = np.dtype(np.float32)


async def ended(event: Event) -> None:
    """Wait for an event."""
    if not event.is_done:
        done = asyncio.Event()
        event.add_done_callback(done.set)
        await done.wait()
    if event.error is not None:
        raise event.error


async def content(device: CudaDevice, buffer: Any) -> Any:
    array, event = device.copy_out(buffer)
    await ended(event)
    return array


def added(device: CudaDevice, x: Any, y: Any) -> Any:
    z = device.allocate(x.dtype, x.shape)
    device.launch(launch("add", x.nbytes // 4, x, y, z), [x, y], [z])
    return z


VALUES = [
    np.float32(3),
    np.zeros((0, 4), np.float32),
    np.arange(6, dtype=np.int64).reshape(2, 3).T,
    np.array([True, False]),
    np.arange(5).astype(ml_dtypes.bfloat16),
    np.array([1 + 2j]),
    np.arange(SMALL, dtype=np.float32)[::-2],
    np.arange(SMALL, dtype=np.float16),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{value.dtype}-{value.shape}")
async def test_arrays_come_back_as_they_went_in(gpus: Gpus, value: Any):
    (device,) = gpus.devices()

    found = await content(device, device.copy_in(np.asarray(value)))

    np.testing.assert_array_equal(found, value)
    assert found.dtype == value.dtype
    await device.close()


async def test_a_gpu_is_not_used_before_the_first_call(gpus: Gpus):
    (device,) = gpus.devices()

    await device.sync()
    await device.close()

    assert "cuDevicePrimaryCtxRetain" not in gpus.stub.calls


SEEDS = [pytest.param(seed, marks=[pytest.mark.slow] if seed >= 30 else []) for seed in range(300)]


@pytest.mark.parametrize("seed", SEEDS)
async def test_random_work_gives_the_same_values_in_every_order_of_the_streams(gpus: Gpus, seed: int):
    gpus.stub._random.seed(seed)
    (device,) = gpus.devices()
    random = np.random.default_rng(seed)
    known = [np.full(8, k, np.float32) for k in range(3)]
    buffers = [device.copy_in(each) for each in known]
    waiting = []
    for _ in range(20):
        i, j, k = random.integers(len(known), size=3)
        match random.integers(5):
            case 0:
                known[i], buffers[i] = known[j] + known[k], added(device, buffers[j], buffers[k])
            case 1:
                known[i], buffers[i] = known[j] + 1, device.copy_in(known[j] + 1)
            case 2:
                waiting.append((known[i].copy(), *device.copy_out(buffers[i])))
            case 3:
                known[i], buffers[i] = known[j], device.copy_from(buffers[j], device)
            case 4:
                await asyncio.sleep(0)

    for expected, array, event in waiting:
        await ended(event)
        np.testing.assert_array_equal(array, expected)
    buffers.clear()
    del buffers
    await device.sync()
    assert device.memory.used == 0
    assert gpus.stub.counts["memory"] == 0
    await device.close()


async def test_memory_beyond_the_limit_is_refused_with_sizes(gpus: Gpus):
    (device,) = gpus.devices()
    device.memory.limit = 1000
    kept = device.allocate(FLOAT, (200,))

    with pytest.raises(
        ResourceExhaustedError, match=r"shape \[100\] and type float32 .*GPU:0: 400 bytes, of 1000 bytes 200"
    ):
        device.allocate(FLOAT, (100,))

    del kept
    assert device.allocate(FLOAT, (250,)).nbytes == 1000
    await device.close()


async def test_memory_that_the_gpu_lacks_is_refused_with_sizes(gpus: Gpus):
    (device,) = gpus.devices()
    device.allocate(FLOAT, (1,))
    gpus.stub.memory = 1000

    with pytest.raises(
        ResourceExhaustedError, match=r"4000 bytes.*the GPU, with what else uses it, has 1000"
    ):
        device.copy_in(np.zeros(1000, np.float32))

    await device.close()


@pytest.mark.parametrize("count", [10, SMALL])
async def test_page_locked_memory_that_the_machine_lacks_fails_the_copy(gpus: Gpus, count: int):
    (device,) = gpus.devices()
    x = device.allocate(FLOAT, (count,))
    device.launch(launch("fill", count, x, np.float32(1), np.bool_(False)), [], [x])
    for make in (lambda: device.copy_in(np.ones(count)).ready, lambda: device.copy_out(x)[1]):
        gpus.stub.fail("cuMemHostAlloc", "OUT_OF_MEMORY")
        with pytest.raises(ResourceExhaustedError, match="page-locked"):
            await ended(make())
    np.testing.assert_array_equal(await content(device, x), np.ones(count))
    await device.close()


async def test_a_buffer_is_no_array(gpus: Gpus):
    (device,) = gpus.devices()
    buffer = device.copy_in(np.ones(2))

    with pytest.raises(InternalError, match="read as an array"):
        np.asarray(buffer)
    with pytest.raises(InternalError, match="read as a truth value"):
        bool(buffer)

    await device.close()


async def test_a_buffer_that_no_work_writes_cannot_be_read(gpus: Gpus):
    (device,) = gpus.devices()

    with pytest.raises(InternalError, match="before work was given that writes it"):
        await content(device, device.allocate(FLOAT, (2,)))
    assert (await content(device, device.allocate(FLOAT, (0, 2)))).shape == (0, 2)

    await device.close()


async def test_buffers_of_another_device_are_refused(gpus: Gpus):
    gpus.stub.gpus = 2
    first, second = gpus.devices()
    buffer = first.copy_in(np.ones(2))

    with pytest.raises(InternalError, match="expected one of its buffers"):
        second.copy_out(buffer)

    await first.close()
    await second.close()


# Work that is held


async def test_work_waits_for_its_module_and_other_work_does_not(gpus: Gpus):
    """The first launch has a worker load the module; copies go on meanwhile."""
    (device,) = gpus.devices()
    x = device.copy_in(np.ones(4, np.float32))
    y = added(device, x, x)
    z = added(device, y, x)

    assert y.ready.is_held
    assert z.ready.is_held
    np.testing.assert_array_equal(await content(device, x), [1, 1, 1, 1])
    np.testing.assert_array_equal(await content(device, z), [3, 3, 3, 3])
    assert not added(device, x, x).ready.is_held
    assert gpus.stub.calls.count("cuModuleLoadDataEx") == 1
    await device.close()


async def test_work_on_a_buffer_that_held_work_writes_first_comes_after_it(gpus: Gpus):
    (device,) = gpus.devices()
    x = device.copy_in(np.ones(4, np.float32))
    await content(device, added(device, x, x))
    other = Module("other", "// another module")
    y = device.allocate(FLOAT, (4,))

    device.launch(Launch(other, *_rest(launch("add", 4, x, x, y))), [x], [y])
    device.launch(launch("add", 4, y, y, y), [], [y])

    assert y.ready.is_held
    np.testing.assert_array_equal(await content(device, y), [4, 4, 4, 4])
    await device.close()


async def test_updates_of_a_variable_need_no_more_memory_than_one(gpus: Gpus):
    """The old content is dropped when the stream has the work, and freed in the order of the stream."""
    (device,) = gpus.devices()
    x = device.copy_in(np.ones(4, np.float32))
    await content(device, added(device, x, x))
    await ended(
        x.ready
    )  # the end of the copy, which keeps the buffer, may be reported after that of later work
    v = DeviceVariable("v", dtypes.float32, (4,))
    v.replace(x)
    del x
    gpus.stub.is_held = True

    for _ in range(10):
        buffer: Any = added(device, v.content(), v.content())
        v.replace(buffer, accepted=accepted(buffer.ready))
        del buffer

    assert not v.content().ready.is_done
    assert device.memory.used == 16
    gpus.stub.is_held = False
    np.testing.assert_array_equal(await content(device, v.content()), [1024] * 4)
    await device.close()


async def test_a_module_that_is_refused_fails_its_work_and_what_reads_it(gpus: Gpus):
    (device,) = gpus.devices()
    gpus.stub.fail("cuModuleLoadDataEx", "INVALID_PTX")
    x = device.copy_in(np.ones(4, np.float32))
    y = added(device, x, x)
    z = added(device, y, y)

    for each in (y, z):
        with pytest.raises(
            InternalError, match="refuses the kernels of test: cuModuleLoadDataEx: CUDA_ERROR_INV"
        ):
            await content(device, each)
    np.testing.assert_array_equal(await content(device, added(device, x, x)), [2, 2, 2, 2])
    await device.close()


async def test_modules_with_the_same_text_are_loaded_once(gpus: Gpus):
    (device,) = gpus.devices()
    x = device.allocate(FLOAT, (4,))
    for name in "ab":
        work = launch("fill", 4, x, np.float32(2), np.bool_(True))
        device.launch(Launch(Module(name, MODULE.ptx), *_rest(work)), [], [x])
        np.testing.assert_array_equal(await content(device, x), [-2, -2, -2, -2])
    assert gpus.stub.calls.count("cuModuleLoadDataEx") == 1
    await device.close()


def _rest(work: Launch) -> tuple[Any, ...]:
    return work.entry, work.grid, work.block, work.shared_bytes, work.arguments


async def test_a_kernel_that_the_module_lacks_fails_its_work(gpus: Gpus):
    (device,) = gpus.devices()
    x = device.allocate(FLOAT, (4,))
    device.launch(launch("missing", 4, x), [], [x])

    with pytest.raises(InternalError, match="cuModuleGetFunction: CUDA_ERROR_NOT_FOUND"):
        await content(device, x)

    await device.close()


async def test_an_empty_grid_does_nothing(gpus: Gpus):
    (device,) = gpus.devices()
    x = device.allocate(FLOAT, (0,))

    await ended(device.launch(launch("neg", 0, x, x), [x], [x]))

    assert "cuLaunchKernel" not in gpus.stub.calls
    await device.close()


async def test_much_shared_memory_is_allowed_to_a_kernel(gpus: Gpus):
    (device,) = gpus.devices()
    x = device.allocate(FLOAT, (4,))
    work = launch("fill", 4, x, np.float32(1), np.bool_(False))
    large = Launch(work.module, work.entry, work.grid, work.block, 100_000, work.arguments)

    for _ in range(2):
        await ended(device.launch(large, [], [x]))

    assert gpus.stub.calls.count("cuFuncSetAttribute") == 1
    await device.close()


# Copies between devices


@pytest.mark.parametrize("reaches", [True, False])
@pytest.mark.parametrize("count", [3, 0, SMALL])
async def test_a_buffer_is_copied_from_another_gpu(gpus: Gpus, reaches: bool, count: int):
    gpus.stub.gpus = 2
    gpus.stub.reaches = {(1, 0)} if reaches else set()
    first, second = gpus.devices()
    x = first.copy_in(np.arange(count, dtype=np.float32))

    for _ in range(2):
        copy = second.copy_from(added(first, x, x), first)
        np.testing.assert_array_equal(await content(second, copy), 2 * np.arange(count, dtype=np.float32))

    assert gpus.stub.calls.count("cuMemcpyPeerAsync") == (2 if reaches and count else 0)
    assert gpus.stub.calls.count("cuDeviceCanAccessPeer") == 1
    await first.close()
    await second.close()


async def test_a_copy_from_another_gpu_fails_as_the_work_that_writes_it(gpus: Gpus):
    gpus.stub.gpus = 2
    first, second = gpus.devices()
    gpus.stub.fail("cuModuleLoadDataEx", "INVALID_PTX")
    x = first.copy_in(np.ones(2, np.float32))
    copy = second.copy_from(added(first, x, x), first)

    with pytest.raises(InternalError, match="refuses the kernels"):
        await content(second, copy)

    await first.close()
    await second.close()


async def test_a_buffer_is_copied_from_a_device_of_another_type(gpus: Gpus):
    (device,) = gpus.devices()
    other = OpaqueDevice(DeviceAttributes("/device:OPAQUE:0", "OPAQUE", 1 << 20), acquire_pool("test", 1))

    copy = device.copy_from(other.copy_in(np.arange(3)), other)

    np.testing.assert_array_equal(await content(device, copy), [0, 1, 2])
    await device.close()
    await other.close()


# Faults and the end


async def test_an_error_of_the_gpu_loses_the_device(gpus: Gpus):
    (device,) = gpus.devices()
    x = device.copy_in(np.ones(2, np.float32))
    y = device.allocate(FLOAT, (2,))
    device.launch(launch("wild", 2, x, y), [x], [y])

    with pytest.raises(InternalError, match=r"GPU:0 failed with .*CUDA_ERROR_ILLEGAL_ADDRESS"):
        await ended(y.ready)
    for call in (lambda: device.copy_in(np.ones(2)), lambda: device.copy_out(x), lambda: added(device, x, x)):
        with pytest.raises(UnavailableError, match="GPU:0 was lost"):
            call()
    await device.close()
    assert gpus.stub.faults == ["an address outside of all memory"]
    gpus.stub.faults.clear()


@pytest.mark.parametrize(
    "name", ["cuLaunchKernel", "cuEventRecord", "cuMemAllocFromPoolAsync", "cuMemcpyDtoHAsync"]
)
async def test_a_call_may_be_the_first_to_report_an_error_of_the_gpu(gpus: Gpus, name: str):
    (device,) = gpus.devices()
    x = device.copy_in(np.ones(2, np.float32))
    await content(device, added(device, x, x))
    gpus.stub.fail(name, "LAUNCH_FAILED")

    with pytest.raises((InternalError, UnavailableError), match="GPU:0"):
        await content(device, added(device, x, x))
    with pytest.raises(UnavailableError, match="GPU:0 was lost"):
        device.copy_in(np.ones(2))
    await device.close()


async def test_a_failed_context_leaves_nothing_behind(gpus: Gpus):
    (device,) = gpus.devices()
    for name in ("cuDevicePrimaryCtxRetain", "cuMemPoolCreate", "cuStreamCreate"):
        gpus.stub.fail(name, "OUT_OF_MEMORY")
        with pytest.raises(InternalError, match=name):
            device.allocate(FLOAT, (2,))
        assert +gpus.stub.counts == {}
    assert device.allocate(FLOAT, (2,)).nbytes == 8
    await device.close()


async def test_the_event_loop_runs_while_the_gpu_works(gpus: Gpus):
    stub = gpus.stub
    (device,) = gpus.devices()
    stub.is_held = True
    x = device.copy_in(np.ones(2, np.float32))
    done = asyncio.ensure_future(content(device, x))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not done.done()

    while stub.perform():
        pass

    np.testing.assert_array_equal(await done, [1, 1])
    stub.is_held = False
    await device.close()


async def test_a_device_that_is_closed_waits_for_its_work_and_takes_no_more(gpus: Gpus):
    (device,) = gpus.devices()
    x = device.copy_in(np.ones(SMALL, np.float32))
    y = added(device, x, x)
    _, event = device.copy_out(y)

    await device.close()

    assert event.is_done
    assert event.error is None
    with pytest.raises(UnavailableError, match="is closed"):
        device.allocate(FLOAT, (2,))
    assert x.shape == (SMALL,)  # still referenced: its memory went with the context


async def test_memory_that_outlives_its_device_is_freed_while_the_gpu_is_in_use(gpus: Gpus):
    first, second = *gpus.devices(), *gpus.devices()
    x, y = first.copy_in(np.ones(2)), second.copy_in(np.ones(2))
    await first.close()
    assert gpus.stub.counts["memory"] == 2

    del x
    gc.collect()

    assert gpus.stub.counts["memory"] == 1
    del y
    await second.close()


def test_an_unused_device_is_dismissed_without_an_event_loop(gpus: Gpus):
    (device,) = gpus.devices()
    device.dismiss()


async def test_a_dismissed_device_ends_its_threads(gpus: Gpus):
    (device,) = gpus.devices()
    await ended(device.copy_in(np.ones(2)).ready)
    device.dismiss()
    assert device._open is not None
    for stream in device._open.streams:
        for thread in stream._threads:
            await asyncio.to_thread(thread.join)
    await ended(device.copy_in(np.ones(2)).ready)  # work after that starts another
    await device.close()


def test_floats_are_views(stub: StubDriver):
    assert floats(np.zeros(8, np.uint8), 2).tolist() == [0, 0]
