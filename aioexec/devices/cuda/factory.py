"""The factory of GPU devices. It finds GPUs without a context, and imports the bindings of the driver when it is first used.

A session has that done in a thread (`load`); others that ask for GPUs first, such as `list_physical_devices`, do it at once.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable

from aioexec.devices.cuda.device import CudaDevice
from aioexec.devices.cuda.driver import Driver, load_driver
from aioexec.devices.cuda.gpu import Description, GPUs
from aioexec.devices.device import Device, DeviceAttributes
from aioexec.devices.memory_limits import memory_limits
from aioexec.devices.options import DeviceOptions
from aioexec.devices.registry import DeviceFactory
from aioexec.devices.threads.pools import intra_op_pools
from aioexec.errors import FailedPreconditionError, InvalidArgumentError

logger = logging.getLogger(__name__)

LEAST_RESERVE = 300 << 20
"""Bytes of a GPU that are left to its driver and to the kernels themselves, at least; and 5 % of its memory, at least."""


class GPUDeviceFactory(DeviceFactory):
    """Makes a device for each visible GPU, at most `device_count["GPU"]`, or the virtual devices of the options.

    A driver that cannot be used means that there are no devices, and a warning, once; but if the options ask for GPUs, by a
    count or a list, its error is raised.

    Args:
        open_driver: initialises the driver.
    """

    def __init__(self, open_driver: Callable[[], Driver] = load_driver) -> None:
        self._gpus = GPUs(open_driver)
        self._has_warned = False

    def list_physical_devices(self) -> list[str]:
        return [f"/physical_device:GPU:{k}" for k in range(len(self._found()))]

    def get_device_details(self, device_index: int) -> dict[str, str]:
        gpu = self._found()[device_index]
        return {"device_name": gpu.name, "compute_capability": ".".join(map(str, gpu.compute_capability))}

    def is_loaded(self, options: DeviceOptions) -> bool:
        return self._gpus.are_known or not _are_wanted(options)

    def load(self, options: DeviceOptions) -> None:
        """Import the bindings and initialise the driver, which takes up to a second."""
        with contextlib.suppress(FailedPreconditionError):
            self._gpus.descriptions()

    def create_devices(self, options: DeviceOptions, name_prefix: str) -> list[Device]:
        """See `DeviceFactory`.

        Raises:
            InvalidArgumentError: the options name a GPU that is not there, or contradict each other.
            FailedPreconditionError: they ask for GPUs, and the driver cannot be used.
        """
        if not _are_wanted(options):
            return []
        count = options.device_count.get("GPU")
        gpu_options = None if options.config is None else options.config.gpu_options
        listed = gpu_options.visible_device_list if gpu_options is not None else ""
        found = self._found(must_work=bool(count or listed))
        chosen = [found[k] for k in _visible(listed, len(found))][:count]
        totals = [gpu.total_memory for gpu in chosen]
        usual = [max(total - max(LEAST_RESERVE, total // 20), 0) for total in totals]
        planned = [
            (gpu, limit)
            for gpu, limits in zip(chosen, memory_limits(gpu_options, totals, usual), strict=True)
            for limit in limits
        ]
        pools = intra_op_pools(options, [None] * len(planned))
        return [
            CudaDevice(_attributes(name_prefix, index, gpu, limit), workers, self._gpus, gpu.ordinal)
            for index, ((gpu, limit), workers) in enumerate(zip(planned, pools, strict=True))
        ]

    def _found(self, must_work: bool = False) -> list[Description]:
        """The GPUs that this process may see."""
        if not _are_visible():
            return []
        try:
            return self._gpus.descriptions()
        except FailedPreconditionError as error:
            if must_work:
                raise
            if not self._has_warned:
                self._has_warned = True
                logger.warning("No GPU is used: %s", error)
            return []


def _are_visible() -> bool:
    """Whether the environment lets this process see GPUs."""
    return os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() not in ("", "-1")


def _are_wanted(options: DeviceOptions) -> bool:
    """Whether devices are made, if there are GPUs."""
    return options.device_count.get("GPU") != 0 and _are_visible()


def _attributes(name_prefix: str, index: int, gpu: Description, limit: int) -> DeviceAttributes:
    return DeviceAttributes(
        f"{name_prefix}/device:GPU:{index}",
        "GPU",
        limit,
        numa_node=gpu.numa_node,
        physical_device_desc=gpu.text(index),
    )


def _visible(listed: str, count: int) -> list[int]:
    """The numbers in `visible_device_list`, in its order; all if it is empty.

    Raises:
        InvalidArgumentError: it is no list of different numbers of GPUs.
    """
    if not listed:
        return list(range(count))
    numbers: list[int] = []
    for entry in listed.split(","):
        try:
            number = int(entry)
        except ValueError:
            raise InvalidArgumentError(
                f"Could not parse entry in 'visible_device_list': {entry!r}. visible_device_list = {listed}"
            ) from None
        if not 0 <= number < count:
            raise InvalidArgumentError(
                f"'visible_device_list' listed an invalid GPU id '{number}' but visible device count is {count}"
            )
        if number in numbers:
            raise InvalidArgumentError(
                f"visible_device_list contained a duplicate entry: {number} in {listed}"
            )
        numbers.append(number)
    return numbers
