"""How much memory a device's programs hold: counted where it is taken and given back, which is rare.

Counted are the arenas of programs, kept between their runs. Results are not: they are the caller's, which does not
report when it drops them; what a step puts out is in its step stats.

No lock: memory is given back by finalizers, which the garbage collector may run in the middle of anything, a lock held
included. A sum that is read and written without a call between them needs none under the interpreter lock.
"""

from __future__ import annotations


class AllocatorStats:
    """Numbers of one device.

    Attributes:
        num_allocs: how often memory was taken.
        bytes_in_use: what is held now.
        peak_bytes_in_use: the most there ever was.
        largest_alloc_size: the largest piece.
    """

    def __init__(self) -> None:
        self.num_allocs = 0
        self.bytes_in_use = 0
        self.peak_bytes_in_use = 0
        self.largest_alloc_size = 0

    def allocated(self, nbytes: int) -> None:
        self.num_allocs += 1
        self.bytes_in_use += nbytes
        self.peak_bytes_in_use = max(self.peak_bytes_in_use, self.bytes_in_use)
        self.largest_alloc_size = max(self.largest_alloc_size, nbytes)

    def freed(self, nbytes: int) -> None:
        self.bytes_in_use -= nbytes


_devices: dict[str, AllocatorStats] = {}


def allocator_stats(device: str) -> AllocatorStats:
    """The numbers of a device by its full name; sessions that have a device of one name share them, as they share memory."""
    return _devices.setdefault(device, AllocatorStats())
