"""Programs of devices with memory of their own: the work of one item, which a device is given as a whole.

The kernels of the item's nodes are called once, with `Place`s in place of buffers; what they do is a `Recording`, of which the
device makes a `DeviceProgram` (`MemoryDevice.compile`). It holds for inputs and variables of the same shapes.
"""

from __future__ import annotations

import abc
import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.resources.buffer import Buffer, Event
from aioexec.resources.device_variable import DeviceVariable


class Location(enum.Enum):
    """Where the memory of a place is."""

    INPUT = "input"
    CONSTANT = "constant"
    VARIABLE = "variable"
    ARENA = "arena"


class _Recorded:
    """The event of places: nothing is waited for while kernels are recorded."""

    is_done, error = True, None

    def add_done_callback(self, callback: object) -> None:
        raise AssertionError("recorded work has ended")


class Place:
    """What stands for a buffer while kernels are recorded.

    Attributes:
        root: the place that has the memory: itself, unless it is a view; the other attributes are those of the root.
        location, number: the memory is that of the input, the constant or the content of the variable of this number, or, with
            number 0, memory of the program's own. Several places may have the same memory, one after the other.
        offset: where it is in the arena; of an input, where there is room for a copy of it. None: it is not used.
    """

    __slots__ = ("device", "dtype", "location", "nbytes", "number", "offset", "root", "shape")

    ready: Event = _Recorded()

    def __init__(
        self,
        device: str,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        location: Location = Location.ARENA,
        number: int = 0,
        root: Place | None = None,
    ) -> None:
        self.device = device
        self.dtype = dtype
        self.shape = shape
        self.nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        self.location = location
        self.number = number
        self.root = root or self
        self.offset: int | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """Work on places, as a kernel gave it to its launcher; None: a copy of the place it reads to the one it writes.

    Attributes:
        node: the number of the node in the item.
    """

    work: Any
    reads: tuple[Place, ...]
    writes: tuple[Place, ...]
    node: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """The work of one run of an item.

    Calls take the memory of a variable to have its content when a run begins, and leave the next one there.

    Attributes:
        calls: in order.
        inputs: the places of the inputs.
        constants: buffers of the device.
        variables: the places of the contents.
        read: the numbers of the variables of which the present content is needed.
        written: the numbers of the variables that have another content at the end.
        outputs: the places of the outputs when all calls are done; of the content of a variable, when the first one begins.
        arena_bytes: the size of an arena that holds what is computed on the way, and copies of the inputs.
    """

    calls: tuple[Call, ...]
    inputs: tuple[Place, ...]
    constants: tuple[Buffer, ...]
    variables: tuple[Place, ...]
    read: tuple[int, ...]
    written: tuple[int, ...]
    outputs: tuple[Place, ...]
    arena_bytes: int

    def is_early(self, output: Place) -> bool:
        """Whether an output is the content of a variable when the first call begins."""
        return output.root in self.variables


class DeviceProgram(abc.ABC):
    """What a device has made of a recording; the event loop's thread only. Any number of runs may be under way.

    Attributes:
        failed: when a run has ended with an error, the number of the call that failed; None: that is not known.
    """

    failed: int | None = None

    @abc.abstractmethod
    def begin(
        self, inputs: Sequence[Buffer], variables: Sequence[DeviceVariable]
    ) -> tuple[Sequence[Buffer], Event]:
        """Begin a run, in the device's order of work: the outputs, and the event of its end.

        The variables have their next contents when this returns, as after a kernel.

        Raises:
            ResourceExhaustedError: there is not enough memory; nothing was begun, and the nodes may run one by one.
            UnavailableError: the device is lost.
        """
