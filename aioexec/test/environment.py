"""What tests ask of their environment: folders, devices, and how to run them."""

from __future__ import annotations

import atexit
import importlib.util
import os
import re
import shutil
import tempfile
import unittest
from typing import Any
from unittest import mock as mock

from aioexec.client.device_lib import list_local_devices
from aioexec.formats.protos import GraphDef


def main(argv: list[str] | None = None) -> None:
    """Run the tests of the module `__main__` with unittest, and exit with status 0 if all have passed."""
    unittest.main(argv=argv)


def get_temp_dir(prefix: str = "test") -> str:
    """Return a new folder for files of a test, which is removed when the process ends."""
    folder = tempfile.mkdtemp(prefix=re.sub(r"\W", "_", prefix)[-40:], dir=os.environ.get("TEST_TMPDIR"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def gpu_device_name() -> str:
    """Return the name of the first GPU, as `/device:GPU:0`; "" if there is none."""
    return next((device.name for device in list_local_devices() if device.device_type == "GPU"), "")


def is_gpu_available(
    cuda_only: bool = False, min_cuda_compute_capability: tuple[int, int] | None = None
) -> bool:
    """Whether there is a GPU. Only NVIDIA's are supported, so `cuda_only` makes no difference.

    Args:
        min_cuda_compute_capability: (major, minor) version that it must have.
    """
    for device in list_local_devices():
        if device.device_type != "GPU":
            continue
        version = re.search(r"compute capability: (\d+)\.(\d+)", device.physical_device_desc)
        has = (int(version[1]), int(version[2])) if version else (0, 0)
        if min_cuda_compute_capability is None or has >= tuple(min_cuda_compute_capability):
            return True
    return False


def is_built_with_cuda() -> bool:
    """Whether the libraries of the extra `gpu` are installed."""
    return importlib.util.find_spec("cuda") is not None


def is_built_with_gpu_support() -> bool:
    """Whether the libraries of the extra `gpu` are installed."""
    return is_built_with_cuda()


def is_built_with_rocm() -> bool:
    """Return False: AMD's GPUs are not supported."""
    return False


def is_built_with_xla() -> bool:
    """Return False: programs are compiled by LLVM."""
    return False


def assert_equal_graph_def(actual: GraphDef, expected: GraphDef, checkpoint_v2: bool = False) -> None:
    """Check that two GraphDefs have the same nodes, in any order, except for their versions.

    Args:
        checkpoint_v2: compare the names of checkpoints' files in nodes as if they were the same.

    Raises:
        AssertionError: a node is missing or differs.
    """
    found, wanted = _nodes(actual, checkpoint_v2), _nodes(expected, checkpoint_v2)
    for name in sorted(found.keys() | wanted.keys()):
        if name not in found or name not in wanted:
            raise AssertionError(f"node {name!r} is in one of the two graphs only")
        if found[name] != wanted[name]:
            raise AssertionError(f"node {name!r} differs:\n{found[name]}\nbeside\n{wanted[name]}")


def _nodes(graph_def: GraphDef, checkpoint_v2: bool) -> dict[str, Any]:
    nodes = {}
    for node in graph_def.node:
        own = type(node)()
        own.CopyFrom(node)
        if checkpoint_v2 and "value" in own.attr and own.attr["value"].tensor.string_val:
            own.attr["value"].tensor.string_val[:] = [
                re.sub(rb"_temp_[0-9a-f]+/part", b"_temp/part", each)
                for each in own.attr["value"].tensor.string_val
            ]
        nodes[own.name] = own
    return nodes
