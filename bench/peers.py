"""The peers: their availability, versions and thread counts; and the machine they run on."""

import os
import platform
import re
import sys
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Peer:
    """One column of the table.

    Attributes:
        module: the module that must be importable.
        distributions: the distributions whose version is reported; the first one installed counts.
    """

    title: str
    module: str
    distributions: tuple[str, ...]

    def is_installed(self) -> bool:
        return find_spec(self.module) is not None

    def version(self) -> str:
        if self.module in sys.stdlib_module_names:
            return platform.python_version()
        for name in self.distributions:
            try:
                return metadata.version(name)
            except metadata.PackageNotFoundError:
                continue
        return "source tree"


PEERS = {
    "aioexec": Peer("aioexec", "aioexec", ("aioexec",)),
    "aioexec_before": Peer("aioexec before", "aioexec", ("aioexec",)),
    "aioexec_grpc": Peer("aioexec by gRPC", "grpc", ("grpcio",)),
    "tensorflow": Peer("TensorFlow", "tensorflow", ("tensorflow-cpu", "tensorflow")),
    "tensorflow_inline": Peer("TF inter_op=-1", "tensorflow", ("tensorflow-cpu", "tensorflow")),
    "tensorflow_threads": Peer("TF in threads", "tensorflow", ("tensorflow-cpu", "tensorflow")),
    "onnxruntime": Peer("onnxruntime", "onnxruntime", ("onnxruntime",)),
    "onnxruntime_threads": Peer("ORT in threads", "onnxruntime", ("onnxruntime",)),
    "onnxruntime_grpc": Peer("ORT by grpc.aio", "tritonclient", ("onnxruntime",)),
    "onnxruntime_aiohttp": Peer("ORT by aiohttp", "onnxruntime", ("onnxruntime",)),
    "jax": Peer("JAX", "jax", ("jax",)),
    "torch": Peer("torch", "torch", ("torch",)),
    "torch_compiled": Peer("torch.compile", "torch", ("torch",)),
    "asyncio": Peer("asyncio", "asyncio", ()),
    "numpy": Peer("NumPy", "numpy", ("numpy",)),
    "peak": Peer("at the peak", "numpy", ("numpy",)),
}

BEFORE = "AIOEXEC_BEFORE"
"""The environment variable that names the source tree of the peer "aioexec_before"; it does what the peer "aioexec" does."""


def function_of(benchmark: ModuleType, peer: str) -> Any:
    """The function with which a benchmark builds a peer's cases; None if it does not have the peer."""
    if peer == "aioexec_before":
        return getattr(benchmark, "aioexec", None) if BEFORE in os.environ else None
    return getattr(benchmark, peer, None)


def threads(peer: str) -> str:
    """Describe how many threads a peer uses; called in its process, after its workload is built."""
    if peer == "tensorflow_inline":
        return "intra_op default, inter_op -1"
    if peer == "asyncio":
        return "1"
    if peer in ("torch", "torch_compiled"):
        import torch

        return str(torch.get_num_threads())
    if peer == "numpy":
        from threadpoolctl import threadpool_info

        return "BLAS " + "/".join(str(pool["num_threads"]) for pool in threadpool_info()) or "1"
    return f"default of {os.cpu_count()} cores"


def machine() -> dict[str, Any]:
    """Describe this machine."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    found = re.search(r"model name\s*:\s*(.+)", text)
    return found[1] if found else platform.processor()
