"""The protocol of session options that devices use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class DeviceOptions(Protocol):
    """The options of a session that devices use; 0 threads: decided by the environment or the machine."""

    @property
    def device_count(self) -> Mapping[str, int]: ...
    @property
    def intra_op_threads(self) -> int: ...
    @property
    def inter_op_threads(self) -> int: ...
    @property
    def use_numa_affinity(self) -> bool: ...
    @property
    def use_per_session_threads(self) -> bool: ...
    @property
    def config(self) -> Any:
        """The ConfigProto the session was made with, or None: for device types with options of their own."""
        ...
