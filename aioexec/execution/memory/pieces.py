"""Cuts an item into pieces: nodes that may be a program, and between these nodes whose kernels are called in each step."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

from aioexec.data_classes import dataclass
from aioexec.graph.kernels.kernel import Role
from aioexec.planning.instruction import Instruction
from aioexec.planning.plan import Item


def can_be_recorded(instruction: Instruction) -> bool:
    """Whether what the kernel of a node does follows from shapes, and it changes nothing but variables that it writes."""
    row = instruction.node.row
    if instruction.structure is not None or row.role is Role.VARIABLE:
        return False
    return bool(row.writes or row.reads) or not instruction.has_effect


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Consecutive nodes of an item, as an item with inputs and outputs of its own.

    Attributes:
        dropped: for each node the values that no later node of the whole item needs: their memory serves later nodes.
    """

    item: Item
    dropped: tuple[tuple[int, ...], ...]


def cut_pieces(item: Item) -> list[Piece]:
    """All nodes in order, those that can be recorded together as far as possible."""
    runs = [tuple(run) for _, run in groupby(item.instructions, can_be_recorded)]
    last = _last_uses(item)
    pieces: list[Piece] = []
    known, begin = set(item.inputs), 0
    for k, run in enumerate(runs):
        made = [value for instruction in run for value in instruction.outputs]
        taken = dict.fromkeys(value for instruction in run for value in instruction.inputs)
        later = {value for rest in runs[k + 1 :] for instruction in rest for value in instruction.inputs}
        later.update(item.outputs)
        inputs = tuple(value for value in taken if value in known)
        outputs = tuple(value for value in made if value in later)
        part = replace(item, instructions=run, inputs=inputs, outputs=outputs)
        pieces.append(Piece(part, tuple(last[begin : begin + len(run)])))
        known.update(made)
        begin += len(run)
    return pieces


def _last_uses(item: Item) -> list[tuple[int, ...]]:
    """For each node, the values made in the item that it is the last to make or take, and that are no outputs."""
    last: dict[int, int] = {}
    made = {value for instruction in item.instructions for value in instruction.outputs}
    for k, instruction in enumerate(item.instructions):
        last.update((value, k) for value in (*instruction.inputs, *instruction.outputs))
    dropped: list[list[int]] = [[] for _ in item.instructions]
    for value in made - set(item.outputs):
        dropped[last[value]].append(value)
    return [tuple(each) for each in dropped]
