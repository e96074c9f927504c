"""The program of Einsum: a contraction of two operands, or a sum over one.

A label that occurs twice in a term is a diagonal, so it has the sum of both strides. Labels that only one of two operands has,
and the result has not, are summed up first.
"""

from __future__ import annotations

from collections.abc import Sequence

from aioexec.data_classes import dataclass
from aioexec.devices.cuda.programs.products import Axis, Contraction, contract, sum_dtype
from aioexec.devices.cuda.programs.program import OUTPUT, Binder, Program
from aioexec.devices.cuda.programs.reducing import SUM, zero
from aioexec.devices.cuda.ptx.reductions import Reduction
from aioexec.graph.kernels.kernel import Attrs, Operand, Spec
from aioexec.graph.kernels.launches import View, c_strides


@dataclass(frozen=True, slots=True)
class Term:
    """An operand or the result: the size of each of its labels, and the stride in bytes. Unlabelled dimensions are numbers,
    counted from the last one."""

    operand: Operand
    dtype: str
    sizes: dict[str, int]
    strides: dict[str, int]

    def view(self, labels: Sequence[str]) -> View:
        """The operand with these dimensions; it is broadcast to those that it lacks."""
        return View(self.operand, self.dtype, tuple(self.strides.get(label, 0) for label in labels))


def term_of(text: str, operand: Operand, spec: Spec) -> Term:
    before, dots, after = text.partition("...")
    count = len(spec.shape) - len(before) - len(after)
    labels = [*before, *(map(str, reversed(range(count))) if dots else ()), *after]
    sizes, strides = dict[str, int](), dict[str, int]()
    for label, size, step in zip(labels, spec.shape, c_strides(spec.shape, spec.dtype.itemsize), strict=True):
        sizes[label] = size
        strides[label] = strides.get(label, 0) + (0 if size == 1 else step)
    return Term(operand, spec.dtype.name, sizes, strides)


def summed(program: Program, given: Term, kept: Sequence[str]) -> Term:
    """A term summed over its other labels, in new memory; itself if there are none."""
    gone = [label for label in given.sizes if label not in kept]
    if not gone:
        return given
    left = [label for label in given.sizes if label in kept]
    shape = tuple(given.sizes[label] for label in left)
    target = program.space(given.dtype, shape)
    reduced = Term(
        target.operand,
        given.dtype,
        dict(zip(left, shape, strict=True)),
        dict(zip(left, target.strides, strict=True)),
    )
    add_up(program, given, reduced, left, gone, given.sizes)
    return reduced


def add_up(
    program: Program,
    given: Term,
    target: Term,
    kept: Sequence[str],
    gone: Sequence[str],
    sizes: dict[str, int],
) -> None:
    """Add a sum over the labels `gone`; the target has those `kept`."""
    kind = sum_dtype(given.dtype)
    add = Reduction(
        f"z = cast(x, {kind!r})",
        SUM,
        f"y = cast(c, {target.dtype!r})",
        (("x", given.dtype),),
        kind,
        target.dtype,
        zero(kind),
    )
    labels = [*kept, *gone]
    axes = range(len(kept), len(labels))
    shape = tuple(sizes[label] for label in labels)
    program.reduce(add, [given.view(labels)], target.view(kept), shape, set(axes))


def bind_einsum(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Program | None:
    """The shape rule has checked the equation."""
    left, _, right = attrs["equation"].replace(" ", "").partition("->")
    texts, out, program = left.split(","), outputs[0], Program()
    target = term_of(right, OUTPUT, out)
    if len(target.sizes) < len(out.shape):  # only a diagonal is written
        program.zeros(out)
    terms = [
        term_of(text, Operand("input", k), spec)
        for k, (text, spec) in enumerate(zip(texts, inputs, strict=True))
    ]
    labels = list(target.sizes)
    if len(terms) == 1:
        (only,) = terms
        gone = [label for label in only.sizes if label not in labels]
        if gone:
            add_up(program, only, target, labels, gone, only.sizes)
        else:
            shape = tuple(target.sizes.values())
            program.elementwise("y = x", [("x", only.view(labels))], [("y", target.view(labels))], shape)
        return program
    x, y = terms
    x, y = summed(program, x, [*labels, *y.sizes]), summed(program, y, [*labels, *x.sizes])
    inner = [label for label in x.sizes if label in y.sizes and label not in labels]

    def axes(names: Sequence[str], sizes: dict[str, int], *of: Term) -> tuple[Axis, ...]:
        return tuple((sizes[name], *(each.strides.get(name, 0) for each in of)) for name in names)

    contract(
        program,
        Contraction(
            (x.operand, x.dtype),
            (y.operand, y.dtype),
            (OUTPUT, target.dtype),
            axes([n for n in labels if n in x.sizes and n in y.sizes], target.sizes, x, y, target),
            axes([n for n in labels if n in x.sizes and n not in y.sizes], target.sizes, x, target),
            axes([n for n in labels if n in y.sizes and n not in x.sizes], target.sizes, y, target),
            axes(inner, x.sizes, x, y),
        ),
    )
    return program


BINDERS: dict[str, Binder] = {"Einsum": bind_einsum}
