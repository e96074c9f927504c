"""Sessions on GPUs of the stub with the kernels that GPUs get: each is emulated on this processor (see `emulation`)."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.devices.builtin import register_gpu_factory
from aioexec.devices.cuda.generated import GeneratedModule
from aioexec.devices.cuda.kernel_table import ensure_kernels
from aioexec.graph.kernels import kernel_registry
from aioexec.testing.cuda_driver import POINTER, StubDriver, StubKernel
from tests.cuda.conftest import Gpus
from tests.cuda.emulation import Emulated, emulated
from tests.cuda.gpu import FEW

TYPES = {"ptr": POINTER, "i64": np.int64, "double": np.float64}


class EmulatingStub(StubDriver):
    """A stub whose modules are the IR of kernels, which it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.emulated: dict[int, Emulated] = {}

    def _cuModuleLoadDataEx(self, image: bytes, count: int, options: Any, values: Any) -> int:
        module = super()._cuModuleLoadDataEx(image, count, options, values)
        text = image[:-1].decode()
        (entry,) = re.findall(r"^define ptx_kernel void @(\w+)", text, re.MULTILINE)
        self.emulated[module] = emulated(text, entry)
        return module

    def _cuModuleGetFunction(self, module: int, name: bytes) -> int:
        found = self.emulated[module]

        def compute(shape: list[int], *arguments: Any) -> None:
            threads = min(shape[3], FEW) if found.has_barrier else shape[3]
            found.launch((shape[0], shape[1], shape[2]), threads, arguments)

        self.kernels[name.decode()] = StubKernel([TYPES[kind] for kind in found.kinds], compute)
        return super()._cuModuleGetFunction(module, name)


@pytest.fixture
def emulating(device_table: None, monkeypatch: pytest.MonkeyPatch) -> Gpus:
    """Have sessions place on GPUs of such a stub what GPUs have kernels for."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(kernel_registry, "_kernels", dict(kernel_registry._kernels))
    monkeypatch.setattr(GeneratedModule, "ptx", GeneratedModule.ir)
    ensure_kernels()
    gpus = Gpus(EmulatingStub())
    register_gpu_factory(gpus.factory)
    return gpus


def network(graph: Any) -> tuple[Any, Any]:
    """A network of one hidden layer: its loss, and a step of training it with Adam."""
    ax.set_random_seed(1)
    random = np.random.default_rng(1)
    x = ax.constant(random.normal(size=(8, 4)).astype(np.float32))
    target = ax.constant(random.normal(size=(8, 3)).astype(np.float32))
    w = ax.get_variable("w", initializer=ax.constant(random.normal(size=(1, 4)).astype(np.float32)))
    b = ax.get_variable("b", initializer=ax.constant(random.normal(size=(8, 3)).astype(np.float32)))
    hidden = ax.tanh(x * w)
    loss = ax.reduce_mean(ax.square(ax.reduce_sum(hidden, 1, keepdims=True) + b - target))
    return loss, ax.train.AdamOptimizer(0.1).minimize(loss)


async def losses(config: Any) -> list[float]:
    with ax.Graph().as_default() as graph:
        loss, train = network(graph)
        init = ax.global_variables_initializer()
    async with ax.Session(graph=graph, config=config) as session:
        await session.run(init)
        return [float((await session.run([loss, train]))[0]) for _ in range(5)]


@pytest.mark.slow
async def test_a_network_is_trained_as_on_the_processor(emulating: Gpus):
    expected = await losses(ax.ConfigProto(device_count={"GPU": 0}))
    assert emulating.stub.calls == []

    found = await losses(ax.ConfigProto())

    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert found[-1] < found[0]
    assert emulating.stub.calls.count("cuLaunchKernel") > 50
    assert emulating.stub.faults == []
    assert +emulating.stub.counts == {}
