"""Work of a GPU as a CUDA graph, which is launched as a whole."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable

from aioexec.devices.cuda.driver import CudaError, Handle
from aioexec.devices.cuda.gpu import Gpu


class CudaGraph:
    """A graph, once `capture` has made it.

    The driver orders its launches after one another, and frees it when the last one has ended, so it may be destroyed at once.

    Attributes:
        key: what the work that is captured follows from.

    Changing: `_executable`, the driver's; None before and after.
    """

    def __init__(self, gpu: Gpu, key: Hashable) -> None:
        self.key = key
        self._gpu = gpu
        self._executable: Handle = None

    def __del__(self) -> None:
        self.destroy()

    @property
    def is_ready(self) -> bool:
        return self._executable is not None

    def capture(self, give: Callable[[Handle], object]) -> None:
        """Make the graph of what `give` gives a stream; any thread, which may take milliseconds.

        Raises:
            CudaError: something cannot be captured.
        """
        driver = self._gpu.driver
        driver.enter(self._gpu.context)
        stream = driver.create_stream()
        try:
            graph = self._captured(stream, give)
            try:
                self._executable = driver.instantiate(graph)
            finally:
                driver.destroy_graph(graph)
        finally:
            driver.destroy_stream(stream)

    def _captured(self, stream: Handle, give: Callable[[Handle], object]) -> Handle:
        driver = self._gpu.driver
        driver.begin_capture(stream)
        try:
            give(stream)
        except BaseException:
            with contextlib.suppress(CudaError):
                driver.destroy_graph(driver.end_capture(stream))
            raise
        return driver.end_capture(stream)

    def launch(self, stream: Handle) -> None:
        """Give a stream the work; the GPU's context is current."""
        self._gpu.driver.launch_graph(self._executable, stream)

    def destroy(self) -> None:
        """Give the graph back, whatever this thread is doing."""
        executable, self._executable = self._executable, None
        if executable is not None and self._gpu.is_open:
            with contextlib.suppress(CudaError), self._gpu.driver.inside(self._gpu.context):
                self._gpu.driver.destroy_executable(executable)
