"""Memory statistics of a device's programs, updated when memory is allocated and freed, which is rare.

Counted are the arenas of programs, kept between their runs. Results are not counted: the caller owns them and does not report
their release; the outputs of a step are in its step stats.

No lock: finalizers free memory, and the garbage collector may run them at any point, also while a lock is held. An addition
without a call between read and write is atomic under the interpreter lock.
"""

from __future__ import annotations


class AllocatorStats:
    """The statistics of one device.

    Attributes:
        num_allocs: the number of allocations.
        bytes_in_use: the bytes held now.
        peak_bytes_in_use: the maximum of `bytes_in_use`.
        largest_alloc_size: the bytes of the largest allocation.
    """

    def __init__(self) -> None:
        self.num_allocs = 0
        self.bytes_in_use = 0
        self.peak_bytes_in_use = 0
        self.largest_alloc_size = 0

    def record_allocation(self, nbytes: int) -> None:
        self.num_allocs += 1
        self.bytes_in_use += nbytes
        self.peak_bytes_in_use = max(self.peak_bytes_in_use, self.bytes_in_use)
        self.largest_alloc_size = max(self.largest_alloc_size, nbytes)

    def record_release(self, nbytes: int) -> None:
        self.bytes_in_use -= nbytes


_devices: dict[str, AllocatorStats] = {}


def allocator_stats(device: str) -> AllocatorStats:
    """The statistics of a device by its full name; sessions share those of devices with equal names, as they share memory."""
    return _devices.setdefault(device, AllocatorStats())
