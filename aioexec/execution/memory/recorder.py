"""Records what the kernels of an item do, for a program of a device with memory of its own.

The kernels are called with stand-ins: a `Place` for each buffer, and for each variable another one, whose content is a place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.devices.device_program import Call, Location, Place, Recording
from aioexec.devices.memory_device import MemoryDevice
from aioexec.execution.memory.arena import Update, lay_out_places
from aioexec.execution.programs.structures import inputs_of, store
from aioexec.execution.propagator import Values
from aioexec.graph.kernels.kernel import Role
from aioexec.planning.instruction import Instruction
from aioexec.planning.plan import Item
from aioexec.resources.buffer import Buffer
from aioexec.resources.device_variable import DeviceVariable


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """A recording, and what its numbers mean in the item.

    Attributes:
        inputs: the values that are the program's inputs.
        variables: those it reads or writes.
        outputs: the values that are the program's outputs.
        given: values that are the same after each run: arrays, and variables.
    """

    recording: Recording
    inputs: tuple[int, ...]
    variables: tuple[DeviceVariable, ...]
    outputs: tuple[int, ...]
    given: tuple[tuple[int, Any], ...]


def record(item: Item, values: Values, device: MemoryDevice) -> Recorded | None:
    """Record the kernels of an item, none of which does anything else.

    Args:
        values: those of a step that is about to run the item.

    Returns None if an update changes the shape of a variable.

    Raises:
        OpError: of a kernel, for these inputs; of a constant for which there is no memory.
    """
    recorder = _Recorder(item, values, device)
    for number, instruction in enumerate(item.instructions):
        recorder.run(number, instruction)
    return recorder.recorded()


class _Recorder(dict[int, Any]):
    """The launcher of all kernels, and the values of the nodes: by number, made for those from outside when first read."""

    def __init__(self, item: Item, values: Values, device: MemoryDevice) -> None:
        self._item = item
        self._outside = values
        self._device = device
        self._calls: list[Call] = []
        self._node = 0
        self._inputs: dict[int, Place] = {}
        self._constants: list[Buffer] = []
        self._variables: dict[DeviceVariable, DeviceVariable] = {}
        self._contents: list[Place] = []
        self._renewed: dict[Place, Place] = {}

    def run(self, number: int, instruction: Instruction) -> None:
        """Call the kernel of a node, which has this number in the item."""
        self._node = number
        inputs, role = inputs_of(instruction, self), instruction.node.row.role
        if role is Role.COPY_TO_DEVICE:
            result = self._constant(self._device.copy_in(inputs[0].copy()))
        else:
            result = instruction.compute(self, *inputs)
        store(self, instruction, result)

    def __missing__(self, number: int) -> Any:
        found = self[number] = self._stand_in(number, self._outside[number])
        return found

    def _stand_in(self, number: int, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value
        if isinstance(value, DeviceVariable):
            return self._variable(value)
        if number not in self._item.inputs:
            return self._constant(value)
        place = Place(self._device.name, value.dtype, value.shape, Location.INPUT, len(self._inputs))
        self._inputs[number] = place
        return place

    def _constant(self, buffer: Buffer) -> Place:
        number = len(self._constants)
        self._constants.append(buffer)
        return Place(self._device.name, buffer.dtype, buffer.shape, Location.CONSTANT, number)

    def _variable(self, variable: DeviceVariable) -> DeviceVariable:
        if variable not in self._variables:
            content, number = variable.content(), len(self._contents)
            place = Place(self._device.name, content.dtype, content.shape, Location.VARIABLE, number)
            shadow = DeviceVariable(variable.name, variable.dtype, variable.dims)
            shadow.replace(place, validate_shape=False)
            self._contents.append(place)
            self._variables[variable] = shadow
        return self._variables[variable]

    # The launcher

    def allocate(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Place:
        return Place(self._device.name, dtype, shape)

    def next_content(
        self, variable: DeviceVariable, dtype: np.dtype[Any], shape: tuple[int, ...], keep: bool
    ) -> Place:
        present, place = cast(Place, variable.content()), self.allocate(dtype, shape)
        self._renewed[place] = present
        if keep:
            self.launch(None, [present], [place])
        return place

    def view(self, buffer: Buffer, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Place:
        return Place(self._device.name, dtype, shape, root=cast(Place, buffer).root)

    def launch(self, work: Any, reads: Sequence[Buffer], writes: Sequence[Buffer]) -> None:
        read, written = cast("tuple[Place, ...]", (*reads,)), cast("tuple[Place, ...]", (*writes,))
        self._calls.append(Call(work, read, written, self._node))

    # The result

    def recorded(self) -> Recorded | None:
        updates: list[Update] = []
        for number, (place, shadow) in enumerate(zip(self._contents, self._variables.values(), strict=True)):
            after = cast(Place, shadow.content())
            if (after.shape, after.dtype) != (place.shape, place.dtype):
                return None
            if after is not place:
                updates.append(Update(number, place, after, self._renewed.get(after) is place))
        numbers = self._item.outputs
        results = {number: self[number] for number in numbers}
        outputs = {number: each for number, each in results.items() if isinstance(each, Place)}
        originals = {id(shadow): variable for variable, shadow in self._variables.items()}
        inputs = tuple(self._inputs.values())
        read = {place.root for call in self._calls for place in call.reads}
        read |= {place.root for place in (*outputs.values(), *(update.after for update in updates))}
        calls, arena_bytes = lay_out_places(self._calls, inputs, updates, tuple(outputs.values()))
        recording = Recording(
            calls,
            inputs,
            tuple(self._constants),
            tuple(self._contents),
            tuple(place.number for place in self._contents if place in read),
            tuple(update.number for update in updates),
            tuple(outputs.values()),
            arena_bytes,
        )
        given = {
            number: originals.get(id(each), each) for number, each in results.items() if number not in outputs
        }
        return Recorded(
            recording, tuple(self._inputs), tuple(self._variables), tuple(outputs), tuple(given.items())
        )
