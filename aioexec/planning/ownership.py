"""Which nodes may keep what they are given: a value that nobody else holds, and nobody else will look at, needs no copy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from aioexec.graph.kernels.kernel import KeepingKernel
from aioexec.planning.instruction import Instruction

Instructions = tuple[Instruction, ...]


def with_keepers(items: Sequence[Instructions], fetches: Collection[int]) -> list[Instructions]:
    """The instructions of each item, in which those keep their inputs that may.

    What an item puts out itself it does not own: in a program it lies in memory of which other values have a part.
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

    def kept(instruction: Instruction, item: int) -> Instruction:
        compute = instruction.compute
        if not isinstance(compute, KeepingKernel) or not is_owned(instruction.inputs[compute.keeps], item):
            return instruction
        return replace(instruction, compute=compute.keep, keeps_input=True)

    return [tuple([kept(instruction, k) for instruction in item]) for k, item in enumerate(items)]
