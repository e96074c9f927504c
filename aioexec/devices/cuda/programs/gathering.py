"""Programs of gather, scatter, one-hot and segment sums: see `ptx.indexed`.

Sums at indices that occur twice are added in any order. An index outside the table is no error: see there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.devices.cuda.generated import GeneratedModule
from aioexec.devices.cuda.programs.program import OUTPUT, Binder, Program, full
from aioexec.devices.cuda.programs.reducing import highest_finite, lowest_finite
from aioexec.devices.cuda.ptx import indexed
from aioexec.devices.cuda.ptx.indexed import GATHER, STORE, Indexed
from aioexec.devices.cuda.ptx.threads import THREADS, blocks_for
from aioexec.devices.cuda.rows import SHORT, DeviceRow
from aioexec.errors import UnimplementedError
from aioexec.graph.kernels.kernel import Attrs, Operand, Spec
from aioexec.graph.kernels.launches import View, c_strides

Shape = tuple[int, ...]
VERBS = {
    "Update": STORE,
    "Add": "c = a + b",
    "Sub": "c = a - b",
    "Mul": "c = a * b",
    "Div": "c = a / b",
    "Min": "c = minimum(a, b)",
    "Max": "c = maximum(a, b)",
}
_WORDS = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}


@dataclass(frozen=True, slots=True)
class Access:
    """Values, and where they belong in a table.

    Attributes:
        shape: of the values; `values`, `indices` and `table` have a stride for each of its dimensions.
        components: for each component of an index the size of the table's dimension, and its stride.
    """

    shape: Shape
    values: View
    indices: View
    table: View
    components: tuple[tuple[int, int], ...]


def access(program: Program, verb: str, given: Access) -> None:
    """Add a kernel that gathers or scatters; what only moves elements is the same for all dtypes of a size."""
    count = prod(given.shape)
    if not count:
        return
    if count >= SHORT:
        raise UnimplementedError(f"values of shape {list(given.shape)} are too large for GPUs")
    dtype = given.values.dtype
    if verb in (GATHER, STORE):
        dtype = _WORDS[full(OUTPUT, dtype, (1,)).strides[0]]
    shape, strides = (
        given.shape or (1,),
        [each.strides or (0,) for each in (given.values, given.indices, given.table)],
    )
    kernel = Indexed(verb, dtype, given.indices.dtype, len(shape), len(given.components))
    words = (
        count,
        *shape,
        *(step for each in strides for step in each),
        *(n for each in given.components for n in each),
    )
    program.rows.append(
        DeviceRow(
            indexed_module(kernel),
            (blocks_for(count), 1, 1),
            THREADS,
            0,
            (given.values.operand, given.indices.operand, given.table.operand),
            (verb == GATHER, False, verb != GATHER),
            tuple(map(np.int64, words)),
        )
    )


@functools.cache
def indexed_module(kernel: Indexed) -> GeneratedModule:
    name = f"scatter {kernel.verb!r}" if kernel.verb else "gather"
    return GeneratedModule(name, indexed.ENTRY, functools.partial(indexed.emit, kernel))


def bind_gather(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Program | None:
    """The slices of a table along an axis, [batch, outer, axis, inner], at [batch, indices]."""
    table, indices = inputs[:2]
    if len(inputs) > 2 and inputs[2].value is None:
        return None
    axis = int(inputs[2].value) if len(inputs) > 2 else attrs.get("batch_dims", 0)  # type: ignore[arg-type]
    axis %= max(len(table.shape), 1)
    batch_dims = attrs.get("batch_dims", 0) % (len(indices.shape) + 1)
    batch, outer, inner = (
        prod(table.shape[:batch_dims]),
        prod(table.shape[batch_dims:axis]),
        prod(table.shape[axis + 1 :]),
    )
    count, size = prod(indices.shape[batch_dims:]), table.shape[axis]
    shape = (batch, outer, count, inner)
    dtype, index = table.dtype.name, indices.dtype.name
    width, step = table.dtype.itemsize, indices.dtype.itemsize
    program = Program()
    access(
        program,
        GATHER,
        Access(
            shape,
            full(OUTPUT, dtype, shape),
            View(Operand("input", 1), index, (count * step, 0, step, 0)),
            View(
                Operand("input", 0),
                dtype,
                (outer * size * inner * width, size * inner * width, 0, width),
            ),
            ((size, inner * width),),
        ),
    )
    return program


def components_of(shape: Shape, indices: Spec, width: int) -> tuple[int, int, tuple[tuple[int, int], ...]]:
    """For rows of indices into the first dimensions of a table: the rows, the elements of a slice, the components."""
    depth = indices.shape[-1]
    strides = c_strides(shape, width)
    return (
        prod(indices.shape[:-1]),
        prod(shape[depth:]),
        tuple(zip(shape[:depth], strides[:depth], strict=True)),
    )


def bind_gather_nd(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Program | None:
    """The slices that rows of indices select."""
    table, indices = inputs
    program, dtype, width = Program(), table.dtype.name, table.dtype.itemsize
    rows, inner, components = components_of(table.shape, indices, width)
    access(
        program,
        GATHER,
        Access(
            (rows, inner),
            full(OUTPUT, dtype, (rows, inner)),
            View(Operand("input", 1), indices.dtype.name, (len(components) * indices.dtype.itemsize, 0)),
            View(Operand("input", 0), dtype, (0, width)),
            components,
        ),
    )
    return program


def scatter_rows(
    program: Program,
    verb: str,
    target: Operand,
    shape: Shape,
    indices: tuple[Operand, Spec],
    updates: tuple[Operand, Spec],
) -> None:
    """Scatter slices, or one number everywhere, to the rows of a table that indices select."""
    index, update = indices[1], updates[1]
    dtype, width = update.dtype.name, update.dtype.itemsize
    count, inner = index.size, prod(shape[1:])
    access(
        program,
        verb,
        Access(
            (count, inner),
            View(updates[0], dtype, (inner * width, width) if update.shape else (0, 0)),
            View(indices[0], index.dtype.name, (index.dtype.itemsize, 0)),
            View(target, dtype, (0, width)),
            ((shape[0], inner * width),),
        ),
    )


def scatter(verb: str) -> Binder:
    """Scatter to the rows of a variable."""

    def bind(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Program | None:
        state, indices, updates = inputs
        if not state.shape or updates.dtype != state.dtype:
            return None
        program = Program()
        scatter_rows(
            program,
            verb,
            Operand("state", 0),
            state.shape,
            (Operand("input", 1), indices),
            (Operand("input", 2), updates),
        )
        return program

    return bind


def scatter_nd(
    verb: str, target: Callable[[Program, Sequence[Spec], Spec], tuple[Operand, int, int]]
) -> Binder:
    """Scatter to the slices that rows of indices select; `target` prepares the table, and says which inputs are the indices
    and the updates."""

    def bind(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Program | None:
        program = Program()
        table = inputs[0] if target is on_variable else outputs[0]
        place, at, by = target(program, inputs, table)
        indices, updates = inputs[at], inputs[by]
        dtype, width = table.dtype.name, table.dtype.itemsize
        if updates.dtype != table.dtype:
            return None
        rows, inner, components = components_of(table.shape, indices, width)
        access(
            program,
            verb,
            Access(
                (rows, inner),
                full(Operand("input", by), dtype, (rows, inner)),
                View(Operand("input", at), indices.dtype.name, (len(components) * indices.dtype.itemsize, 0)),
                View(place, dtype, (0, width)),
                components,
            ),
        )
        return program

    return bind


def on_variable(program: Program, inputs: Sequence[Spec], table: Spec) -> tuple[Operand, int, int]:
    return Operand("state", 0), 1, 2


def on_copy(program: Program, inputs: Sequence[Spec], table: Spec) -> tuple[Operand, int, int]:
    """The output begins as a copy of input 0."""
    view = full(OUTPUT, table.dtype.name, table.shape)
    program.elementwise(
        "y = x", [("x", full(Operand("input", 0), table.dtype.name, table.shape))], [("y", view)], table.shape
    )
    return OUTPUT, 1, 2


def on_zeros(program: Program, inputs: Sequence[Spec], table: Spec) -> tuple[Operand, int, int]:
    """The output begins as zeros."""
    program.zeros(table)
    return OUTPUT, 0, 1


def segments(verb: str, empty: Callable[[np.dtype[Any]], float | int]) -> Binder:
    """The rows with the same segment combined; those with a negative one are left out. `empty` is what no rows give."""

    def bind(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Program | None:
        data, ids = inputs[:2]
        out, program = outputs[0], Program()
        program.elementwise(
            f"y = {empty(out.dtype)}", [], [("y", full(OUTPUT, out.dtype.name, out.shape))], out.shape
        )
        rows, inner = ids.size, prod(out.shape[1:])
        flat, indices = Spec(data.dtype, (rows, inner)), Spec(ids.dtype, (rows,))
        places = (Operand("input", 1), indices), (Operand("input", 0), flat)
        scatter_rows(program, VERBS[verb], OUTPUT, (out.shape[0], inner), *places)
        return program

    return bind


def bind_one_hot(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Program:
    """One value where the position along the axis is the index, another elsewhere."""
    indices, out = inputs[0], outputs[0]
    axis = attrs["axis"] % len(out.shape)
    outer, depth, inner = prod(out.shape[:axis]), out.shape[axis], prod(out.shape[axis + 1 :])
    step, dtype, program = indices.dtype.itemsize, out.dtype.name, Program()
    shape = (outer, depth, inner)
    scalar = (0, 0, 0)
    program.elementwise(
        "y = where(cast(i, 'int64') == at1, a, b)",
        [
            ("i", View(Operand("input", 0), indices.dtype.name, (inner * step, 0, step))),
            ("a", View(Operand("input", 2), dtype, scalar)),
            ("b", View(Operand("input", 3), dtype, scalar)),
        ],
        [("y", full(OUTPUT, dtype, shape))],
        shape,
    )
    return program


SEGMENTS: tuple[tuple[str, str, Callable[[np.dtype[Any]], float | int]], ...] = (
    ("Sum", "Add", lambda dtype: 0),
    ("Prod", "Mul", lambda dtype: 1),
    ("Min", "Min", highest_finite),
    ("Max", "Max", lowest_finite),
)

BINDERS: dict[str, Binder] = {
    "Gather": bind_gather,
    "GatherV2": bind_gather,
    "ResourceGather": bind_gather,
    "GatherNd": bind_gather_nd,
    "ResourceGatherNd": bind_gather_nd,
    "OneHot": bind_one_hot,
    **{
        name: segments(verb, empty)
        for kind, verb, empty in SEGMENTS
        for name in (f"UnsortedSegment{kind}", f"Segment{kind}V2")
    },
    "ScatterNd": scatter_nd(VERBS["Add"], on_zeros),
    "ScatterNdNonAliasingAdd": scatter_nd(VERBS["Add"], on_copy),
    **{f"{kind}Scatter{name}": scatter(verb) for name, verb in VERBS.items() for kind in ("", "Resource")},
    **{
        f"TensorScatter{name}": scatter_nd(VERBS[name], on_copy)
        for name in ("Update", "Add", "Sub", "Min", "Max")
    },
    **{
        f"{kind}ScatterNd{name}": scatter_nd(VERBS[name], on_variable)
        for name in ("Update", "Add", "Sub", "Min", "Max")
        for kind in ("", "Resource")
    },
}
