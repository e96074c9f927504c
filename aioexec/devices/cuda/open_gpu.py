"""What one device uses of a GPU, from its first use to its end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from aioexec.devices.cuda.cublaslt import Plan
from aioexec.devices.cuda.driver import Handle
from aioexec.devices.cuda.event import CudaBuffer
from aioexec.devices.cuda.gpu import Gpu
from aioexec.devices.cuda.pinned import PinnedMemory
from aioexec.devices.cuda.stream import Stream


class OpenGpu:
    """What a device uses of a GPU: `gpu`, its three streams, and page-locked memory.

    `workspace` is memory that products of matrices use one after the other, once one of them needs it.

    Args:
        device: the device's full name.
    """

    def __init__(self, gpu: Gpu, device: str) -> None:
        gpu.driver.enter(gpu.context)

        def stream(purpose: str, computing: Stream | None = None) -> Stream:
            located = partial(gpu.located, device=device)
            name = f"aioexec-gpu-{gpu.ordinal}-{purpose}"
            return Stream(name, gpu.driver, gpu.context, located, computing)

        self.gpu = gpu
        self.compute = stream("compute")
        self.incoming = stream("copy-in", self.compute)
        self.outgoing = stream("copy-out", self.compute)
        self.pinned = PinnedMemory(gpu.driver, gpu.context)
        self.workspace: CudaBuffer | None = None

    @property
    def streams(self) -> tuple[Stream, Stream, Stream]:
        return self.compute, self.incoming, self.outgoing

    def multiply(self, plan: Plan, operands: tuple[int, int, int], stream: Handle) -> None:
        """Give a stream a product; operands are pointers, and the workspace is there if it needs one."""
        workspace = 0 if self.workspace is None else self.workspace.pointer
        self.gpu.products.multiply(plan, operands, workspace, int(stream))

    def close(self, on_end: Callable[[], object]) -> None:
        """Give back the memory; the streams are closed. `on_end` is called when no array has a part of it any more."""
        self.workspace = None
        self.pinned.close(on_end)
