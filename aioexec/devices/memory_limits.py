"""How much of a device's memory a session may use, by the GPUOptions of its ConfigProto; for factories of such devices.

`allow_growth` changes nothing: a device takes memory when it is needed, up to the limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioexec.errors import InvalidArgumentError


def memory_limits(gpu_options: Any, totals: Sequence[int], usual: Sequence[int]) -> list[list[int]]:
    """The limits in bytes of the devices to make of each physical device: one, or its virtual devices.

    Args:
        gpu_options: the GPUOptions; None: there are none.
        totals: bytes of memory of each physical device.
        usual: the limit of each, if the options have none.

    Raises:
        InvalidArgumentError: there are more lists of virtual devices than devices, or a fraction as well; or the fraction or a
            limit is negative.
    """
    fraction = 0.0 if gpu_options is None else gpu_options.per_process_gpu_memory_fraction
    virtual = (
        []
        if gpu_options is None
        else [list(each.memory_limit_mb) for each in gpu_options.experimental.virtual_devices]
    )
    if fraction < 0 or any(limit < 0 for each in virtual for limit in each):
        raise InvalidArgumentError(
            f"Limits of memory must not be negative: fraction {fraction}, in MB {virtual}"
        )
    if virtual and fraction:
        raise InvalidArgumentError("per_process_gpu_memory_fraction must be 0 when virtual devices are set")
    if len(virtual) > len(totals):
        raise InvalidArgumentError(
            f"The virtual device configurations are for {len(virtual)} GPUs, but {len(totals)} are visible"
        )
    if fraction:
        return [[int(total * fraction)] for total in totals]
    limits = [[limit] for limit in usual]
    for number, each in enumerate(virtual):
        if each:
            limits[number] = [int(limit * (1 << 20)) for limit in each]
    return limits
