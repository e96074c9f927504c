"""The bindings pass on what the driver class gives them: a process calls them over a library that prints its arguments."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CALLS = """
import ctypes
import numpy as np
from aioexec.devices.cuda.driver import load_driver

driver = load_driver()
found = [driver.version(), driver.device_count(), driver.device_name(0), driver.pci_bus_id(0), driver.total_memory(0)]
found += [driver.compute_capability(0), driver.numa_node(0), driver.has_pools(0), driver.can_access_peer(0, 1)]
context = driver.retain_context(0)
driver.enter(context)
with driver.inside(context):
    found.append(driver.free_memory())
pool = driver.create_pool(3, 1 << 33)
driver.grant_access(pool, 4)
stream, event = driver.create_stream(), driver.create_event()
pointer, host = driver.allocate(4096, pool, stream), driver.allocate_host(64)
module = driver.load_module("// text")
function = driver.function(module, "entry", 100_000)
driver.launch(function, (1, 2, 3), (4, 5, 6), 7, stream, [pointer, np.float32(1.5), np.bool_(True)])
driver.copy_in(pointer, host, 64, stream)
driver.copy_out(host, pointer, 64, stream)
driver.copy_peer(pointer, context, pointer + 64, context, 32, stream)
driver.copy(pointer, pointer + 64, 32, stream)
driver.begin_capture(stream)
graph = driver.end_capture(stream)
executable = driver.instantiate(graph)
driver.destroy_graph(graph)
driver.launch_graph(executable, stream)
driver.destroy_executable(executable)
driver.record(event, stream)
driver.wait(stream, event)
driver.synchronize(event)
driver.destroy_event(event)
driver.free(pointer, stream)
driver.free_now(pointer)
driver.free_host(host)
driver.unload_module(module)
driver.destroy_stream(stream)
driver.destroy_pool(pool)
driver.release_context(0)
ctypes.CDLL(None).fflush(None)
print(*found, flush=True)
"""

EXPECTED = """\
cuInit
cuCtxSetCurrent 1000
cuCtxPushCurrent 1000
cuMemPoolCreate 1 1 3
cuMemPoolSetAttribute 2000
cuMemPoolSetAccess 2000 1 4 1
cuMemAllocFromPoolAsync 4096 2000 3000
cuModuleLoadDataEx // text 0
cuModuleGetFunction 5000 entry
cuFuncSetAttribute 6000 8 186a0
cuLaunchKernel 6000 1 2 3 4 5 6 7 3000: 700000000000 1.5 1 0
cuMemcpyHtoDAsync 700000000000 7000 40 3000
cuMemcpyDtoHAsync 7000 700000000000 40 3000
cuMemcpyPeerAsync 700000000000 1000 700000000040 1000 20 3000
cuMemcpyDtoDAsync 700000000000 700000000040 20 3000
cuStreamBeginCapture 3000 1
cuStreamEndCapture 3000
cuGraphInstantiateWithFlags 8000 0
cuGraphDestroy 8000
cuGraphLaunch 9000 3000
cuGraphExecDestroy 9000
cuEventRecord 4000 3000
cuStreamWaitEvent 3000 4000
cuEventSynchronize 4000
cuEventDestroy 4000
cuMemFreeAsync 700000000000 3000
cuMemFree 700000000000
cuMemFreeHost 7000
cuModuleUnload 5000
cuStreamDestroy 3000
cuMemPoolDestroy 2000
cuDevicePrimaryCtxRelease
13000 1 Fake 0000:01:00.0 8589934592 (75, 76) 134 True True 5
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_arguments_reach_the_library_and_results_come_back(tmp_path: Path):
    source = Path(__file__).with_name("fake_libcuda.c")
    library = tmp_path / "libcuda.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", str(library), str(source)], check=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}

    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", CALLS],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (found.stderr, found.stdout) == ("", EXPECTED)
