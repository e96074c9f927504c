"""Lays out lists of tensors: stacks, tensor arrays and lists whose elements have one shape are in memory, their ops are rows.

A growing list starts without capacity; a push that finds none enlarges it first, in Python. The list must
be made in the same program, and not be visible outside: otherwise `ListsRefusedError` is raised, and the item is laid out again
with lists as objects.

If lists are values, an op that changes one yields another list. Both share one memory, so the old one must not be used later.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.data_classes import dataclass
from aioexec.errors import InvalidArgumentError
from aioexec.graph.kernels.kernel import Kernel, Launch, ListUse, ListVerb, Operand, Spec
from aioexec.planning.instruction import Instruction
from aioexec.planning.layout.buffers import Buffer, Local
from aioexec.planning.layout.list_launches import (
    BLANKS,
    CLEAR,
    INFERS,
    RESERVE,
    RESET,
    SETS_SHAPE,
    UNSET_ALL,
    ZEROS,
    add_list_kernel,
    append_kernel,
    count_kernel,
    pop_kernel,
    read_all_kernel,
    read_kernel,
    write_all_kernel,
    write_kernel,
)
from aioexec.planning.layout.pending import (
    AbstractValue,
    InMemory,
    Label,
    ListsRefusedError,
    PendingGrow,
    PendingJump,
    PendingOperand,
    PendingRow,
    Slab,
)
from aioexec.planning.layout.state import LayoutState
from aioexec.resources.tensor_list import element_dims, encoded_shape

_LONGEST = 1 << 24
"""The most bytes of a list of fixed length in memory; a longer one is an object."""
_WORD = 8


def lay_list(
    layout: LayoutState, position: int, instruction: Instruction, inputs: list[AbstractValue]
) -> None:
    """Append the rows of an op on a list, and set its outputs.

    Raises:
        ListsRefusedError: the list cannot be in memory.
    """
    use = instruction.node.row.lists
    assert use is not None
    _Verb(layout, position, instruction, inputs, use).lay()


@dataclass(slots=True)
class _Verb:
    layout: LayoutState
    position: int
    instruction: Instruction
    inputs: list[AbstractValue]
    use: ListUse

    def lay(self) -> None:
        made = {
            ListVerb.EMPTY: self._empty,
            ListVerb.RESERVE: self._reserve,
            ListVerb.FROM_TENSOR: self._from_tensor,
        }.get(self.use.verb)
        if made is not None:
            self._finish(made(), None)
            return
        if self.use.verb is ListVerb.ADD:
            self._finish(self._sum([self._in_memory(abstract) for abstract in self.inputs]), None)
            return
        slab = self._in_memory(self.inputs[0])
        if self.use.verb is ListVerb.ZEROS_LIKE:
            self._finish(self._zeros_like(slab), None)
            return
        self._check_use(slab)
        self._verb(slab)

    def _in_memory(self, abstract: AbstractValue) -> Slab:
        if not isinstance(abstract, InMemory):
            raise ListsRefusedError(f"{self.instruction.node.name!r} uses a list that is not in memory")
        slab = abstract.slab
        if slab.is_value and abstract.version != slab.version:
            raise ListsRefusedError(f"{self.instruction.node.name!r} uses an earlier version of a list")
        for buffer in slab.buffers():
            self.layout.note_use(Local(buffer, 0, _BYTES), self.position)
        return slab

    def _check_use(self, slab: Slab) -> None:
        """Refuse uses that the reference kernels reject, or handle differently."""
        attrs = self.instruction.node.op.attrs
        dtypes = [attrs[name] for name in _DTYPE_ATTRS if name in attrs]
        if any(dtype.base_dtype.numpy != slab.dtype for dtype in dtypes):
            raise ListsRefusedError("another dtype than that of the elements")
        if slab.closed:
            raise ListsRefusedError("a list that is closed")
        if attrs.get("resize_if_index_out_of_bounds") or attrs.get("num_elements", -1) not in (
            -1,
            slab.count,
        ):
            raise ListsRefusedError("another number of elements")
        if slab.element is not None and not shapes.compatible(self._declared_shape(), slab.element.shape):
            raise ListsRefusedError("another shape than that of the elements")

    def _declared_shape(self) -> shapes.Dims:
        """The element shape that the node declares."""
        if self.use.shape < 0:
            return self.instruction.node.op.attrs.get("element_shape")
        operand = self.inputs[self.use.shape]
        try:
            return element_dims(operand) if isinstance(operand, np.ndarray) else None
        except InvalidArgumentError as error:
            raise ListsRefusedError(error.message) from error

    def _verb(self, slab: Slab) -> None:
        verb = self.use.verb
        if verb is ListVerb.PUSH:
            self._push(slab)
        elif verb is ListVerb.POP:
            self._finish(slab, self._pop(slab))
        elif verb is ListVerb.READ:
            self._finish(slab, self._read(slab))
        elif verb is ListVerb.WRITE:
            self._write(slab)
        elif verb is ListVerb.READ_ALL:
            self._finish(slab, self._read_all(slab))
        elif verb is ListVerb.WRITE_ALL:
            self._write_all(slab)
        elif verb is ListVerb.LENGTH:
            self._finish(slab, self._length(slab))
        elif verb is ListVerb.ELEMENT_SHAPE:
            self._finish(slab, encoded_shape(slab.dims, self.instruction.node.op.outputs[0].dtype.numpy))
        elif verb is ListVerb.CLOSE:
            slab.closed = True
        elif verb is ListVerb.GRADIENT:
            self._finish(self._gradient(slab), None)

    # Creation

    def _empty(self) -> Slab:
        limit = self.inputs[self.use.size]
        if not isinstance(limit, np.ndarray) or limit.shape != ():
            raise ListsRefusedError("a list with a limit that is known only in the step")
        layout = self.layout
        slab = self._slab(None)
        slab.limit = max(int(limit), -1)
        slab.storage = layout.external(0)
        layout.break_buffers.append(slab.storage)
        slab.length, slab.room = layout.arena(_WORD, self.position), layout.arena(_WORD, self.position)
        self._row(RESET, [(slab.length, 0), (slab.room, 0)], ())
        return slab

    def _slab(self, count: int | None) -> Slab:
        dtype = self.instruction.node.op.attrs[self.use.dtype].base_dtype.numpy
        if dtype.name not in _DTYPES:
            raise ListsRefusedError(f"elements of dtype {dtype.name}")
        if self.use.shape >= 0 and not isinstance(self.inputs[self.use.shape], np.ndarray):
            raise ListsRefusedError("elements of a shape that is known only in the step")
        declared = self._declared_shape()
        zeros = ZEROS if shapes.is_fully_defined(declared) else INFERS if self.use.zeros else 0
        slab = Slab(dtype, count, self.use.is_value, self.use.writes_once, zeros, dims=declared)
        self.layout.slabs.append(slab)
        return slab

    def _reserve(self) -> Slab:
        size, attrs = self.inputs[self.use.size], self.instruction.node.op.attrs
        if not isinstance(size, np.ndarray) or size.shape != () or int(size) < 0:
            raise ListsRefusedError("a list whose length is known only in the step")
        if attrs.get("dynamic_size"):
            raise ListsRefusedError("an array of dynamic size")
        slab = self._slab(int(size))
        slab.clears = bool(attrs.get("clear_after_read"))
        if attrs.get("identical_element_shapes"):
            slab.zeros |= INFERS
        self._place_fixed(slab)
        for source in () if slab.is_value else self.layout.gradient_sources:
            slab.gradients[source] = self._gradient_list(slab)
        return slab

    def _gradient_list(self, slab: Slab) -> Slab:
        """Lists of gradients are made with the list itself, since their first use may be inside of a loop."""
        made = Slab(
            slab.dtype, slab.count, slab.is_value, writes_once=False, zeros=slab.zeros, adds=True, clears=True
        )
        self.layout.slabs.append(made)
        self._place_fixed(made)
        return made

    def _place_fixed(self, slab: Slab) -> None:
        assert slab.count is not None
        slab.storage = self.layout.arena(0, self.position)
        slab.flags = self.layout.arena(slab.count + 1, self.position)
        if slab.count:
            self._row(UNSET_ALL, [(slab.flags, 0)], (slab.count,))

    def _from_tensor(self) -> Slab:
        spec = self._value_spec()
        if not spec.shape:
            raise ListsRefusedError("a list of the rows of a scalar")
        slab = self._slab(spec.shape[0])
        self._place_fixed(slab)
        self._rows_of(slab, spec)
        return slab

    def _zeros_like(self, slab: Slab) -> Slab:
        if slab.count is None:
            raise ListsRefusedError("zeros for each element of a growing list")
        made = Slab(
            slab.dtype, slab.count, slab.is_value, writes_once=False, zeros=slab.zeros, dims=slab.dims
        )
        self.layout.slabs.append(made)
        self._place_fixed(made)
        if slab.element is not None:
            self._set_or_check_spec(made, slab.element)
            self._mark_zeros(made, slab)
        return made

    def _sum(self, slabs: list[Slab]) -> Slab:
        """Add all lists to the one that was made first, which is the loop variable."""
        first, *others = sorted(slabs, key=self.layout.slabs.index)
        storage, flags, count = self._require_fixed(first)
        self._change(first)
        for other in others:
            if other is first or other.count != count or other.dtype != first.dtype:
                raise ListsRefusedError("a sum of a list and itself, or of lists that do not fit")
            if other.element is None:
                continue
            self._set_or_check_spec(first, other.element)
            other_storage, other_flags, _ = self._require_fixed(other)
            operands = [(storage, 0), (flags, 0), (other_storage, 0), (other_flags, 0)]
            self._row(add_list_kernel(_name(first.dtype)), operands, (count, other.element.size))
        return first

    # Growing lists

    def _push(self, slab: Slab) -> None:
        value = self.inputs[self.use.value]
        if slab.count is not None:
            raise ListsRefusedError("a push to a list of fixed length")
        if isinstance(value, np.ndarray) and value.dtype != object and slab.element is None:
            slab.element, slab.known = Spec(value.dtype, value.shape), value
        else:
            spec = self._value_spec()
            if slab.known is not None:
                raise ListsRefusedError("a list of a constant and of something else")
            self._set_or_check_spec(slab, spec)
        self._change(slab)
        assert slab.length is not None
        assert slab.room is not None
        assert slab.element is not None
        assert slab.storage is not None
        element = Spec(slab.element.dtype, slab.element.shape) if slab.known is None else _BYTES
        size = element.size if slab.known is None else 0
        nbytes = max(size * element.dtype.itemsize, 1)
        begin, after = Label(len(self.layout.pending)), Label()
        self._row(RESERVE, [(slab.length, 0), (slab.room, 0)], (0,), after)
        grow = PendingGrow(slab.storage, slab.length, slab.room, nbytes, slab.limit, self.position)
        self.layout.pending += [grow, PendingJump(begin, None, self.position)]
        after.row = len(self.layout.pending)
        operands = [(slab.storage, 0), (slab.length, 0), self._operand(self.use.value)]
        self._row(append_kernel(_name(slab.dtype)), operands, (size,))
        self._finish(slab, value)

    def _pop(self, slab: Slab) -> AbstractValue:
        if slab.element is None or slab.length is None or slab.storage is None:
            raise ListsRefusedError("a pop from a list whose elements are not known")
        self._change(slab)
        result = self._result(slab.element)
        size = slab.element.size if slab.known is None else 0
        operands = [(slab.storage, 0), (slab.length, 0), (result.buffer, 0)]
        self._row(pop_kernel(_name(slab.dtype)), operands, (size,))
        return result if slab.known is None else slab.known

    def _length(self, slab: Slab) -> AbstractValue:
        if slab.count is not None:
            return np.array(slab.count, np.int32)
        assert slab.length is not None
        result = self._result(Spec(np.dtype(np.int32), ()))
        self._row(count_kernel("int32"), [(slab.length, 0), (result.buffer, 0)], ())
        return result

    # Lists of fixed length

    def _require_fixed(self, slab: Slab) -> tuple[Buffer, Buffer, int]:
        if slab.count is None or slab.storage is None or slab.flags is None:
            raise ListsRefusedError("an element by index of a growing list")
        return slab.storage, slab.flags, slab.count

    def _require_known(self, slab: Slab) -> Spec:
        if slab.element is None:
            raise ListsRefusedError("a read from a list whose elements are not known")
        return slab.element

    def _read(self, slab: Slab) -> AbstractValue:
        storage, flags, count = self._require_fixed(slab)
        element = self._require_known(slab)
        result = self._result(element)
        kernel = read_kernel(_name(slab.dtype), self._index())
        operands = [(storage, 0), (flags, 0), self._operand(self.use.index), (result.buffer, 0)]
        self._row(kernel, operands, (count, element.size, self._read_flags(slab)))
        return result

    def _write(self, slab: Slab) -> None:
        storage, flags, count = self._require_fixed(slab)
        self._set_or_check_spec(slab, self._value_spec())
        self._change(slab)
        kernel = write_kernel(_name(slab.dtype), self._index(), slab.adds)
        operands = [(storage, 0), (flags, 0), self._operand(self.use.index), self._operand(self.use.value)]
        self._row(kernel, operands, (count, self._require_known(slab).size, *_again(slab)))
        self._finish(slab, None)

    def _read_all(self, slab: Slab) -> AbstractValue:
        storage, flags, count = self._require_fixed(slab)
        element = self._require_known(slab)
        self._check_all(count)
        if not count and not self._determines_shape(slab):
            raise ListsRefusedError("all elements of an empty list of unknown shapes")
        result = self._result(Spec(element.dtype, (count, *element.shape)))
        if count:
            operands = [(storage, 0), (flags, 0), (result.buffer, 0)]
            self._row(
                read_all_kernel(_name(slab.dtype)), operands, (count, element.size, self._read_flags(slab))
            )
        return result

    def _determines_shape(self, slab: Slab) -> bool:
        """Whether this read determines the shape of unset elements; for list values, together with their dims."""
        declared = self._declared_shape()
        return shapes.is_fully_defined(shapes.merge(declared, slab.dims) if slab.is_value else declared)

    def _read_flags(self, slab: Slab) -> int:
        given = 0
        if self._determines_shape(slab):
            given = ZEROS if slab.is_value else ZEROS | SETS_SHAPE
        return slab.zeros | CLEAR * slab.clears | given

    def _write_all(self, slab: Slab) -> None:
        _, _, count = self._require_fixed(slab)
        self._check_all(count)
        spec = self._value_spec()
        if spec.shape[:1] != (count,):
            raise ListsRefusedError("another number of rows than elements")
        self._change(slab)
        self._rows_of(slab, spec)
        self._finish(slab, None)

    def _rows_of(self, slab: Slab, spec: Spec) -> None:
        storage, flags, count = self._require_fixed(slab)
        self._set_or_check_spec(slab, Spec(spec.dtype, spec.shape[1:]))
        if count:
            operands = [(storage, 0), (flags, 0), self._operand(self.use.value)]
            words = (count, self._require_known(slab).size, *_again(slab))
            self._row(write_all_kernel(_name(slab.dtype), slab.adds), operands, words)

    def _check_all(self, count: int) -> None:
        """Check that the indices are those of all elements, in order."""
        indices = self.inputs[self.use.index] if self.use.index >= 0 else np.arange(count)
        if not isinstance(indices, np.ndarray) or not np.array_equal(indices, np.arange(count)):
            raise ListsRefusedError("indices other than those of all elements, in order")

    def _gradient(self, slab: Slab) -> Slab:
        made = slab.gradients.get(self.instruction.node.op.attrs["source"])
        if made is None or slab.element is None:
            raise ListsRefusedError("a list of gradients of an unknown list")
        self._set_or_check_spec(made, slab.element)
        self._mark_zeros(made, slab)
        for buffer in made.buffers():
            self.layout.note_use(Local(buffer, 0, _BYTES), self.position)
        return made

    def _mark_zeros(self, made: Slab, slab: Slab) -> None:
        """Mark elements of a list as zeros where another list has elements."""
        if slab.count and not made.zeros & ZEROS:
            _, flags, _ = self._require_fixed(made)
            _, others, _ = self._require_fixed(slab)
            self._row(BLANKS, [(flags, 0), (others, 0)], (slab.count,))

    # Common parts

    def _value_spec(self) -> Spec:
        spec = self.layout.spec(self.inputs[self.use.value])
        if spec is None:
            raise ListsRefusedError("an element that memory cannot hold")
        return spec

    def _set_or_check_spec(self, slab: Slab, spec: Spec) -> None:
        """Set or check the spec of the elements, which is the same for all."""
        if slab.element is None:
            slab.element = Spec(spec.dtype, spec.shape)
            if slab.count is not None and slab.storage is not None:
                slab.storage.nbytes = slab.count * spec.nbytes
                if slab.storage.nbytes > _LONGEST:
                    raise ListsRefusedError("a list of too many bytes")
        if (slab.element.dtype, slab.element.shape) != (spec.dtype, spec.shape) or spec.dtype != slab.dtype:
            raise ListsRefusedError("elements of several shapes")
        if not shapes.compatible(slab.dims, spec.shape):
            raise ListsRefusedError("an element of another shape than was declared")

    def _change(self, slab: Slab) -> None:
        """Make the next version of a list value; the present one must not be used any more."""
        if not slab.is_value:
            return
        for value, abstract in self.layout.values.items():
            is_old = (
                isinstance(abstract, InMemory) and abstract.slab is slab and abstract.version == slab.version
            )
            if is_old and self.layout.last_use.get(value, -1) > self.position:
                raise ListsRefusedError("a list whose earlier version is needed")
        slab.version += 1

    def _finish(self, slab: Slab, value: AbstractValue | None) -> None:
        """Set the outputs."""
        outputs = self.instruction.outputs
        for output, kind in zip(outputs, self.use.outputs, strict=True):
            if kind == "list":
                self.layout.values[output] = InMemory(slab, slab.version)
            elif kind == "flow":
                self.layout.values[output] = (
                    self.inputs[self.use.flow] if self.use.flow >= 0 else np.zeros((), np.float32)
                )
            else:
                assert value is not None
                self.layout.values[output] = value

    def _index(self) -> str:
        spec = self.layout.spec(self.inputs[self.use.index])
        if spec is None or spec.size != 1 or spec.dtype.name not in ("int32", "int64"):
            raise ListsRefusedError("an index that memory cannot hold")
        return spec.dtype.name

    def _operand(self, k: int) -> PendingOperand:
        return self.layout.address(self.position, self.instruction, self.inputs[k])

    def _result(self, spec: Spec) -> Local:
        return Local(self.layout.arena(spec.nbytes, self.position), 0, Spec(spec.dtype, spec.shape))

    def _row(
        self, kernel: Kernel, places: list[PendingOperand], words: tuple[int, ...], after: Label | None = None
    ) -> None:
        if kernel in self.layout.refused:
            raise ListsRefusedError("its kernel is not compiled")
        operands = tuple(Operand("scratch", k) for k in range(len(places)))
        cost = 10 + prod(words[:2]) // 8
        launch = Launch(kernel, operands, words, cost=cost)
        self.layout.cost += cost
        self.layout.pending.append(PendingRow(launch, tuple(places), self.position, after))


_DTYPE_ATTRS = ("dtype", "T", "element_dtype", "elem_type")
_DTYPES = frozenset({"float32", "float64", "int32", "int64", "bool"})
_BYTES = Spec(np.dtype(np.uint8), (1,))


def _name(dtype: np.dtype[Any]) -> str:
    return dtype.name


def _again(slab: Slab) -> tuple[int, ...]:
    return () if slab.adds else (int(not slab.writes_once),)
