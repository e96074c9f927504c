"""A node's work as a list of launches: elementwise kernels and reductions over strided views, with scratch memory between them.

Pure. Used by the ops whose native form is a loop of the CPU: see `table`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from math import prod

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.devices.cuda.generated import GeneratedModule
from aioexec.devices.cuda.matrix_product import ProductRow
from aioexec.devices.cuda.ptx import reductions
from aioexec.devices.cuda.ptx.elementwise import positions
from aioexec.devices.cuda.ptx.reductions import Form, Reduction
from aioexec.devices.cuda.ptx.threads import MOST_BLOCKS, THREADS, blocks_for
from aioexec.devices.cuda.rows import SHORT, DeviceRow, elementwise_row
from aioexec.devices.jit.llvm.ir import ITEM_SIZES
from aioexec.errors import UnimplementedError
from aioexec.graph.kernels.kernel import Attrs, ElementwiseKernel, Launch, Operand, Spec
from aioexec.graph.kernels.launches import View, broadcast_strides, c_strides, collapse

HALVES = frozenset({"float16", "bfloat16"})
OUTPUT = Operand("output", 0)

Shape = tuple[int, ...]
Named = tuple[str, View]

FEW_THREADS = 1 << 16
"""Threads below which a GPU is not filled: then the elements of an output are divided into slices."""
SLICE = 256
"""The least number of elements of a slice that a thread combines."""
BLOCK_ELEMENTS = 64
"""The least number of elements of an output, if they are contiguous, for which a whole block combines them."""


def full(operand: Operand, dtype: str, shape: Shape) -> View:
    """An operand that is a C-ordered array of this shape."""
    return View(operand, dtype, c_strides(shape, ITEM_SIZES[dtype]))


def spread(operand: Operand, dtype: str, shape: Shape, to: Shape) -> View:
    """An operand of this shape as one that is broadcast to another."""
    return View(operand, dtype, broadcast_strides(shape, ITEM_SIZES[dtype], to))


def wide(dtype: str) -> str:
    """The dtype in which values of a dtype are computed with."""
    return "float32" if dtype in HALVES else dtype


class Program:
    """Launches in order, and the bytes of each scratch buffer that they use."""

    def __init__(self) -> None:
        self.rows: list[DeviceRow | ProductRow] = []
        self.scratch: list[int] = []

    def space(self, dtype: str, shape: Shape) -> View:
        """New scratch memory for a C-ordered array."""
        self.scratch.append(max(prod(shape), 1) * ITEM_SIZES[dtype])
        return full(Operand("scratch", len(self.scratch) - 1), dtype, shape)

    def zeros(self, spec: Spec, operand: Operand = OUTPUT) -> None:
        """Add a kernel that writes zeros to all of an operand."""
        self.elementwise("y = 0", [], [("y", full(operand, spec.dtype.name, spec.shape))], spec.shape)

    def elementwise(self, body: str, inputs: Sequence[Named], outputs: Sequence[Named], shape: Shape) -> None:
        """Add an elementwise kernel over `shape`, which may use `at<d>`, the index in dimension d."""
        if 0 in shape:
            return
        views = [view for _, view in (*inputs, *outputs)]
        dims, strides = shape, [view.strides for view in views]
        if not positions(body):
            dims, strides = collapse(shape, strides)
        kernel = ElementwiseKernel(
            body,
            tuple((name, view.dtype) for name, view in inputs),
            tuple((name, view.dtype) for name, view in outputs),
            "x" * len(views),
        )
        words = (len(dims), *dims, *(step for each in strides for step in each))
        operands = tuple(view.operand for view in views)
        self.rows.append(elementwise_row(Launch(kernel, operands, words), kernel))

    def reduce(
        self,
        reduction: Reduction,
        inputs: Sequence[View],
        output: View,
        shape: Shape,
        axes: Collection[int],
    ) -> None:
        """Add a reduction of `shape` over some axes.

        Args:
            inputs: the inputs of `reduction`, with a stride for each dimension.
            output: with a stride for each dimension that is kept.
        """
        kept = [axis for axis in range(len(shape)) if axis not in axes]
        reduced = [axis for axis in range(len(shape)) if axis in axes]
        outer, outer_strides = collapse(
            tuple(shape[axis] for axis in kept),
            [*(tuple(view.strides[axis] for axis in kept) for view in inputs), output.strides],
        )
        inner, inner_strides = collapse(
            tuple(shape[axis] for axis in reduced),
            [tuple(view.strides[axis] for axis in reduced) for view in inputs],
        )
        outputs, count = prod(outer), prod(inner)
        if outputs == 0:
            return
        if max(outputs, count) >= SHORT:
            raise UnimplementedError(f"a reduction of shape {list(shape)} is too large for GPUs")
        row = _Row(
            reduction,
            tuple(view.operand for view in inputs),
            tuple(tuple(outer_strides[k]) + tuple(inner_strides[k]) for k in range(len(inputs))),
            outer,
            inner,
            by_blocks=count >= BLOCK_ELEMENTS
            and _is_contiguous(inputs[0].dtype, inner_strides[0], outer_strides[0]),
        )
        slices = row.slices()
        if slices == 1:
            self.rows.append(row.launch(reduction.finish, output.operand, tuple(outer_strides[-1])))
            return
        partial = self.space(reduction.dtype, (slices, outputs))
        kind, size = reduction.dtype, ITEM_SIZES[reduction.dtype]
        flat = c_strides(outer, size)
        first = Reduction(
            reduction.map, reduction.combine, "y = c", reduction.inputs, kind, kind, reduction.identity
        )
        divided = _Row(first, row.operands, row.strides, outer, inner, row.by_blocks)
        self.rows.append(divided.launch("y = c", partial.operand, flat, slices))
        second = Reduction(
            "z = x",
            reduction.combine,
            reduction.finish,
            (("x", kind),),
            kind,
            reduction.output,
            reduction.identity,
        )
        joined = _Row(
            second, (partial.operand,), ((*flat, outputs * size),), outer, (slices,), by_blocks=False
        )
        self.rows.append(
            joined.launch(reduction.finish, output.operand, tuple(outer_strides[-1]), count=count)
        )


def _is_contiguous(dtype: str, inner: Sequence[int], outer: Sequence[int]) -> bool:
    """Whether neighbouring elements are combined, rather than elements of neighbouring outputs."""
    return inner[-1] == ITEM_SIZES[dtype] or outer[-1] != ITEM_SIZES[dtype]


@dataclass(frozen=True, slots=True)
class _Row:
    """A reduction of concrete dimensions; `strides` are those of each input, for the kept and then the reduced ones."""

    reduction: Reduction
    operands: tuple[Operand, ...]
    strides: tuple[tuple[int, ...], ...]
    kept: Shape
    reduced: Shape
    by_blocks: bool

    def slices(self) -> int:
        """The number of slices into which the elements of each output are divided."""
        outputs, count = prod(self.kept), prod(self.reduced)
        workers = outputs * THREADS if self.by_blocks else outputs
        least = SLICE * 8 if self.by_blocks else SLICE
        return max(1, min(-(-FEW_THREADS // workers), -(-count // least)))

    def launch(
        self, finish: str, output: Operand, strides: Sequence[int], slices: int = 1, count: int | None = None
    ) -> DeviceRow:
        """The launch that writes an output for each slice; those of one slice after those of another.

        Args:
            count: the elements of each output, for `finish`, if they were combined by another launch before.
        """
        outputs, elements = prod(self.kept), prod(self.reduced)
        form = Form(len(self.kept), len(self.reduced), self.by_blocks)
        part = max(-(-elements // slices), 1)
        words = (
            *(outputs, elements, part, outputs * ITEM_SIZES[self.reduction.output]),
            elements if count is None else count,
            *self.kept,
            *self.reduced,
            *(step for each in self.strides for step in each),
            *strides,
        )
        blocks = min(outputs, MOST_BLOCKS) if self.by_blocks else blocks_for(outputs)
        return DeviceRow(
            reduction_module(self.reduction, form),
            (blocks, slices, 1),
            THREADS,
            0,
            (*self.operands, output),
            (False,) * len(self.operands) + (True,),
            tuple(map(np.int64, words)),
        )


@functools.cache
def reduction_module(reduction: Reduction, form: Form) -> GeneratedModule:
    return GeneratedModule(
        f"{reduction.map}; {reduction.combine}",
        reductions.ENTRY,
        functools.partial(reductions.emit, reduction, form),
    )


Binder = Callable[[Attrs, Sequence[Spec], Sequence[Spec]], "Program | None"]
"""(attributes, input specs, output specs) to launches; None if there are none for them."""
