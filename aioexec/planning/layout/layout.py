"""Lays out an item for concrete shapes: an abstract interpretation of its nodes that yields rows, buffers and folded values.

During layout a value is one of four things: known (a constant for these shapes, as most values that compute shapes are), in
memory (a place in a buffer), a variable (a handle or reference), or an object (which the arena cannot hold: strings, arrays
whose shape depends on data). A variable has versions: its content at entry, and after each write in the program; a read is an
alias of one version, so it keeps its value regardless of later writes.

The result has no addresses yet: `variant_builder` makes a frozen variant from it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.graph.kernels.kernel import Alias, Kernel, Launches, ListUse, Operand, Role, Spec
from aioexec.graph.node import Operation
from aioexec.graph.registry import ShapeContext, output_dims
from aioexec.planning.instruction import Instruction, with_inner
from aioexec.planning.layout.buffers import Buffer, Local
from aioexec.planning.layout.lists import lay_list
from aioexec.planning.layout.pending import (
    Array,
    Held,
    InMemory,
    ListsRefusedError,
    Object,
    PendingBreak,
    PendingOperand,
    PendingRow,
    RefusedError,
)
from aioexec.planning.layout.state import LayoutState
from aioexec.planning.layout.structures import lay_structure
from aioexec.planning.plan import Item
from aioexec.planning.simplify import evaluated
from aioexec.resources.variable import Variable

LARGEST_KNOWN = 64 * 1024
"""Most bytes of a value that is folded into a variant; larger ones are computed by rows."""
BREAK_NS = 3000


_FORWARDING_ROLES = (Role.IDENTITY, Role.READ, Role.LOOP_COND)


class Layout(LayoutState):
    """The layout of one item: `run` visits its instructions."""

    def __init__(
        self,
        item: Item,
        values: tuple[Any, ...],
        inputs: Mapping[int, Spec],
        refused: Container[Kernel],
        with_lists: bool = True,
    ) -> None:
        super().__init__(item, values, inputs, refused)
        self._with_lists = with_lists

    # The abstract interpretation

    def run(self) -> None:
        for instruction in self.item.instructions:
            self.visit(instruction)

    def visit(self, instruction: Instruction) -> None:
        """Lay out one instruction: as an alias, a folded value, native rows, or a break."""
        position = self.position_of[id(instruction)]
        if instruction.structure is None:
            self.native += 1
        node, row = instruction.node, instruction.node.row
        if row.role in (Role.NO_OP, Role.CONTROL_TRIGGER):
            return
        inputs = [self._input(position, instruction, k) for k in range(len(instruction.inputs))]
        if instruction.structure is not None:
            reason = lay_structure(self, position, instruction, inputs)
            if reason is not None:
                self._lay_break(position, instruction, inputs, reason)
            return
        if row.lists is not None and self._with_lists and _is_of_lists(row.lists, inputs):
            lay_list(self, position, instruction, inputs)
            return
        source = self._aliased(position, instruction, inputs)
        if source is not None:
            self.held[instruction.outputs[0]] = source
            return
        known = self._fold(instruction, inputs)
        if known is not None:
            for value, content in zip(instruction.outputs, known, strict=True):
                self.held[value] = content
            return
        reason = self._lay_native(position, instruction, inputs)
        if reason is not None:
            self.native -= 1
            self._lay_break(position, instruction, inputs, reason)
        if row.role is Role.UPDATE and instruction.outputs and node.op.outputs[0].dtype.is_ref:
            self.held[instruction.outputs[0]] = self.held[instruction.inputs[0]]

    def _aliased(self, position: int, instruction: Instruction, inputs: list[Held]) -> Held | None:
        """The output of a node that forwards an input; None if the node computes its output."""
        role = instruction.node.row.role
        if role not in _FORWARDING_ROLES or instruction.is_overridden or len(inputs) != 1:
            return None
        (source,) = inputs
        if role is not Role.READ:
            return None if isinstance(source, Variable) and instruction.dereferences else source
        if isinstance(source, Object):  # a run binds the variable
            return None
        if isinstance(source, Variable):
            has_declared_dtype = source.dtype.numpy == instruction.node.op.outputs[0].dtype.numpy
            return self._read(source, position, instruction) if has_declared_dtype else None
        return source

    def _input(self, position: int, instruction: Instruction, k: int) -> Held:
        """Input k; if the kernel dereferences it, the variable's content, if that is in memory."""
        held = self.held[instruction.inputs[k]]
        if isinstance(held, Variable) and k in instruction.dereferences:
            return self._read(held, position, instruction) or held
        self.note_use(held, position)
        return held

    def _read(self, variable: Variable, position: int, instruction: Instruction) -> Local | None:
        """The content of a variable; inside a branch not every run needs it."""
        if self.around:
            position = max(position, *(loop[1] for loop in self.around if loop is not None), 0)
        return self.versions.read(variable, position, instruction, certain=not self.around)

    def _fold(self, instruction: Instruction, inputs: list[Held]) -> tuple[Array, ...] | None:
        """The outputs, if they are determined by known contents, or by shapes alone."""
        row = instruction.node.row
        if not instruction.node.is_pure or row.kernel is None:
            return None
        contents: list[Array] = []
        for held in inputs:
            if isinstance(held, np.ndarray):
                contents.append(held)
            elif isinstance(held, Local) and row.shape_only:
                contents.append(np.broadcast_to(np.zeros((), held.spec.dtype), held.spec.shape))
            else:
                return None
        if not row.shape_only and sum(array.nbytes for array in contents) > LARGEST_KNOWN:
            return None
        specs = self._output_specs(instruction, inputs)
        if specs is not None and sum(spec.nbytes for spec in specs) > LARGEST_KNOWN:
            return None
        outputs = evaluated(instruction.node, instruction.compute, contents)
        if outputs is None or sum(array.nbytes for array in outputs) > LARGEST_KNOWN:
            return None
        return outputs

    def _lay_native(self, position: int, instruction: Instruction, inputs: list[Held]) -> str | None:
        """Append the rows of a node; returns the reason if it has no native form."""
        row = instruction.node.row
        if instruction.is_overridden:
            return "a kernel registered for its device"
        if row.native is None or instruction.keeps_input:  # native rows cannot keep an input
            return "no native kernel"
        specs = [self.spec(held) for held in inputs]
        if any(spec is None for spec in specs):
            return "an input that memory cannot hold"
        outputs = self._output_specs(instruction, inputs)
        if outputs is None:
            return "an output shape that depends on data"
        if any(spec.dtype == object for spec in outputs):
            return "an output that memory cannot hold"
        written = [held for k, held in enumerate(inputs) if k in row.writes]
        if written and self.around:
            raise RefusedError(f"{row.name} writes a variable inside")
        if any(not isinstance(held, Variable) or not self.versions.can_write(held) for held in written):
            return "a variable that cannot be written here"
        if any(isinstance(held, Variable) and self._is_needed(held, position) for held in written):
            return "a variable written again while what it held before is needed"
        bound = row.native.bind(
            instruction.node.op.attrs, [spec for spec in specs if spec is not None], outputs
        )
        if bound is None:
            return "no native form for these shapes and attributes"
        if isinstance(bound, Launches) and any(launch.kernel in self.refused for launch in bound.rows):
            return "its kernel did not compile"
        if isinstance(bound, Alias):
            return self._lay_alias(instruction, inputs, outputs, bound)
        self._lay_launches(position, instruction, inputs, outputs, bound)
        return None

    def _is_needed(self, variable: Variable, position: int) -> bool:
        """Whether a snapshot of what an earlier row wrote to a variable is needed at this position or later."""
        written = self.versions.overwrites(variable)
        return written is not None and any(
            isinstance(held, Local) and held.buffer is written and self.last_use.get(value, -1) >= position
            for value, held in self.held.items()
        )

    def _lay_alias(
        self, instruction: Instruction, inputs: list[Held], outputs: list[Spec], alias: Alias
    ) -> str | None:
        for value, spec, k, offset in zip(
            instruction.outputs, outputs, alias.inputs, alias.offsets, strict=True
        ):
            held = inputs[k]
            if isinstance(held, np.ndarray):
                flat = np.ascontiguousarray(held).reshape(-1).view(np.uint8)
                self.held[value] = flat[offset : offset + spec.nbytes].view(spec.dtype).reshape(spec.shape)
            elif isinstance(held, Local):
                self.held[value] = Local(held.buffer, held.offset + offset, spec)
            else:
                return "an alias of what is not in memory"
        return None

    def _make_targets(self, position: int, instruction: Instruction, outputs: list[Spec]) -> list[Local]:
        """Make the places of outputs that are no variables."""
        targets = []
        for value, spec in zip(instruction.outputs, outputs, strict=False):
            targets.append(Local(self.arena(spec.nbytes, position), 0, spec))
            self.held[value] = targets[-1]
        return targets

    def _lay_launches(
        self,
        position: int,
        instruction: Instruction,
        inputs: list[Held],
        outputs: list[Spec],
        launches: Launches,
    ) -> None:
        row = instruction.node.row
        targets = [] if row.role is Role.UPDATE else self._make_targets(position, instruction, outputs)
        scratch = [self.arena(nbytes, position) for nbytes in launches.scratch]
        if targets:
            self._add_heirs(inputs, launches, targets[0].buffer)
        # The inputs must have memory, even if no row reads them.
        sources = {k: self.address(position, instruction, inputs[k]) for k in row.reads}

        def place(operand: Operand) -> PendingOperand:
            if operand.kind == "output":
                return targets[operand.index].buffer, operand.offset
            if operand.kind == "scratch":
                return scratch[operand.index], operand.offset
            if operand.kind == "state":
                variable = inputs[operand.index]
                assert isinstance(variable, Variable)
                return self.versions.written(variable), operand.offset
            if operand.index not in sources:
                sources[operand.index] = self.address(position, instruction, inputs[operand.index])
            buffer, offset = sources[operand.index]
            return buffer, offset + operand.offset

        first = len(self.pending)
        for launch in launches.rows:
            self.pending.append(
                PendingRow(launch, tuple(place(operand) for operand in launch.operands), position)
            )
        self.cost += sum(launch.cost for launch in launches.rows)
        for k in row.writes:
            variable = inputs[k]
            assert isinstance(variable, Variable)
            self.versions.wrote(variable, position, (first, len(self.pending) - 1))

    def _add_heirs(self, inputs: list[Held], launches: Launches, heir: Buffer) -> None:
        for k in launches.inplace:
            held = inputs[k]
            if (
                isinstance(held, Local)
                and held.buffer.slot is None
                and held.offset == 0
                and _sole(held, inputs)
            ):
                held.buffer.heirs.append(heir)
                return

    def _lay_break(self, position: int, instruction: Instruction, inputs: list[Held], reason: str) -> None:
        if any(isinstance(held, InMemory) for held in inputs):
            raise ListsRefusedError(
                f"{instruction.node.name!r} takes a list, and has no native form: {reason}"
            )
        handles = list(dict.fromkeys(held for held in inputs if isinstance(held, Variable)))
        for inner in with_inner([instruction]):
            known = inner.structure.known.values() if inner.structure is not None else ()
            handles += [held for held in known if isinstance(held, Variable) and held not in handles]
        if handles and self.around:
            raise RefusedError(
                f"{instruction.node.row.name} takes a variable inside, and has no native form: {reason}"
            )
        specs = self._output_specs(instruction, inputs) if instruction.outputs else []
        outputs: list[tuple[Buffer, Spec] | int] = []
        for k, value in enumerate(instruction.outputs):
            if specs is None or specs[k].dtype == object or instruction.node.op.outputs[k].dtype.is_ref:
                self.held[value] = Object(value)
                outputs.append(value)
            else:
                buffer = self.external(specs[k].nbytes)
                self.break_buffers.append(buffer)
                self.held[value] = Local(buffer, 0, specs[k])
                outputs.append((buffer, specs[k]))
        rebinds = self.versions.break_on(handles)
        if _may_reshape(instruction.node.op):
            for variable in handles:
                if any(self._dims(held) != variable.dims for held in inputs if held is not variable):
                    self.versions.forget_shape(variable)
        self.cost += BREAK_NS + sum(self._bytes(held) for held in inputs)
        self.pending.append(
            PendingBreak(
                instruction, position, reason, tuple(inputs), tuple(outputs), tuple(handles), rebinds
            )
        )

    def _dims(self, held: Held) -> shapes.Dims:
        spec = self.spec(held)
        return None if spec is None else spec.shape

    def _bytes(self, held: Held) -> int:
        spec = self.spec(held)
        return 0 if spec is None else spec.nbytes

    def _output_specs(self, instruction: Instruction, inputs: list[Held]) -> list[Spec] | None:
        """Specs of the outputs; None if a shape is not known."""
        row, op = instruction.node.row, instruction.node.op

        def dims(k: int, held: Held) -> shapes.Dims:
            if isinstance(held, Variable) and not op.inputs[k].dtype.is_ref:
                return ()
            spec = self.spec(held)
            return spec.shape if spec is not None else (held.shape if isinstance(held, np.ndarray) else None)

        def value(k: int) -> Array | None:
            held = inputs[k]
            return held if isinstance(held, np.ndarray) else None

        def partial(k: int) -> shapes.Dims:
            content = value(k)
            return None if content is None else tuple(None if d < 0 else int(d) for d in content.reshape(-1))

        def variable(k: int) -> shapes.Dims:
            held = inputs[k]
            return held.dims if isinstance(held, Variable) else None

        given = [dims(k, held) for k, held in enumerate(inputs)]
        found = output_dims(row, ShapeContext(op.attrs, given, value, partial, variable))
        specs = []
        for tensor, output in zip(op.outputs, found, strict=True):
            if output is None or None in output:
                return None
            specs.append(Spec(tensor.dtype.numpy, tuple(int(d or 0) for d in output)).checked())
        return specs


def _is_of_lists(use: ListUse, inputs: list[Held]) -> bool:
    return not use.also_tensors or any(isinstance(held, InMemory) for held in inputs)


def _may_reshape(op: Operation) -> bool:
    """Whether the op may leave a variable in another shape than declared: only an unchecked Assign to a reference may."""
    return (
        bool(op.row.writes)
        and op.inputs[op.row.writes[0]].dtype.is_ref
        and op.attrs.get("validate_shape") is False
    )


def _sole(held: Local, inputs: list[Held]) -> bool:
    """Whether no other input reads the same buffer through another view, so that it may be overwritten element by element."""
    return all(
        other.offset == held.offset and other.spec.shape == held.spec.shape
        for other in inputs
        if isinstance(other, Local) and other.buffer is held.buffer
    )
