"""Cuts an item into pieces: nodes that may be a program, and between these nodes whose kernels are called in each step.

A piece ends a program, so there should be few. What needs nothing of the item's programs comes before them where it may: what
the host computes from values in main memory and copies in, and random numbers. So the number of an iteration, as an input of a
program in a loop, is no part of the program's key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from heapq import heappop, heappush

from aioexec.data_classes import dataclass
from aioexec.execution.programs.last_uses import last_uses
from aioexec.graph.kernels.kernel import Role
from aioexec.graph.registry import Row
from aioexec.planning.instruction import Instruction
from aioexec.planning.plan import Item


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Consecutive nodes of an item, as an item with inputs and outputs of its own.

    Attributes:
        is_recorded: what the kernels do follows from shapes, and they change nothing but variables that they write.
        dropped: for each node the values that no later node of the whole item needs: their memory serves later nodes.
    """

    item: Item
    is_recorded: bool
    dropped: tuple[tuple[int, ...], ...]


def cut_pieces(item: Item) -> list[Piece]:
    """All nodes, those that can be recorded together as far as possible."""
    runs = _runs(item.instructions)
    last = last_uses(item, [instruction for _, run in runs for instruction in run])
    pieces: list[Piece] = []
    known, begin = set(item.inputs), 0
    for k, (is_recorded, run) in enumerate(runs):
        made = [value for instruction in run for value in instruction.outputs]
        taken = dict.fromkeys(value for instruction in run for value in instruction.inputs)
        later = {value for _, rest in runs[k + 1 :] for instruction in rest for value in instruction.inputs}
        later.update(item.outputs)
        inputs = tuple(value for value in taken if value in known)
        outputs = tuple(value for value in made if value in later)
        part = replace(item, instructions=tuple(run), inputs=inputs, outputs=outputs)
        pieces.append(Piece(part, is_recorded, tuple(last[begin : begin + len(run)])))
        known.update(made)
        begin += len(run)
    return pieces


def _runs(instructions: Sequence[Instruction]) -> list[tuple[bool, list[Instruction]]]:
    """The nodes in an order in which they may run: in turns those that cannot be recorded, and those that can."""
    recorded = _recorded(instructions)
    users, waiting = _users(instructions, recorded)
    ready: dict[bool | None, list[int]] = {False: [], True: [], None: []}
    for k, count in enumerate(waiting):
        if not count:
            heappush(ready[recorded[k]], k)
    runs: list[tuple[bool, list[Instruction]]] = []
    turn = False
    while any(ready.values()):
        run: list[Instruction] = []
        while ready[turn] or (ready[None] and (run or not ready[not turn])):
            k = heappop(min(ready[turn], ready[None], key=lambda line: line[0] if line else len(users)))
            run.append(instructions[k])
            for user in users[k]:
                waiting[user] -= 1
                if not waiting[user]:
                    heappush(ready[recorded[user]], user)
        if run:
            runs.append((turn, run))
        turn = not turn
    return runs


def _recorded(instructions: Sequence[Instruction]) -> list[bool | None]:
    """Whether each node is recorded: not, if it has an effect, or needs nothing of programs; None: it may be or not."""
    by_programs: set[int] = set()
    found: list[bool | None] = []
    for instruction in instructions:
        is_early = by_programs.isdisjoint(instruction.inputs)
        is_either = instruction.node.row.role is Role.IDENTITY and not instruction.dereferences
        is_recorded = _can_be_recorded(instruction) and not (is_early and _is_of_host(instruction))
        if is_recorded and not (is_early and is_either):
            by_programs.update(instruction.outputs)
        found.append(None if is_recorded and is_either else is_recorded)
    return found


def _is_of_host(instruction: Instruction) -> bool:
    node = instruction.node
    return node.on_host or node.row.role in (Role.COPY_TO_DEVICE, Role.LOOP_COND)


def _can_be_recorded(instruction: Instruction) -> bool:
    row = instruction.node.row
    if instruction.structure is not None or row.role in (Role.VARIABLE, Role.LOOP_COND) or _is_on_lists(row):
        return False
    return bool(row.writes or row.reads) or not instruction.has_effect


def _users(
    instructions: Sequence[Instruction], recorded: Sequence[bool | None]
) -> tuple[list[list[int]], list[int]]:
    """For each node those that come after it, and how many come before it.

    They are the nodes that take its outputs or wait for it. A node with an effect keeps its place among all.
    """
    producers = {value: k for k, instruction in enumerate(instructions) for value in instruction.outputs}
    places = {id(instruction.node): k for k, instruction in enumerate(instructions)}
    users: list[list[int]] = [[] for _ in instructions]
    waiting: list[int] = []
    last_effect = -1
    for k, instruction in enumerate(instructions):
        before = {producers[value] for value in instruction.inputs if value in producers}
        before |= {places[id(node)] for node in instruction.node.controls if id(node) in places}
        if last_effect >= 0:
            before.add(last_effect)
        if recorded[k] is False and not _may_be_moved(instruction):
            before.update(range(last_effect + 1, k))
            last_effect = k
        before.discard(k)
        for each in before:
            users[each].append(k)
        waiting.append(len(before))
    return users, waiting


def _may_be_moved(instruction: Instruction) -> bool:
    """Whether a node that is not recorded may come before or after others of which it needs nothing."""
    row = instruction.node.row
    is_ordered_by_values = row.random is not None or row.role is Role.VARIABLE or _is_on_lists(row)
    return _is_of_host(instruction) or is_ordered_by_values


def _is_on_lists(row: Row) -> bool:
    return row.lists is not None and not row.lists.also_tensors
