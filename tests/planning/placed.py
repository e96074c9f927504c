"""Common parts of placement tests: ops with kernels on a CPU, a simulated GPU, or both; and devices without threads."""

from __future__ import annotations

from typing import Any

import pytest

from aioexec.devices.device import Device, DeviceAttributes
from aioexec.devices.device_set import LOCALHOST, DeviceSet
from aioexec.devices.registry import DeviceFactory
from aioexec.devices.threads.workers import Workers
from aioexec.graph.graph import Graph
from aioexec.graph.kernels import kernel_registry
from aioexec.graph.kernels.kernel import plain
from aioexec.graph.kernels.kernel_registry import register_kernel
from aioexec.planning.place import place, set_devices
from aioexec.planning.subgraph import Subgraph
from tests.devices.table import ToyDeviceFactory
from tests.tiers import Ops

_WORKERS = Workers(1, "placed")  # a thread begins with the first job; there is none


class FakeCPU(Device):
    """A device for the rows' own kernels."""

    runs_cpu_kernels = True


class FakeGPU(Device):
    """A device that has only the kernels registered for it."""


def device_set(*names: str, process: str = LOCALHOST) -> DeviceSet:
    """Devices "CPU:0", "GPU:1", or with a task of their own, "/job:a/replica:0/task:0/device:CPU:0"."""
    found = DeviceSet()
    for name in names:
        full = name if name.startswith("/") else f"{process}/device:{name}"
        device_type = full.rpartition("/device:")[2].partition(":")[0]
        kind = FakeCPU if device_type == "CPU" else FakeGPU
        found.add_device(kind(DeviceAttributes(full, device_type), _WORKERS))
    return found


_SIGNATURES = {
    "Input": "() -> (a:float, b:float) {stateful}",
    "Source": "() -> (x:float)",
    "Relu": "(x:float) -> (y:float)",
    "Add": "(x:float, y:float) -> (z:float)",
    "Variable": "() -> (ref:Ref(float)) {stateful}",
    "Assign": "(ref:Ref(float), value:float) -> (updated:Ref(float))",
    "Handle": "() -> (handle:resource) {stateful}",
    "Update": "(handle:resource, value:float) -> () {stateful}",
}


@pytest.fixture(autouse=True)
def fake_ops(ops: Ops, monkeypatch: pytest.MonkeyPatch, device_table: None) -> None:
    """Register each op three times: "Relu" for both device types, "ReluCPU", "ReluGPU"; GPUs come before CPUs."""
    monkeypatch.setattr(kernel_registry, "_kernels", {})
    DeviceFactory.register("GPU", ToyDeviceFactory("GPU"), 210)
    for name, signature in _SIGNATURES.items():
        for suffix in ("", "CPU", "GPU"):
            row: dict[str, Any] = {"kernel": None} if suffix == "GPU" else {}
            outputs = signature.partition("->")[2].count(":")
            ops.add(f"Fake{name}{suffix}{signature}", _never_run, shape=lambda _, n=outputs: [()] * n, **row)
            if suffix != "CPU":
                register_kernel(f"Fake{name}{suffix}", "GPU", plain(_never_run))


def _never_run(*inputs: Any) -> None:
    raise AssertionError("placing calls no kernel")


def placed(graph: Graph, devices: DeviceSet, **options: Any) -> dict[str, str]:
    """Where each node of a graph goes, without the process: "CPU:0"."""
    found = place(graph.get_operations(), devices, **options)
    return {name: device.removeprefix(f"{LOCALHOST}/device:") for name, device in found.items()}


def place_subgraph(subgraph: Subgraph, devices: DeviceSet) -> None:
    """Place the nodes that one signature needs, regardless of the rest of the graph."""
    assert devices.client_device is not None
    operations = [node.op for node in subgraph.nodes if node.feed is None]
    fed = {node.feed for node in subgraph.feeds if node.feed is not None}
    set_devices(subgraph, place(operations, devices, fed=fed), devices.client_device.name)
