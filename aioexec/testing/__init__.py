"""For tests, ours and yours: virtual time, leak checks, gradient checks, a loop-lag probe and a pytest plugin.

The pytest plugin is opt-in: put `pytest_plugins = ["aioexec.testing.plugin"]` into the top-level
`conftest.py`.
"""

from aioexec.observability.loop_lag import LoopLag, LoopLagProbe
from aioexec.testing.clock import VirtualClock, VirtualClockLoop
from aioexec.testing.gradient_checker import compute_gradient, compute_gradient_error
from aioexec.testing.leaks import LeakCheck, LeakError
from aioexec.testing.tasks import all_tasks_blocked

__all__ = [
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
