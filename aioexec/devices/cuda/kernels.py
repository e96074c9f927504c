"""Kernels for the device type "GPU", made from the native forms of the rows of the op registry.

The kernel of a node binds the native form to the shapes it meets, once for each, and gives the device one launch for each row.
A kernel that updates a variable writes its present buffer if nothing else refers to that, else another one, into which the
present content is copied first unless all of it is replaced. An output that is an input in another shape is the same memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.devices.cuda.event import Accepted, CudaEvent, restore_if_refused
from aioexec.devices.cuda.launch import Address
from aioexec.devices.cuda.matrix_product import ProductRow
from aioexec.devices.cuda.programs.binding import bind
from aioexec.devices.cuda.programs.table import BINDERS, program_of
from aioexec.devices.cuda.rows import DeviceRow
from aioexec.devices.row_kernels import ASSIGNS, known_shape, output_shapes
from aioexec.errors import UnimplementedError
from aioexec.graph.kernels.device_kernel import Launcher
from aioexec.graph.kernels.kernel import Alias, KernelContext, Spec
from aioexec.graph.registry import Row
from aioexec.resources.buffer import Buffer, Event
from aioexec.resources.device_variable import DeviceVariable
from aioexec.resources.variable import Variable

MOST_SHAPES = 64
"""Combinations of shapes whose rows a kernel keeps."""
LONGEST_KEY = 64
"""Elements of an operand in main memory that is compared by content; longer ones have the rows laid out each time."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A node with concrete shapes.

    Attributes:
        outputs: dtype and shape of each output that is not a reference.
        states: inputs that are variables with a new content, and its shape and dtype.
        copied: those of them that have the present content when the rows begin.
        view_of: the input of which the only output is a view; there are no rows then.
    """

    outputs: tuple[tuple[np.dtype[Any], tuple[int, ...]], ...]
    rows: tuple[DeviceRow | ProductRow, ...]
    scratch: tuple[int, ...] = ()
    states: dict[int, Spec] = field(default_factory=dict)
    copied: frozenset[int] = frozenset()
    view_of: int | None = None


class GpuKernel:
    """The kernel of one node; the event loop calls it.

    Changing: `_bound`, what was laid out so far, by shapes and the content of operands in main memory.
    """

    def __init__(self, row: Row, context: KernelContext) -> None:
        self._row = row
        self._attrs = context.attrs
        self._dtypes = list(context.output_dtypes)
        self._takes_reference = [dtype.is_ref for dtype in context.input_dtypes]
        self._bound: dict[Any, Bound] = {}

    def __call__(self, launcher: Launcher, *inputs: Any) -> Any:
        bound = self._find(inputs)
        if bound.view_of is not None:
            return launcher.view(inputs[bound.view_of], *bound.outputs[0])
        # Before any other name for a content: only one that nothing else refers to is written.
        states = {
            k: launcher.next_content(inputs[k], spec.dtype, spec.shape, keep=k in bound.copied)
            for k, spec in bound.states.items()
        }
        before = {k: each.ready for k, each in states.items() if each is content_of(inputs[k])}
        first: dict[int, Event] = {}
        made = [launcher.allocate(*each) for each in bound.outputs]
        scratch = [launcher.allocate(np.dtype(np.uint8), (nbytes,)) for nbytes in bound.scratch]
        memory: dict[tuple[str, int], Any] = {
            **{("input", k): content_of(each) for k, each in enumerate(inputs)},
            **{("output", k): each for k, each in enumerate(made)},
            **{("scratch", k): each for k, each in enumerate(scratch)},
            **{("state", k): each for k, each in states.items()},
            **{("input", k): states[k] for k in bound.copied},
        }
        for row in bound.rows:
            give(launcher, row, memory)
            first = {k: states[k].ready for k in before if states[k].ready is not before[k]} | first
        for k in first:
            restore_if_refused(states[k], before[k], first[k])
        for k, buffer in states.items():
            inputs[k].replace(buffer, self._attrs.get("validate_shape", True), accepted(buffer.ready))
        return self._results(inputs, made)

    def _results(self, inputs: Sequence[Any], made: Sequence[Buffer]) -> Any:
        buffers = iter(made)
        outputs = [inputs[0] if dtype.is_ref else next(buffers) for dtype in self._dtypes]
        return outputs[0] if len(outputs) == 1 else tuple(outputs) if outputs else None

    def _find(self, inputs: Sequence[Any]) -> Bound:
        key = key_of(inputs)
        found = None if key is None else self._bound.get(key)
        if found is None:
            found = self.lay_out(inputs)
            if key is not None:
                if len(self._bound) >= MOST_SHAPES:
                    self._bound.clear()
                self._bound[key] = found
        return found

    def lay_out(self, inputs: Sequence[Any]) -> Bound:
        """Bind the node to the shapes of inputs.

        Raises:
            UnimplementedError: there is no GPU kernel for them.
        """
        row = self._row
        shapes = output_shapes(row, self._attrs, inputs, self._takes_reference)
        outputs = [
            Spec(dtype.numpy, known_shape(row, shape))
            for dtype, shape in zip(self._dtypes, shapes, strict=True)
            if not dtype.is_ref
        ]
        specs = [self._spec(k, inputs) for k in range(len(inputs))]
        all_outputs = [
            Spec(dtype.base_dtype.numpy, shape or ())
            for dtype, shape in zip(self._dtypes, shapes, strict=True)
        ]
        view_of = self._view_of(inputs, specs, all_outputs)
        if view_of is not None:
            return Bound(((outputs[0].dtype, outputs[0].shape),), (), view_of=view_of)
        program = program_of(row, self._attrs, specs, all_outputs)
        if program is None or reads_main_memory(program.rows, inputs):
            given = ", ".join(f"{spec.dtype}{list(spec.shape)}" for spec in specs)
            raise UnimplementedError(
                f"{row.name} has no kernel for GPUs for {given}; place it on the CPU with device('/cpu:0')"
            )
        states = {k: Spec(specs[k].dtype, specs[k].shape) for k in row.writes}
        copied = frozenset(k for k, spec in states.items() if not self._is_replaced(k, spec, program.rows))
        made = tuple((spec.dtype, spec.shape) for spec in outputs)
        return Bound(made, tuple(program.rows), tuple(program.scratch), states, copied)

    def _view_of(self, inputs: Sequence[Any], specs: Sequence[Spec], outputs: Sequence[Spec]) -> int | None:
        """The input of which the only output is a view, if any."""
        row = self._row
        if row.name in BINDERS or row.native is None or row.writes or len(outputs) != 1:
            return None
        found = bind(row, self._attrs, specs, outputs)
        if not isinstance(found, Alias) or found.offsets != (0,):
            return None
        (k,) = found.inputs
        is_whole = specs[k].nbytes == outputs[0].nbytes
        return k if is_whole and not isinstance(inputs[k], np.ndarray | Variable) else None

    def _spec(self, k: int, inputs: Sequence[Any]) -> Spec:
        """The dtype and shape of an input: of a variable those of its value, or of the value it gets."""
        value = inputs[k]
        if isinstance(value, np.ndarray):
            return Spec(value.dtype, value.shape, value)
        if isinstance(value, Variable):
            value = inputs[1] if self._row.name in ASSIGNS else content_of(value)
        return Spec(value.dtype, value.shape)

    def _is_replaced(self, k: int, spec: Spec, rows: Sequence[DeviceRow | ProductRow]) -> bool:
        """Whether a variable's content is written once, as a whole, by the only row."""
        if self._row.name in ASSIGNS or not spec.size:
            return True
        if len(rows) != 1:
            return False
        (row,) = rows
        return row.covers == spec.size and any(
            operand.kind == "state" and operand.index == k and written
            for operand, written in zip(row.operands, row.written, strict=True)
        )


