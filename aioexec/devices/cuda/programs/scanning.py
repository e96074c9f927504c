"""Programs of cumulative sums and products: in step d each element is combined with the one d before it, d = 1, 2, 4, ..."""

from __future__ import annotations

from collections.abc import Sequence

from aioexec.devices.cuda.programs.program import Binder, Program, full, wide
from aioexec.graph.kernels.kernel import Attrs, Operand, Spec
from aioexec.graph.kernels.launches import View

Shape = tuple[int, ...]


def moved(view: View, axis: int, count: int) -> View:
    """The view from an element on, along an axis."""
    operand = view.operand
    place = operand.offset + count * view.strides[axis]
    return View(Operand(operand.kind, operand.index, place), view.dtype, view.strides)


def reversed_along(view: View, axis: int, count: int) -> View:
    """The view of so many elements along an axis, the last one first."""
    last = moved(view, axis, count - 1)
    strides = tuple(-step if k == axis else step for k, step in enumerate(view.strides))
    return View(last.operand, view.dtype, strides)


def cumulative(combine: str, identity: str) -> Binder:
    def bind(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Program | None:
        x, dimension = inputs
        if dimension.value is None or not x.shape:
            return None
        axis, program, dtype = int(dimension.value) % len(x.shape), Program(), x.dtype.name
        kind, shape, count = wide(dtype), x.shape, x.shape[int(dimension.value) % len(x.shape)]
        if 0 in shape:
            return program
        source, target = full(Operand("input", 0), dtype, shape), full(Operand("output", 0), dtype, shape)
        if attrs["reverse"]:
            source, target = (reversed_along(each, axis, count) for each in (source, target))
        present, other = program.space(kind, shape), program.space(kind, shape)
        shifted = 1 if attrs["exclusive"] else 0

        def part(length: int) -> Shape:
            return tuple(length if k == axis else dim for k, dim in enumerate(shape))

        if shifted:
            program.elementwise(f"y = {identity}", [], [("y", present)], part(1))
        program.elementwise(
            f"y = cast(x, {kind!r})",
            [("x", source)],
            [("y", moved(present, axis, shifted))],
            part(count - shifted),
        )
        step = 1
        while step < count:
            program.elementwise("y = x", [("x", present)], [("y", other)], part(step))
            program.elementwise(
                combine,
                [("a", present), ("b", moved(present, axis, step))],
                [("c", moved(other, axis, step))],
                part(count - step),
            )
            present, other, step = other, present, 2 * step
        program.elementwise(f"y = cast(x, {dtype!r})", [("x", present)], [("y", target)], shape)
        return program

    return bind


BINDERS: dict[str, Binder] = {
    "Cumsum": cumulative("c = a + b", "0"),
    "Cumprod": cumulative("c = a * b", "1"),
}
