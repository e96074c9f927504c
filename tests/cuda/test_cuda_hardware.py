"""What a real GPU does, where there is one; everywhere else these tests are skipped."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.devices.builtin import register_gpu_factory
from aioexec.devices.cuda.device import CudaDevice
from aioexec.devices.cuda.factory import GPUDeviceFactory
from aioexec.devices.cuda.pinned import SMALL
from aioexec.devices.device_set import LOCALHOST
from aioexec.errors import ResourceExhaustedError
from tests.cuda.networks import WITHOUT_GPUS, assert_products_are_close, embedding_losses, products
from tests.cuda.test_cuda_device import VALUES, content
from tests.cuda.test_cuda_generated import losses
from tests.cuda.test_cuda_training import OPTIMIZERS, Model, expected_losses, losses as training_losses
from tests.devices.table import Options, device_table as device_table
from tests.tiers import executors, session_on


@pytest.fixture
def factory(device_table: None) -> GPUDeviceFactory:
    """The factory of the GPUs of this machine, which sessions use."""
    made = GPUDeviceFactory()
    if not made.list_physical_devices():
        pytest.skip("there is no GPU")
    register_gpu_factory(made)
    return made


def first(factory: GPUDeviceFactory) -> CudaDevice:
    device, *others = factory.create_devices(Options(), LOCALHOST)
    for each in others:
        each.dismiss()
    assert isinstance(device, CudaDevice)
    return device


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{value.dtype}-{value.shape}")
async def test_arrays_come_back_as_they_went_in(factory: GPUDeviceFactory, value: Any):
    device = first(factory)

    for _ in range(3):
        np.testing.assert_array_equal(await content(device, device.copy_in(np.asarray(value))), value)

    await device.close()


async def test_many_copies_at_once_do_not_mix(factory: GPUDeviceFactory):
    device = first(factory)
    buffers = [device.copy_in(np.full(1 + 7 * k * SMALL // 100, k, np.float32)) for k in range(100)]
    copies = [device.copy_from(buffer, device) for buffer in buffers]
    del buffers

    for k, copy in enumerate(copies):
        assert (await content(device, copy) == k).all()

    copies.clear()
    del copy
    await device.sync()
    assert device.memory.used == 0
    await device.close()


async def test_more_memory_than_there_is_is_refused(factory: GPUDeviceFactory):
    device = first(factory)
    for limit in (device.memory.limit, 1 << 50):
        device.memory.limit = limit
        with pytest.raises(ResourceExhaustedError, match="OOM when allocating"):
            device.allocate(np.dtype(np.uint8), (1 << 45,))
    np.testing.assert_array_equal(await content(device, device.copy_in(np.arange(3))), [0, 1, 2])
    await device.close()


async def test_a_network_is_trained_as_on_the_processor(factory: GPUDeviceFactory):
    expected = await losses(ax.ConfigProto(device_count={"GPU": 0}))

    np.testing.assert_allclose(await losses(ax.ConfigProto()), expected, rtol=1e-4)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
async def test_replayed_steps_give_the_values_of_the_processor(factory: GPUDeviceFactory, optimizer: str):
    with ax.Graph().as_default() as graph:
        model = Model(optimizer, use_resource=True)
    async with session_on(graph, "background") as session:
        await session.run(model.init)
        found = await training_losses(model, session, 20)
        devices = executors(session)[0].engine.devices.values()
        assert any(
            each.is_ready for device in devices if isinstance(device, CudaDevice) for each in device.graphs
        )
    np.testing.assert_allclose(found, await expected_losses(optimizer, 20), rtol=1e-3)


async def test_dropout_and_an_embedding_are_trained_as_on_the_processor(factory: GPUDeviceFactory):
    expected = await embedding_losses(ax.ConfigProto(device_count=WITHOUT_GPUS))

    np.testing.assert_allclose(await embedding_losses(ax.ConfigProto()), expected, rtol=1e-4)


async def test_products_of_all_dtypes_are_those_of_the_processor(factory: GPUDeviceFactory):
    """By cuBLASLt, if that is installed."""
    expected = await products(ax.ConfigProto(device_count=WITHOUT_GPUS))

    assert_products_are_close(await products(ax.ConfigProto()), expected)


ILLEGAL = '''
import asyncio
import numpy as np
from aioexec.devices.cuda.factory import GPUDeviceFactory
from aioexec.devices.cuda.launch import Launch, Module
from aioexec.errors import InternalError, UnavailableError
from tests.cuda.test_cuda_device import ended
from tests.devices.table import Options

WILD = """
.version 6.0
.target sm_50
.address_size 64
.visible .entry wild(.param .u64 place)
{
    .reg .b64 %a;
    .reg .b32 %v;
    mov.u64 %a, 16;
    mov.u32 %v, 1;
    st.global.u32 [%a], %v;
    ret;
}
"""


async def main():
    device = GPUDeviceFactory().create_devices(Options(), "/job:localhost/replica:0/task:0")[0]
    buffer = device.allocate(np.dtype(np.float32), (4,))
    device.launch(Launch(Module("wild", WILD), "wild", (1, 1, 1), (1, 1, 1), 0, (buffer,)), [], [buffer])
    try:
        await ended(buffer.ready)
    except InternalError as error:
        print("GPU:0" in str(error), "ILLEGAL_ADDRESS" in str(error))
    try:
        device.copy_in(np.ones(2))
    except UnavailableError as error:
        print("was lost" in str(error))
    await device.close()


asyncio.run(main())
'''


def test_an_illegal_access_loses_the_device(factory: GPUDeviceFactory):
    """In a process of its own, whose context it ends."""
    found = subprocess.run([sys.executable, "-c", ILLEGAL], capture_output=True, text=True, check=False)

    assert (found.returncode, found.stdout) == (0, "True True\nTrue\n"), found.stderr
