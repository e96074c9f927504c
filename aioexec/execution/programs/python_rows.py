"""The rows of a program that Python executes: breaks, moves of objects, and lists that grow.

A break is a node that only a reference kernel computes. A worker or the event loop executes these rows between two stretches of
native rows; the memory belongs to that thread meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np

from aioexec.devices.jit import walker as walking
from aioexec.devices.jit.walker import Outcome
from aioexec.errors import InternalError, InvalidArgumentError
from aioexec.execution.programs.run_memory import Array, RunMemory
from aioexec.execution.programs.structures import StructureRun, dereference
from aioexec.graph.kernels.kernel import Spec
from aioexec.planning.instruction import Instruction, locate
from aioexec.planning.layout.variant import Break, Grow, Move, Place, Row
from aioexec.planning.workload import takes_long
from aioexec.resources.variable import Variable

_COUNT = Spec(np.dtype(np.int64), ())
_LEAST_ROOM = 16  # elements of a list
_LARGEST_COPIED = 4096
"""Bytes of an output of a break up to which it is copied."""


def execute_row(memory: RunMemory, row: Row, until: int | None) -> int:
    """Execute a row: DONE; CANCELLED; or PAUSED, if it would pass the time `until`.

    Raises:
        OpError: the node failed.
    """
    if isinstance(row, Break):
        if not _execute_break(memory, row, until):
            return Outcome.PAUSED
        return Outcome.DONE if not memory.frame.words[walking.CANCEL] else Outcome.CANCELLED
    if isinstance(row, Move):
        _move(memory, row)
    else:
        assert isinstance(row, Grow)
        _grow(memory, row)
    return Outcome.DONE


def _move(memory: RunMemory, row: Move) -> None:
    values = [memory.input(source) for source, _ in row.moves]
    for (source, number), value in zip(row.moves, values, strict=True):
        memory.objects[number] = np.array(value) if isinstance(source, Place) else value


def _grow(memory: RunMemory, row: Grow) -> None:
    """Enlarge the memory of a list; the list of the next run gets as much at once."""
    length, room = (memory.view(Place(slot, offset, _COUNT)) for slot, offset in (row.length, row.room))
    if 0 <= row.limit <= length:
        error = InvalidArgumentError(
            f"Tried to push item into a full list; list size: {length} max_num_elements: {row.limit}"
        )
        raise locate(error, memory.program.variant.instructions[row.position], memory.program.device)
    rooms = memory.program.rooms
    count = max(2 * int(room[()]), rooms.get(row.storage, _LEAST_ROOM))
    count = count if row.limit < 0 else min(count, row.limit)
    rooms[row.storage] = count
    storage = np.empty(count * row.nbytes, np.uint8)
    kept = int(length[()]) * row.nbytes
    if kept:
        storage[:kept] = memory.kept[row.storage].reshape(-1).view(np.uint8)[:kept]
    memory.bind(row.storage, storage)
    room[...] = count


def _execute_break(memory: RunMemory, row: Break, until: int | None) -> bool:
    """Compute a row by its reference kernel; False: it would take too long for a walk with a deadline."""
    memory.publish_before(row)
    inputs = dereference(row.instruction, [memory.input(source) for source in row.inputs])
    instruction = row.instruction
    if until is not None and instruction.structure is None and takes_long(instruction, inputs):
        return False
    try:
        result = _compute(memory, instruction, inputs, until)
        if result is Outcome.PAUSED:
            return False
        _store(memory, row, result if len(row.outputs) > 1 else (result,), inputs)
    except Exception as error:
        raise locate(error, row.instruction, memory.program.device) from error
    for slot, variable, shape, reader in row.rebinds:
        memory.bind(slot, memory.read_rebound(variable, shape, reader))
    return True


def _compute(memory: RunMemory, instruction: Instruction, inputs: list[Any], until: int | None) -> Any:
    """The result of an instruction's kernel; PAUSED: the deadline has passed in a loop or conditional."""
    if instruction.structure is None:
        return instruction.compute(*inputs)
    run = memory.inner
    if run is None:
        run = memory.inner = StructureRun(instruction, inputs, memory.program.device)
    if memory.frame.words[walking.CANCEL]:
        run.cancel()
    if not run.advance(None if until is None else max(until - perf_counter_ns(), 0)):
        return Outcome.PAUSED
    memory.inner = None
    outputs = run.outputs()
    return outputs if len(outputs) != 1 else outputs[0]


def _store(memory: RunMemory, row: Break, results: Sequence[Any], inputs: Sequence[Any]) -> None:
    for output, result in zip(row.outputs, results, strict=False):
        if isinstance(output, int):
            memory.objects[output] = result if isinstance(result, Variable) else np.array(result, copy=True)
            continue
        slot, spec = output
        if result is None:  # the output of a branch that was not taken; no row reads it
            result = np.zeros(spec.shape, spec.dtype)
        array = np.asarray(result)
        if array.shape != spec.shape or array.dtype != spec.dtype:
            raise InternalError(
                f"expected {spec.dtype}{spec.shape} from the kernel, got {array.dtype}{array.shape}"
            )
        if spec.nbytes <= _LARGEST_COPIED:
            _copy_to_slot(memory, slot, array)
            continue
        if array.base is not None or any(array is given for given in inputs) or not array.flags.c_contiguous:
            array = np.array(array, copy=True, order="C")
        memory.bind(slot, array)


def _copy_to_slot(memory: RunMemory, slot: int, array: Array) -> None:
    """Copy a small output to memory that stays bound to its slot of the frame: that takes less time than to bind it anew.

    The next run of the row overwrites it. The array is a view, so that a stack or an array that keeps the value copies it.
    """
    buffer = memory.frame.buffers.get(slot)
    if buffer is None:
        buffer = memory.frame.buffers[slot] = np.empty(array.shape, array.dtype)[...]
        memory.bind(slot, buffer)
    else:
        memory.kept[slot] = buffer
    np.copyto(buffer, array)
