"""Ownership of inputs: a kernel may keep an input without a copy if no other reference to the value exists or will be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from aioexec.graph.kernels.kernel import KeepingKernel
from aioexec.planning.instruction import Instruction

Instructions = tuple[Instruction, ...]


def with_keepers(items: Sequence[Instructions], fetches: Collection[int]) -> list[Instructions]:
    """The instructions of each item, with `keeps_input` set where that is allowed.

    An item does not own the values it outputs itself: in a program their memory may be shared with other values.
    """
    uses = Counter(value for item in items for instruction in item for value in instruction.inputs)
    given = {
        value: k
        for k, item in enumerate(items)
        for instruction in item
        if instruction.node.feed is None and instruction.node.row.gives_away
        for value in instruction.outputs
    }

    def is_owned(value: int, item: int) -> bool:
        return given.get(value, item) != item and uses[value] == 1 and value not in fetches

    def keep_input(instruction: Instruction, item: int) -> Instruction:
        compute = instruction.compute
        if not isinstance(compute, KeepingKernel) or not is_owned(instruction.inputs[compute.keeps], item):
            return instruction
        return replace(instruction, compute=compute.keep, keeps_input=True)

    return [tuple([keep_input(instruction, k) for instruction in item]) for k, item in enumerate(items)]
