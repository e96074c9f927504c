"""Programs of the opaque device: all recorded calls as one piece of its work."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from aioexec.devices.device_program import Call, DeviceProgram, Location, Place, Recording
from aioexec.devices.memory_device import MemoryDevice
from aioexec.resources.buffer import Buffer, Event
from aioexec.resources.device_variable import DeviceVariable

Array = np.ndarray[Any, Any]


class OpaqueProgram(DeviceProgram):
    """See the module. Every run writes new buffers, for the variables too."""

    def __init__(self, device: MemoryDevice, recording: Recording) -> None:
        self._device = device
        self._recording = recording

    def begin(
        self, inputs: Sequence[Buffer], variables: Sequence[DeviceVariable]
    ) -> tuple[Sequence[Buffer], Event]:
        recording, self.failed = self._recording, None
        outputs = [self._device.allocate(place.dtype, place.shape) for place in recording.outputs]
        written = [recording.variables[k] for k in recording.written]
        after = [self._device.allocate(place.dtype, place.shape) for place in written]
        contents = [variables[k].content() for k in recording.read]
        reads = [*inputs, *recording.constants, *contents]
        ended = self._device.launch(self._compute, reads, [*outputs, *after])
        for k, buffer in zip(recording.written, after, strict=True):
            variables[k].replace(buffer)
        return outputs, ended

    def _compute(self, *contents: Array) -> list[Array]:
        """From the contents of the inputs, the constants and the variables to the outputs and next contents."""
        recording, memory = self._recording, dict[Hashable, Array]()
        names = [
            *((Location.INPUT, k) for k in range(len(recording.inputs))),
            *((Location.CONSTANT, k) for k in range(len(recording.constants))),
            *((Location.VARIABLE, k) for k in recording.read),
        ]
        memory.update(zip(names, contents, strict=True))
        early = {
            k: _read(memory, each) for k, each in enumerate(recording.outputs) if recording.is_early(each)
        }
        for k, call in enumerate(recording.calls):
            self.failed = k
            _perform(call, memory)
        self.failed = None
        outputs = [
            early[k] if k in early else _read(memory, each) for k, each in enumerate(recording.outputs)
        ]
        return [*outputs, *(_read(memory, recording.variables[k]) for k in recording.written)]


def _perform(call: Call, memory: dict[Hashable, Array]) -> None:
    read = [_read(memory, place) for place in call.reads]
    found = read if call.work is None else call.work(*read)
    for place, content in zip(call.writes, found, strict=True):
        memory[_name(place)] = content


def _name(place: Place) -> Hashable:
    root = place.root
    return root if root.location is Location.ARENA else (root.location, root.number)


def _read(memory: dict[Hashable, Array], place: Place) -> Array:
    content = memory[_name(place)]
    return content if place is place.root else content.reshape(-1).view(place.dtype).reshape(place.shape)
