"""How much memory of a GPU a session may use."""

from __future__ import annotations

from aioexec.data_classes import dataclass

LEAST_RESERVE = 300 << 20
"""Bytes of a GPU that are left to its driver and to the kernels themselves, at least; and 5 % of its memory, at least."""


@dataclass(frozen=True, slots=True)
class MemoryOptions:
    """What a ConfigProto says about the memory of a GPU.

    Attributes:
        fraction: `per_process_gpu_memory_fraction`; 0: all that is left to us.
        limit_mb: the limit of one virtual device; None if there are none.
    """

    fraction: float = 0.0
    limit_mb: float | None = None


def memory_limit(total: int, options: MemoryOptions) -> int:
    """The limit of a device, in bytes, on a GPU with `total` bytes."""
    if options.limit_mb is not None:
        return int(options.limit_mb * (1 << 20))
    if options.fraction > 0:
        return int(total * options.fraction)
    return max(total - max(LEAST_RESERVE, total // 20), 0)
