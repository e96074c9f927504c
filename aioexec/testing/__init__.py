"""Test support: virtual time, clusters in memory with faults, served models, checks of leaks, gradients and loop lag.

The pytest plugin with fixtures for all of it is the module `aioexec_pytest`.
"""

from aioexec.observability.loop_lag import LoopLag, LoopLagProbe
from aioexec.test.gradient_checker import compute_gradient, compute_gradient_error
from aioexec.testing.clock import VirtualClock, VirtualClockLoop
from aioexec.testing.cluster import InMemoryCluster
from aioexec.testing.deterministic import DeterministicLoop
from aioexec.testing.faults import Fault, FaultInjector, FaultKind, planned
from aioexec.testing.gradients import assert_gradients
from aioexec.testing.lag import assert_loop_lag
from aioexec.testing.leaks import LeakCheck, LeakError
from aioexec.testing.served import ServedModel, served
from aioexec.testing.tasks import all_tasks_blocked

__all__ = [
    "DeterministicLoop",
    "Fault",
    "FaultInjector",
    "FaultKind",
    "InMemoryCluster",
    "LeakCheck",
    "LeakError",
    "LoopLag",
    "LoopLagProbe",
    "ServedModel",
    "VirtualClock",
    "VirtualClockLoop",
    "all_tasks_blocked",
    "assert_gradients",
    "assert_loop_lag",
    "compute_gradient",
    "compute_gradient_error",
    "planned",
    "served",
]
