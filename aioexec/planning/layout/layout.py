"""Lays out an item for concrete shapes: an abstract interpretation of its nodes that yields rows, buffers and folded values.

The abstract value of a tensor (`AbstractValue`) is its content, if that is known (a constant for these shapes, as most tensors
that compute shapes are); a place in a buffer; a list in memory; a variable (a handle or reference); or an object, which the
arena cannot hold (strings, arrays whose shape depends on data). A variable has versions: its content at entry, and after each
write in the program; a read is an alias of one version, so it keeps its value regardless of later writes.

The result has no addresses yet: `variant_builder` makes a frozen variant from it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.graph.kernels.kernel import (
    Alias,
    Attrs,
    Kernel,
    Launches,
    ListUse,
    ListVerb,
    Operand,
    Role,
    Spec,
)
from aioexec.graph.kernels.panels import Storage
from aioexec.graph.node import Operation
from aioexec.graph.registry import ShapeContext, output_dims
from aioexec.planning.instruction import Instruction, with_inner
from aioexec.planning.layout.buffers import Buffer, Local
from aioexec.planning.layout.lists import lay_list
from aioexec.planning.layout.packed_constants import PackedConstant, PackedConstants
from aioexec.planning.layout.pending import (
    AbstractValue,
    Array,
    InMemory,
    ListsRefusedError,
    Object,
    PendingBreak,
    PendingOperand,
    PendingRow,
    RefusedError,
)
from aioexec.planning.layout.state import NOTHING_SETTLED, LayoutState
from aioexec.planning.layout.structures import lay_structure
from aioexec.planning.plan import Item
from aioexec.planning.simplify import evaluate
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
        packing: PackedConstants | None = None,
        settled: Mapping[Variable, Array] = NOTHING_SETTLED,
        storage: Storage = "",
    ) -> None:
        super().__init__(item, values, inputs, refused, packing, settled, storage)
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
        if row.lists is not None and self._with_lists and _is_of_lists(row.lists, inputs, node.op.attrs):
            lay_list(self, position, instruction, inputs)
            return
        source = self._forward(position, instruction, inputs)
        if source is not None:
            self.values[instruction.outputs[0]] = source
            return
        known = self._fold(instruction, inputs)
        if known is not None:
            for value, content in zip(instruction.outputs, known, strict=True):
                self.values[value] = content
            return
        reason = self._lay_native(position, instruction, inputs)
        if reason is not None:
            self.native -= 1
            self._lay_break(position, instruction, inputs, reason)
        if row.role is Role.UPDATE and instruction.outputs and node.op.outputs[0].dtype.is_ref:
            self.values[instruction.outputs[0]] = self.values[instruction.inputs[0]]

    def _forward(
        self, position: int, instruction: Instruction, inputs: list[AbstractValue]
    ) -> AbstractValue | None:
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

    def _input(self, position: int, instruction: Instruction, k: int) -> AbstractValue:
        """Input k; if the kernel dereferences it, the variable's content, if that is in memory."""
        abstract = self.values[instruction.inputs[k]]
        if isinstance(abstract, Variable) and k in instruction.dereferences:
            return self._read(abstract, position, instruction) or abstract
        self.note_use(abstract, position)
        return abstract

    def _read(self, variable: Variable, position: int, instruction: Instruction) -> Local | None:
        """The content of a variable; inside a branch not every run needs it."""
        if None in self.around and self.versions.may_be_replaced(variable):
            raise RefusedError(
                f"{instruction.node.row.name} in a branch reads a variable that a break may replace"
            )
        if self.around:
            position = max(position, *(loop[1] for loop in self.around if loop is not None), 0)
        content = self.versions.read(variable, position, instruction, certain=not self.around)
        if content is not None and variable in self.settled:
            self.settled_contents[id(content.buffer)] = variable, self.settled[variable]
        return content

    def _fold(self, instruction: Instruction, inputs: list[AbstractValue]) -> tuple[Array, ...] | None:
        """The outputs, if they are determined by known contents, or by shapes alone."""
        row = instruction.node.row
        if not instruction.node.is_pure or row.kernel is None:
            return None
        contents: list[Array] = []
        for abstract in inputs:
            if isinstance(abstract, np.ndarray):
                contents.append(abstract)
            elif isinstance(abstract, Local) and row.shape_only:
                contents.append(np.broadcast_to(np.zeros((), abstract.spec.dtype), abstract.spec.shape))
            else:
                return None
        if not row.shape_only and sum(array.nbytes for array in contents) > LARGEST_KNOWN:
            return None
        specs = self._output_specs(instruction, inputs)
        if specs is not None and sum(spec.nbytes for spec in specs) > LARGEST_KNOWN:
            return None
        outputs = evaluate(instruction.node, instruction.compute, contents)
        if outputs is None or sum(array.nbytes for array in outputs) > LARGEST_KNOWN:
            return None
        return outputs

    def _lay_native(self, position: int, instruction: Instruction, inputs: list[AbstractValue]) -> str | None:
        """Append the rows of a node; returns the reason if it has no native form."""
        specs = [spec for spec in map(self.spec, inputs) if spec is not None]
        reason = _input_refusal(instruction, specs)
        outputs = self._output_specs(instruction, inputs) if reason is None else None
        reason = reason or _output_refusal(outputs) or self._write_refusal(position, instruction, inputs)
        if reason is not None:
            return reason
        native = instruction.node.row.native
        assert native is not None
        assert outputs is not None
        attrs = instruction.node.op.attrs
        bound = native.bind(attrs, specs, outputs)
        if bound is None:
            return "no native form for these shapes and attributes"
        if isinstance(bound, Alias):
            return self._lay_alias(instruction, inputs, outputs, bound)
        packed = self._claim(inputs, bound)
        if packed is None:
            again = native.bind(attrs, [replace(spec, may_be_packed=False) for spec in specs], outputs)
            assert isinstance(again, Launches)
            bound, packed = again, []
        if any(launch.kernel in self.refused for launch in bound.rows):
            return "its kernel is not compiled"
        self._lay_launches(position, instruction, inputs, outputs, bound, packed)
        return None

    def _claim(self, inputs: list[AbstractValue], launches: Launches) -> list[PackedConstant] | None:
        """The constants that launches take packed; None if there is no room for them."""
        found = []
        for k, panels in launches.packed:
            content = inputs[k]
            if isinstance(content, Local):
                known = self.settled_content(content)
                assert known is not None
                variable, held = known
                self.assumed[variable], content = held, held.reshape(content.spec.shape)
            assert isinstance(content, np.ndarray)
            assert self.packing is not None
            constant = self.packing.claim(content, panels)
            if constant is None:
                return None
            found.append(constant)
        return found

    def _write_refusal(
        self, position: int, instruction: Instruction, inputs: list[AbstractValue]
    ) -> str | None:
        """The reason why rows cannot write the variables of a node, if there is one."""
        row = instruction.node.row
        written = [abstract for k, abstract in enumerate(inputs) if k in row.writes]
        if written and self.around:
            raise RefusedError(f"{row.name} writes a variable inside")
        if any(not isinstance(each, Variable) or not self.versions.can_write(each) for each in written):
            return "a variable that cannot be written here"
        if any(isinstance(each, Variable) and self._is_needed(each, position) for each in written):
            return "a variable written again while what it held before is needed"
        return None

    def _is_needed(self, variable: Variable, position: int) -> bool:
        """Whether a snapshot of what an earlier row wrote to a variable is needed at this position or later."""
        written = self.versions.overwrites(variable)
        return written is not None and any(
            isinstance(abstract, Local)
            and abstract.buffer is written
            and self.last_use.get(value, -1) >= position
            for value, abstract in self.values.items()
        )

    def _lay_alias(
        self, instruction: Instruction, inputs: list[AbstractValue], outputs: list[Spec], alias: Alias
    ) -> str | None:
        for value, spec, k, offset in zip(
            instruction.outputs, outputs, alias.inputs, alias.offsets, strict=True
        ):
            abstract = inputs[k]
            if isinstance(abstract, np.ndarray):
                flat = np.ascontiguousarray(abstract).reshape(-1).view(np.uint8)
                self.values[value] = flat[offset : offset + spec.nbytes].view(spec.dtype).reshape(spec.shape)
            elif isinstance(abstract, Local):
                self.values[value] = Local(abstract.buffer, abstract.offset + offset, spec)
            else:
                return "an alias of what is not in memory"
        return None

    def _make_targets(self, position: int, instruction: Instruction, outputs: list[Spec]) -> list[Local]:
        """Make the places of outputs that are no variables."""
        targets = []
        for value, spec in zip(instruction.outputs, outputs, strict=False):
            targets.append(Local(self.arena(spec.nbytes, position), 0, spec))
            self.values[value] = targets[-1]
        return targets

    def _lay_launches(
        self,
        position: int,
        instruction: Instruction,
        inputs: list[AbstractValue],
        outputs: list[Spec],
        launches: Launches,
        packed: Sequence[PackedConstant],
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
            if operand.kind == "packed":
                return self.packed_constant(packed[operand.index]), operand.offset
            if operand.kind == "state":
                variable = inputs[operand.index]
                assert isinstance(variable, Variable)
                return self.versions.buffer_to_write(variable), operand.offset
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
            self.versions.note_write(variable, position, (first, len(self.pending) - 1))

    def _add_heirs(self, inputs: list[AbstractValue], launches: Launches, heir: Buffer) -> None:
        for k in launches.inplace:
            abstract = inputs[k]
            if (
                isinstance(abstract, Local)
                and abstract.buffer.slot is None
                and abstract.offset == 0
                and _sole(abstract, inputs)
            ):
                abstract.buffer.heirs.append(heir)
                return

    def _lay_break(
        self, position: int, instruction: Instruction, inputs: list[AbstractValue], reason: str
    ) -> None:
        if any(isinstance(abstract, InMemory) for abstract in inputs):
            raise ListsRefusedError(
                f"{instruction.node.name!r} takes a list, and has no native form: {reason}"
            )
        handles = _variables(instruction, inputs)
        if handles and self.around:
            raise RefusedError(
                f"{instruction.node.row.name} takes a variable inside, and has no native form: {reason}"
            )
        specs = self._output_specs(instruction, inputs) if instruction.outputs else []
        outputs: list[tuple[Buffer, Spec] | int] = []
        for k, value in enumerate(instruction.outputs):
            if specs is None or specs[k].dtype == object or instruction.node.op.outputs[k].dtype.is_ref:
                self.values[value] = Object(value)
                outputs.append(value)
            else:
                buffer = self.external(specs[k].nbytes)
                self.break_buffers.append(buffer)
                self.values[value] = Local(buffer, 0, specs[k])
                outputs.append((buffer, specs[k]))
        rebinds = self.versions.break_on(handles)
        if _may_reshape(instruction.node.op):
            for variable in handles:
                if any(
                    self._dims(abstract) != variable.dims for abstract in inputs if abstract is not variable
                ):
                    self.versions.forget_shape(variable)
        self.cost += BREAK_NS + sum(self._bytes(abstract) for abstract in inputs)
        self.pending.append(
            PendingBreak(
                instruction, position, reason, tuple(inputs), tuple(outputs), tuple(handles), rebinds
            )
        )

    def _dims(self, abstract: AbstractValue) -> shapes.Dims:
        spec = self.spec(abstract)
        return None if spec is None else spec.shape

    def _bytes(self, abstract: AbstractValue) -> int:
        spec = self.spec(abstract)
        return 0 if spec is None else spec.nbytes

    def _output_specs(self, instruction: Instruction, inputs: list[AbstractValue]) -> list[Spec] | None:
        """Specs of the outputs; None if a shape is not known."""
        row, op = instruction.node.row, instruction.node.op

        def dims(k: int, abstract: AbstractValue) -> shapes.Dims:
            if isinstance(abstract, Variable) and not op.inputs[k].dtype.is_ref:
                return ()
            spec = self.spec(abstract)
            return (
                spec.shape
                if spec is not None
                else (abstract.shape if isinstance(abstract, np.ndarray) else None)
            )

        def value(k: int) -> Array | None:
            abstract = inputs[k]
            return abstract if isinstance(abstract, np.ndarray) else None

        def partial(k: int) -> shapes.Dims:
            content = value(k)
            return None if content is None else tuple(None if d < 0 else int(d) for d in content.reshape(-1))

        def variable(k: int) -> shapes.Dims:
            abstract = inputs[k]
            return abstract.dims if isinstance(abstract, Variable) else None

        given = [dims(k, abstract) for k, abstract in enumerate(inputs)]
        found = output_dims(row, ShapeContext(op.attrs, given, value, partial, variable))
        specs = []
        for tensor, output in zip(op.outputs, found, strict=True):
            if output is None or None in output:
                return None
            specs.append(Spec(tensor.dtype.numpy, tuple(int(d or 0) for d in output)).check())
        return specs


def _input_refusal(instruction: Instruction, specs: Sequence[Spec]) -> str | None:
    """The reason why a node has no native form whatever its outputs, or None; `specs`: of inputs that memory can hold."""
    if instruction.is_overridden:
        return "a kernel registered for its device"
    if instruction.node.row.native is None or instruction.keeps_input:  # native rows cannot keep an input
        return "no native kernel"
    if len(specs) < len(instruction.inputs):
        return "an input that memory cannot hold"
    return None


def _output_refusal(specs: Sequence[Spec] | None) -> str | None:
    """The reason why no buffers of a fixed size can hold a node's outputs, if there is one."""
    if specs is None:
        return "an output shape that depends on data"
    if any(spec.dtype == object for spec in specs):
        return "an output that memory cannot hold"
    return None


def _is_of_lists(use: ListUse, inputs: list[AbstractValue], attrs: Attrs) -> bool:
    """Whether an op makes or uses a list that may be in memory; an array of dynamic size is an object, with all its uses."""
    if use.verb is ListVerb.RESERVE and attrs.get("dynamic_size"):
        return False
    if not use.also_tensors and inputs and isinstance(inputs[0], Object):
        return False
    return not use.also_tensors or any(isinstance(abstract, InMemory) for abstract in inputs)


def _variables(instruction: Instruction, inputs: list[AbstractValue]) -> list[Variable]:
    """Return the variables among the inputs of an instruction, and those that its inner instructions use."""
    known = [
        abstract
        for inner in with_inner([instruction])
        if inner.structure is not None
        for abstract in inner.structure.known.values()
    ]
    return list(dict.fromkeys(abstract for abstract in (*inputs, *known) if isinstance(abstract, Variable)))


def _may_reshape(op: Operation) -> bool:
    """Whether the op may leave a variable in another shape than declared: only an unchecked Assign to a reference may."""
    return (
        bool(op.row.writes)
        and op.inputs[op.row.writes[0]].dtype.is_ref
        and op.attrs.get("validate_shape") is False
    )


def _sole(abstract: Local, inputs: list[AbstractValue]) -> bool:
    """Whether no other input reads the same buffer through another view, so that it may be overwritten element by element."""
    return all(
        other.offset == abstract.offset and other.spec.shape == abstract.spec.shape
        for other in inputs
        if isinstance(other, Local) and other.buffer is abstract.buffer
    )
