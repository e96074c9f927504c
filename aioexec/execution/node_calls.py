"""Bound calls of reference kernels: what the reference tier does for a node, decided once instead of in each step.

A node becomes a function of the step's values that runs its kernel and stores its outputs, and a check whether the kernel takes
too long for the event loop. For inputs of shapes that were met before, most checks are known to be unnecessary, and so are the
nodes that only compute with shapes: their outputs are `given`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.execution.programs.last_uses import last_uses
from aioexec.execution.programs.structures import dereference, store
from aioexec.execution.propagator import Values
from aioexec.graph.kernels.kernel import Role
from aioexec.planning.instruction import Instruction
from aioexec.planning.plan import Item
from aioexec.planning.shape_dependence import ShapeDependence, static_bytes
from aioexec.planning.workload import HEAVY_BYTES, takes_long

Call = Callable[[Values], None]
"""Runs a node on the values of a step, and stores its outputs there."""
Check = Callable[[Values], bool]
"""Whether a node is heavy: estimated to take too long for the event loop."""
NodeCall = tuple[Call | None, Check | None, int]
"""The call of a node (None: a structure), its check (None: it is never heavy), and its position in the item."""

LARGE_VALUE = 1 << 20
"""Bytes from which on a value is dropped after its last use in a step."""
_MOST_GIVEN = 4096  # bytes of the outputs of a node that are kept


@dataclass(frozen=True, slots=True, eq=False)
class CallList:
    """What one run of an item calls, in order; `given` are values that need no call.

    `keeping`: by position, the calls in `calls` that drop values, without that; and the values.
    """

    calls: tuple[NodeCall, ...]
    given: tuple[tuple[int, Any], ...] = ()
    keeping: Mapping[int, tuple[Call, tuple[int, ...]]] = field(default_factory=dict)


def bind_item(item: Item, known: Sequence[Any]) -> CallList:
    """The calls of an item for inputs of any shapes; `known` are the plan's values (constants and variables are set)."""
    calls: list[NodeCall] = []
    keeping: dict[int, tuple[Call, tuple[int, ...]]] = {}
    dying = _large_last_uses(item)
    for position, (instruction, dead) in enumerate(zip(item.instructions, dying, strict=True)):
        call = None if instruction.structure is not None else bind_call(instruction)
        if call is not None and dead:
            keeping[position] = call, dead
            call = _dropping(call, dead)
        calls.append((call, bind_check(instruction, known), position))
    return CallList(tuple(calls), (), keeping)


def _large_last_uses(item: Item) -> list[tuple[int, ...]]:
    """For each node, the values that it is the last to use, without those that are known to be small."""
    small = {
        value
        for instruction in item.instructions
        for value, tensor in zip(instruction.outputs, instruction.node.op.outputs, strict=True)
        if (size := static_bytes(tensor)) is not None and size < LARGE_VALUE
    }
    found = last_uses(item, item.instructions)
    return [tuple(value for value in values if value not in small) for values in found]


def _dropping(call: Call, dead: Sequence[int]) -> Call:
    """A call after which the large ones of these values are dropped, so that a step does not hold all values at once."""

    def wrapped(values: Values) -> None:
        call(values)
        for value in dead:
            held = values[value]
            if isinstance(held, np.ndarray) and held.nbytes >= LARGE_VALUE:
                values[value] = None

    return wrapped


def specialise(
    item: Item, general: CallList, shapes: ShapeDependence, heavy: Collection[int], values: Values
) -> CallList:
    """The calls for inputs of the same shapes as those of a run that has ended with these values.

    Args:
        heavy: the positions of nodes that were heavy in it.
    """
    calls: list[NodeCall] = []
    given: list[tuple[int, Any]] = []
    for call, check, position in general.calls:
        instruction = item.instructions[position]
        outputs = [(value, values[value]) for value in instruction.outputs]
        if instruction.node.row.role is Role.NO_OP:
            continue
        is_there = all(held is not None for _, held in outputs)  # large values are dropped
        if is_there and position in shapes.fixed and sum(held.nbytes for _, held in outputs) <= _MOST_GIVEN:
            given += outputs
        else:
            is_light = position in shapes.sized and position not in heavy
            keeping, dead = general.keeping.get(position, (call, ()))
            drops = any(values[value] is None for value in dead)
            calls.append((call if drops else keeping, None if is_light else check, position))
    return CallList(tuple(calls), tuple(given))


def bind_call(instruction: Instruction) -> Call:
    """The call of a node that is no structure. It raises what the kernel raises."""
    if len(instruction.outputs) == 1 and not instruction.dereferences:
        if len(instruction.inputs) == 1:
            return _bind_unary(instruction)
        if len(instruction.inputs) == 2:
            return _bind_binary(instruction)
    compute, inputs, has_references = instruction.compute, instruction.inputs, bool(instruction.dereferences)

    def call(values: Values) -> None:
        given = [values[value] for value in inputs]
        if has_references:
            given = dereference(instruction, given)
        store(values, instruction, compute(*given))

    return call


def _bind_unary(instruction: Instruction) -> Call:
    compute, (x,), (output,) = instruction.compute, instruction.inputs, instruction.outputs

    def call(values: Values, ndarray: type = np.ndarray) -> None:
        result = compute(values[x])
        if type(result) is ndarray:
            values[output] = result
        else:
            store(values, instruction, result)

    return call


def _bind_binary(instruction: Instruction) -> Call:
    compute, (x, y), (output,) = instruction.compute, instruction.inputs, instruction.outputs

    def call(values: Values, ndarray: type = np.ndarray) -> None:
        result = compute(values[x], values[y])
        if type(result) is ndarray:
            values[output] = result
        else:
            store(values, instruction, result)

    return call


def bind_check(instruction: Instruction, known: Sequence[Any]) -> Check | None:
    """The check of a node; None: it is never heavy, whatever the inputs."""
    op, inputs = instruction.node.op, instruction.inputs
    if instruction.structure is None and instruction.node.row.work is None:
        sizes = [static_bytes(tensor, known[value]) for tensor, value in zip(op.inputs, inputs, strict=True)]
        sizes += [static_bytes(tensor) for tensor in op.outputs]
        total = sum(size for size in sizes if size is not None)
        if None not in sizes and total <= HEAVY_BYTES:
            return None
    return lambda values: takes_long(instruction, [values[value] for value in inputs])
