"""When the values of an item are used for the last time."""

from __future__ import annotations

from collections.abc import Sequence

from aioexec.planning.instruction import Instruction
from aioexec.planning.plan import Item


def last_uses(item: Item, instructions: Sequence[Instruction]) -> list[tuple[int, ...]]:
    """For each instruction of an item, in the order given, the values made in the item that no later one takes.

    Without the outputs of the item, which are used outside.
    """
    used = set(item.outputs)
    made = {value for instruction in instructions for value in instruction.outputs}
    found: list[tuple[int, ...]] = []
    for instruction in reversed(instructions):
        taken = dict.fromkeys((*instruction.inputs, *instruction.outputs))
        last = tuple(value for value in taken if value in made and value not in used)
        used.update(last)
        found.append(last)
    return found[::-1]
