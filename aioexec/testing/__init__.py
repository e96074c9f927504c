"""Test support: virtual time, clusters in memory, checks for leaks and gradients, loop lag, a pytest plugin.

The pytest plugin is opt-in: put `pytest_plugins = ["aioexec.testing.plugin"]` into the top-level `conftest.py`.
"""

from aioexec.observability.loop_lag import LoopLag, LoopLagProbe
from aioexec.test.gradient_checker import compute_gradient, compute_gradient_error
from aioexec.testing.clock import VirtualClock, VirtualClockLoop
from aioexec.testing.cluster import InMemoryCluster
from aioexec.testing.deterministic import DeterministicLoop
from aioexec.testing.leaks import LeakCheck, LeakError
from aioexec.testing.tasks import all_tasks_blocked

__all__ = [
    "DeterministicLoop",
    "InMemoryCluster",
    "LeakCheck",
    "LeakError",
    "LoopLag",
    "LoopLagProbe",
    "VirtualClock",
    "VirtualClockLoop",
    "all_tasks_blocked",
    "compute_gradient",
    "compute_gradient_error",
]
