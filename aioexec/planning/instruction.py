"""Instructions: a node's kernel, and its input and output values; the regions of a loop or conditional. Frozen."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from aioexec.data_classes import dataclass
from aioexec.errors import InvalidArgumentError, OpError, from_exception, with_context
from aioexec.graph.kernels.kernel import Compute, Role
from aioexec.planning.subgraph import Node


@dataclass(frozen=True, slots=True, eq=False)
class RegionPlan:
    """The instructions of a branch, a loop condition or a loop body, and its result values; None for a result it lacks."""

    instructions: tuple[Instruction, ...]
    results: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class StructurePlan:
    """A loop or conditional inside of an item.

    Attributes:
        is_loop: `regions` are the condition and the body of a loop, whose first parameters are its variables and its outputs;
            else those of a conditional if its first input is false, and if it is true.
        parameters: the values that represent the inputs inside; a conditional's predicate has none.
        known: constants and resources used inside.
    """

    is_loop: bool
    parameters: tuple[int, ...]
    regions: tuple[RegionPlan, RegionPlan]
    known: Mapping[int, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Instruction:
    """One node as the reference tier runs it: `compute(*values[inputs])` gives `values[outputs]`.

    Attributes:
        dereferences: positions of inputs that are references to variables, of which the kernel takes the contents.
        is_overridden: `compute` was registered for the device's type: no other kernel of the row may compute the node there.
        keeps_input: `compute` keeps an input itself (see `KeepingKernel`); no other node reads that value.
        structure: the plan of a loop or conditional, which is run instead of `compute`.
        sizes: the bytes of its outputs, as far as they were needed (see `workload`); the only field that changes.
    """

    node: Node
    compute: Compute
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    dereferences: tuple[int, ...]
    is_overridden: bool = False
    structure: StructurePlan | None = None
    keeps_input: bool = False
    sizes: dict[Hashable, float] = field(default_factory=dict)

    @property
    def has_effect(self) -> bool:
        """Whether running it changes a state: a variable, the counter of a random generator, a resource."""
        if self.structure is not None:
            regions = self.structure.regions
            return any(each.has_effect for region in regions for each in region.instructions)
        row = self.node.row
        return (row.is_stateful or bool(row.writes)) and row.role not in (Role.READ, Role.VARIABLE)

    def parameters(self) -> Iterator[tuple[int, int]]:
        """Pairs of a structure's parameters and the values they represent."""
        if self.structure is not None:
            yield from zip(self.structure.parameters, self.inputs[not self.structure.is_loop :], strict=True)


def with_inner(instructions: Sequence[Instruction]) -> Iterator[Instruction]:
    """The instructions, each followed by those of its structure."""
    for instruction in instructions:
        yield instruction
        if instruction.structure is not None:
            for part in instruction.structure.regions:
                yield from with_inner(part.instructions)


def locate(error: Exception, instruction: Instruction, device: str) -> OpError:
    """Convert the error of a kernel to an OpError that names the node."""
    return locate_node(error, instruction.node, device)


def locate_node(error: Exception, node: Node, device: str) -> OpError:
    """Convert an error to an OpError that names the node."""
    op = node.op
    found: OpError
    if isinstance(error, IndexError | OverflowError):  # raised by NumPy and Python for a wrong rank or number
        found = InvalidArgumentError(f"an operand does not fit ({type(error).__name__}: {error})")
        found.__cause__ = error
    else:
        found = from_exception(error)
    return with_context(found, node=op.name, op_type=op.type, device=device, created_at=op.created_at, op=op)