def accepted(work: Event) -> Event:
    """The event after which work on a GPU fails only if that is lost: a variable keeps its old content no longer."""
    return Accepted(work) if isinstance(work, CudaEvent) else work


def reads_main_memory(rows: Sequence[DeviceRow | ProductRow], inputs: Sequence[Any]) -> bool:
    """Whether rows read an input that is in main memory."""
    return any(
        operand.kind == "input" and isinstance(inputs[operand.index], np.ndarray)
        for row in rows
        for operand in row.operands
    )


def key_of(inputs: Sequence[Any]) -> Any:
    """What the layout of a node depends on; None if it is too large to be compared."""
    parts: list[Any] = []
    for each in inputs:
        if isinstance(each, np.ndarray):
            if each.size > LONGEST_KEY:
                return None
            parts.append((each.shape, each.tobytes()))
        elif isinstance(each, DeviceVariable):
            parts.append(each.content().shape if each.is_initialized else None)
        else:
            parts.append(each.shape)
    return tuple(parts)


def content_of(value: Any) -> Any:
    """The buffer of a variable, None if it has none yet; any other value as it is."""
    if isinstance(value, DeviceVariable):
        return value.content() if value.is_initialized else None
    return value


def give(launcher: Launcher, row: DeviceRow | ProductRow, memory: dict[tuple[str, int], Any]) -> None:
    """Give the device the work of a row."""
    buffers = [memory[operand.kind, operand.index] for operand in row.operands]
    places = [
        Address(buffer, operand.offset) if operand.offset else buffer
        for buffer, operand in zip(buffers, row.operands, strict=True)
    ]
    reads = [buffer for buffer, written in zip(buffers, row.written, strict=True) if not written]
    writes = [buffer for buffer, written in zip(buffers, row.written, strict=True) if written]
    launcher.launch(row.work(places), reads, writes)
