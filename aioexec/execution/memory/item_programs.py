"""The programs of one piece of an item on a device with memory of its own: lookup, recording, eviction.

A program holds for inputs and variables of the same shapes, and for the same content of inputs in main memory. It is made when
these are met for the second time; until then, and where it cannot be made, the nodes run one by one.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import Any

import numpy as np

from aioexec.devices.device_program import DeviceProgram
from aioexec.errors import OpError, ResourceExhaustedError
from aioexec.execution.engine import JitMode
from aioexec.execution.memory.device_work import DeviceWork, NodeLauncher
from aioexec.execution.memory.pieces import Piece
from aioexec.execution.memory.recorder import Recorded, record
from aioexec.execution.propagator import Values
from aioexec.planning.instruction import locate
from aioexec.planning.plan import Item
from aioexec.resources.buffer import Buffer, Event
from aioexec.resources.device_variable import DeviceVariable

_MOST_PROGRAMS = 16
"""Keys that an item remembers; beyond that the oldest is forgotten."""
_LARGEST_CONTENT = 64
"""Elements of an input in main memory that is part of the key; with a larger one there is no program."""

Key = tuple[Hashable, ...]


class ItemProgram:
    """A program, and where its values are in a step. `has_failed`: a run of it has failed, so it is to be made anew."""

    def __init__(self, item: Item, recorded: Recorded, program: DeviceProgram) -> None:
        self._item = item
        self._recorded = recorded
        self._program = program
        self.has_failed = False

    def begin(self, values: Values, work: DeviceWork) -> bool:
        """Begin a run; False: there is not enough memory for it, and nothing was begun.

        Raises:
            OpError: the device refuses the run; it names the first node.
        """
        recorded = self._recorded
        first = self._item.instructions[0]
        try:
            inputs: list[Buffer] = [values[number] for number in recorded.inputs]
            outputs, ended = self._program.begin(inputs, recorded.variables)
        except ResourceExhaustedError as error:
            error.__traceback__ = None
            return False
        except OpError as error:
            error.__traceback__ = None  # its frames would keep the inputs
            raise locate(error, first, self._item.device) from error
        launcher = work.launcher(first.node)
        if ended.is_done:
            self._note_end(ended, launcher)
        else:  # registered before the step's own callback, which reports an error
            ended.add_done_callback(partial(self._note_end, ended, launcher))
        work.watch(ended, launcher)
        for number, buffer in zip(recorded.outputs, outputs, strict=True):
            values[number] = buffer
        for number, value in recorded.given:
            values[number] = value
        return True

    def _note_end(self, ended: Event, launcher: NodeLauncher) -> None:
        if ended.error is None:
            return
        self.has_failed = True
        if self._program.failed is not None:
            call = self._recorded.recording.calls[self._program.failed]
            launcher.node = self._item.instructions[call.node].node


class ItemPrograms:
    """See the module.

    Constant: `_is_eager`, programs are made when their keys are met first; `_is_able`, whether there are any.
    Changing: `_sources`, the values from outside on which a program depends, once a step has met them; `_programs` by key, None
    if there is none, and keys that were met once, in `_met`.
    """

    def __init__(self, piece: Piece, jit: JitMode) -> None:
        self._item = piece.item
        self._is_eager = jit == "eager"
        self._is_able = jit != "off" and piece.is_recorded
        self._sources: tuple[int, ...] | None = None
        self._programs: dict[Key, ItemProgram | None] = {}
        self._met: dict[Key, None] = {}

    def find(self, values: Values, work: DeviceWork) -> ItemProgram | None:
        """The program for a step that is about to run the item, if there is one; it may be made now."""
        if not self._is_able or not work.device.has_programs or work.step.collector is not None:
            return None  # a step that is traced records each node
        key = self._key(values)
        if key is None:
            return None
        program = self._programs.get(key)
        if program is not None and not program.has_failed:
            return program
        if program is None and key in self._programs:
            return None
        if not self._is_eager and key not in self._met:
            _remember(self._met, key, None)
            return None
        program = self._make(values, work)
        _remember(self._programs, key, program)
        return program

    def _make(self, values: Values, work: DeviceWork) -> ItemProgram | None:
        """Make a program; None: that is not possible, or the nodes raise the error."""
        try:
            recorded = record(self._item, values, work.device)
        except Exception as error:
            error.__traceback__ = None
            return None
        if recorded is None or not recorded.recording.calls:
            return None
        program = work.device.compile(recorded.recording)
        return None if program is None else ItemProgram(self._item, recorded, program)

    def _key(self, values: Values) -> Key | None:
        """What the work of the item follows from; None if no program is made for it."""
        if self._sources is None:
            self._sources = _sources(self._item, values)
        key: list[Hashable] = []
        for number in self._sources:
            value: Any = values[number]
            if isinstance(value, np.ndarray):
                if value.size > _LARGEST_CONTENT or value.dtype.hasobject:
                    return None
                key.append((value.shape, value.tobytes()))
            elif isinstance(value, DeviceVariable):
                if not value.is_initialized:
                    return None
                key.append((value, value.content().shape))
            else:
                key.append(value.shape)
        return tuple(key)


def _sources(item: Item, values: Values) -> tuple[int, ...]:
    """The inputs of an item, and the variables that its nodes take."""
    found = dict.fromkeys(item.inputs)
    for instruction in item.instructions:
        found.update(
            (number, None) for number in instruction.inputs if isinstance(values[number], DeviceVariable)
        )
    return tuple(found)


def _remember(table: dict[Key, Any], key: Key, value: Any) -> None:
    """Store a value, and forget the oldest one of many."""
    table.pop(key, None)
    if len(table) >= _MOST_PROGRAMS:
        del table[next(iter(table))]
    table[key] = value
