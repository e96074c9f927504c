"""Einsum: sums of products over labelled dimensions of one or two tensors (Einstein summation).

A label that occurs twice in an operand selects a diagonal; twice in the result, it places the values on a diagonal of zeros.
`...` stands for unlabelled dimensions, which broadcast.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.data_classes import dataclass
from aioexec.errors import GraphValueError, InvalidArgumentError, UnimplementedError
from aioexec.graph.apply import apply_op, apply_tuple_op
from aioexec.graph.convert import convert_n_to_tensor, convert_to_tensor
from aioexec.graph.kernels.kernel import (
    Attrs,
    Compute,
    KernelContext,
    Launch,
    Launches,
    Native,
    Operand,
    Spec,
)
from aioexec.graph.kernels.launches import c_strides, copy_launch
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register
from aioexec.ops.array.arrays import run_time
from aioexec.ops.common.elementwise import Array, conjugate
from aioexec.ops.linalg.product_launches import BODIES, bind_product
from aioexec.shapes import Dims
from aioexec.text_cache import cached_by_text

_TERM = re.compile(r"[A-Za-z]*+(\.\.\.[A-Za-z]*+)?")  # possessive quantifiers: linear time


@dataclass(frozen=True, slots=True)
class Equation:
    """The labels of each operand and of the result, including `...`."""

    inputs: tuple[str, ...]
    output: str

    def dims(
        self, given: Sequence[tuple[int | None, ...]]
    ) -> tuple[dict[str, int | None], tuple[int | None, ...]]:
        """Return the size of each label, and the unlabelled dimensions.

        Raises:
            GraphValueError: the operands do not fit the equation or each other.
        """
        sizes: dict[str, int | None] = {}
        rest: Dims = ()
        for term, dims in zip(self.inputs, given, strict=True):
            names, extra = spread(term, len(dims))
            for name, dim in zip(names, dims, strict=True):
                if len(name) == 1:
                    sizes.update({name: (shapes.merge((sizes.get(name),), (dim,)) or (None,))[0]})
            begin = term.find("...")
            if extra:
                rest = shapes.broadcast(rest, tuple(dims[begin : begin + extra]))
        return sizes, rest or ()


def spread(term: str, rank: int) -> tuple[list[str], int]:
    """Return a name for each dimension of an operand ("...k" for unlabelled ones), and the number of unlabelled ones.

    Raises:
        GraphValueError: the rank of the operand does not fit its term.
    """
    before, dots, after = term.partition("...")
    extra = rank - len(before) - len(after)
    if extra < 0 or (extra and not dots):
        raise GraphValueError(
            f"expected an operand of rank {len(before) + len(after)} for {term!r}, got rank {rank}"
        )
    return [*before, *(f"...{k}" for k in range(extra)), *after], extra


@cached_by_text(1024)
def parsed(text: str) -> Equation:
    """Parse an equation.

    Raises:
        GraphValueError: the text is malformed, or a label of the result is in no operand.
    """
    left, arrow, output = text.replace(" ", "").partition("->")
    terms = tuple(left.split(","))
    if not arrow or "->" in output or not all(map(_TERM.fullmatch, (*terms, output))):
        raise GraphValueError(f"expected an equation such as 'ij,jk->ik', got {text!r}")
    if not 1 <= len(terms) <= 2:
        raise GraphValueError(f"expected 1 or 2 operands in an equation, got {len(terms)} in {text!r}")
    missing = set(output) - set(left)
    if missing:
        raise GraphValueError(f"label {min(missing)!r} of the result is in no operand of {text!r}")
    if "..." in left and "..." not in output:
        raise GraphValueError(f"the result needs '...' as an operand has it: {text!r}")
    return Equation(terms, output)


def _shape(context: ShapeContext) -> Sequence[Dims]:
    equation = parsed(context.attrs["equation"])
    if len(equation.inputs) != len(context.inputs):
        raise GraphValueError(
            f"Expected {len(equation.inputs)} inputs for {context.attrs['equation']!r}, got {len(context.inputs)}"
        )
    before, dots, after = equation.output.partition("...")
    if any(
        dims is None and "..." in term for dims, term in zip(context.inputs, equation.inputs, strict=True)
    ):
        return [None]  # the unlabelled dimensions make the rank unknown
    given = [
        (None,) * len(t) if d is None else d for d, t in zip(context.inputs, equation.inputs, strict=True)
    ]
    sizes, rest = equation.dims(given)
    return [(*(sizes[name] for name in before), *(rest if dots else ()), *(sizes[name] for name in after))]


# Kernel


def _kernel(context: KernelContext) -> Compute:
    equation = run_time(parsed)(context.attrs["equation"])
    once = "".join(dict.fromkeys(equation.output.replace("...", "")))
    dots = "..." if "..." in equation.output else ""
    plain = (
        ",".join(equation.inputs)
        + "->"
        + (equation.output if len(once) == len(equation.output) - len(dots) else dots + once)
    )
    repeated = not plain.endswith("->" + equation.output)

    @run_time
    def compute(*operands: Array) -> Array:
        if len(operands) != len(equation.inputs):
            raise GraphValueError(f"Expected {len(equation.inputs)} operands, got {len(operands)}")
        sizes, rest = equation.dims([x.shape for x in operands])
        dtype = operands[0].dtype
        if dtype.kind in "Ob":
            raise InvalidArgumentError(f"Einsum is not defined for {dtype}")
        wide = [
            x.astype(np.float32) if dtype.itemsize == 2 and dtype.kind not in "iu" else x for x in operands
        ]
        result = np.asarray(np.einsum(plain, *wide, optimize=len(wide) > 1)).astype(dtype, copy=False)
        return _inflated(result, once, equation.output, sizes, rest) if repeated else result

    return compute


def _inflated(x: Array, once: str, output: str, sizes: Any, rest: Any) -> Array:
    """Place values on the diagonals that labels repeated in the result stand for; the dimensions `rest` come first in x."""
    before, dots, after = output.partition("...")
    shape = (*(sizes[name] for name in before), *(rest if dots else ()), *(sizes[name] for name in after))
    result = np.zeros(shape, x.dtype)
    names, _ = spread(output, len(shape))
    places = {name: k for k, name in enumerate([*(n for n in names if len(n) > 1), *once])}
    grids = np.ix_(*(np.arange(size) for size in x.shape))
    result[tuple(grids[places[name]] for name in names)] = x
    return result


# Gradient


def _operand_gradient(op: Operation, dy: Tensor, position: int) -> Tensor:
    """Return the einsum of dy and the other operand, summed over labels not in this operand, in the layout of this operand."""
    equation, x = parsed(op.attrs["equation"]), op.inputs[position]
    others = [conjugate(each) for k, each in enumerate(op.inputs) if k != position]
    term, around = equation.inputs[position], [t for k, t in enumerate(equation.inputs) if k != position]
    there = "".join([equation.output, *around]).replace("...", "")
    labels = dict.fromkeys(term.replace("...", ""))
    kept = "".join(label for label in labels if label in there)
    alone = "".join(label for label in labels if label not in there)
    dots = "..." if "..." in equation.output else ""
    left = ",".join([equation.output, *around])
    if kept == term.replace("...", "") and _same_rest(equation, op, x, term):
        return _einsum([dy, *others], f"{left}->{term}")
    total = _summed_rest(_einsum([dy, *others], f"{left}->{dots}{kept}"), x, term, kept, bool(dots))
    parts, begin = [total], "..." if "..." in term else ""
    if alone:
        names, _ = spread(term, len(x.dims or ()))
        sizes = apply_op(
            "GatherV2", apply_op("Shape", x), _vector([names.index(label) for label in alone]), 0
        )
        parts.append(apply_op("Fill", sizes, convert_to_tensor(1, x.dtype.base_dtype)))
    return _einsum(parts, f"{begin}{kept}{',' if alone else ''}{alone}->{term}")


def _einsum(operands: Sequence[Tensor], equation: str) -> Tensor:
    return apply_op("Einsum", list(operands), equation=equation)


def _vector(values: Sequence[int]) -> Tensor:
    return convert_to_tensor(np.array(values, np.int32))


def _same_rest(equation: Equation, op: Operation, x: Tensor, term: str) -> bool:
    """Return whether the operand's unlabelled dimensions are statically equal to the result's."""
    if "..." not in equation.output:
        return True
    if any(each.dims is None for each in op.inputs) or "..." not in term:
        return False
    _, rest = equation.dims([each.dims or () for each in op.inputs])
    names, _ = spread(term, len(x.dims or ()))
    own = tuple(dim for name, dim in zip(names, x.dims or (), strict=True) if len(name) > 1)
    return None not in own and own == rest


def _summed_rest(total: Tensor, x: Tensor, term: str, kept: str, dots: bool) -> Tensor:
    """Sum over unlabelled dimensions that were broadcast or that the operand lacks; they come first in `total`."""
    if not dots:
        return total
    if x.dims is None:
        raise UnimplementedError(
            "gradient of Einsum: expected operands of known rank where dimensions have no label"
        )
    names, _ = spread(term, len(x.dims))
    order = [k for k, name in enumerate(names) if len(name) > 1] + [names.index(label) for label in kept]
    shape = apply_op("GatherV2", apply_op("Shape", x), _vector(order), 0)
    axes, _ = apply_tuple_op("BroadcastGradientArgs", shape, apply_op("Shape", total))
    return apply_op("Reshape", apply_op("Sum", total, axes), shape)


# Native form


@dataclass(frozen=True, slots=True)
class Matrices:
    """An equation of two operands as a batch of matrix products: the labels of batch, rows, inner dimension and columns."""

    batch: str
    rows: str
    inner: str
    columns: str


def as_matrices(equation: Equation) -> Matrices | None:
    """Return the equation as matrix products; None for one operand, repeated labels, or a label summed in one operand only."""
    if len(equation.inputs) != 2 or "." in "".join((*equation.inputs, equation.output)):
        return None
    x, y, out = *equation.inputs, equation.output
    if any(len(set(term)) < len(term) for term in (x, y, out)):
        return None
    if any(label not in out and label not in other for a, other in ((x, y), (y, x)) for label in a):
        return None
    return Matrices(
        "".join(label for label in out if label in x and label in y),
        "".join(label for label in out if label not in y),
        "".join(label for label in x if label in y and label not in out),
        "".join(label for label in out if label not in x),
    )


def _bind(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    """Bind matrix products, with transposing copies of operands and result whose dimensions have another order."""
    equation = parsed(attrs["equation"])
    found = as_matrices(equation)
    (output,) = outputs
    if found is None or output.dtype.name not in BODIES:
        return None
    if output.size == 0:
        return Launches(())
    sizes, _ = equation.dims([spec.shape for spec in inputs])
    layout = _Layout({name: int(size or 0) for name, size in sizes.items()}, output.dtype)
    b, m, k, n = found.batch, found.rows, found.inner, found.columns
    left, flip_x = layout.operand(0, equation.inputs[0], b + m + k, b + k + m)
    right, flip_y = layout.operand(1, equation.inputs[1], b + k + n, b + n + k)
    result = Operand("output", 0) if equation.output == b + m + n else layout.space(output.nbytes)
    count, rows, inner, columns = (layout.count(labels) for labels in (b, m, k, n))
    may_be_packed = inputs[1].may_be_packed and right == Operand("input", 1)
    specs = [
        Spec(output.dtype, (count, inner, rows) if flip_x else (count, rows, inner)),
        Spec(
            output.dtype, (count, columns, inner) if flip_y else (count, inner, columns), None, may_be_packed
        ),
    ]
    made = bind_product(
        flip_x, flip_y, specs, [Spec(output.dtype, (count, rows, columns))], (left, right, result)
    )
    if made is None:
        return None
    after = (
        layout.moved(result, b + m + n, equation.output, Operand("output", 0))
        if result.kind == "scratch"
        else []
    )
    return replace(made, rows=(*layout.rows, *made.rows, *after), scratch=tuple(layout.scratch))


class _Layout:
    """Arranges operands as matrices. Changing: `rows`, the copies so far; `scratch`, the sizes of their targets in bytes."""

    def __init__(self, sizes: dict[str, int], dtype: np.dtype[Any]) -> None:
        self.sizes = sizes
        self.dtype = dtype
        self.rows: list[Launch] = []
        self.scratch: list[int] = []

    def count(self, labels: str) -> int:
        return prod(self.sizes[label] for label in labels)

    def space(self, nbytes: int) -> Operand:
        self.scratch.append(nbytes)
        return Operand("scratch", len(self.scratch) - 1)

    def operand(self, index: int, term: str, wanted: str, flipped: str) -> tuple[Operand, bool]:
        """Return the operand in the wanted or the flipped order, and whether it is flipped; copy it if it has neither."""
        source = Operand("input", index)
        if term in (wanted, flipped):
            return source, term != wanted
        target = self.space(self.count(term) * self.dtype.itemsize)
        self.rows += self.moved(source, term, wanted, target)
        return target, False

    def moved(self, source: Operand, term: str, wanted: str, target: Operand) -> list[Launch]:
        """Return the launches of a copy with the dimensions in another order."""
        item = self.dtype.itemsize
        strides = dict(zip(term, c_strides(tuple(self.sizes[label] for label in term), item), strict=True))
        shape = tuple(self.sizes[label] for label in wanted)
        row = copy_launch(
            source, tuple(strides[label] for label in wanted), target, c_strides(shape, item), shape, item
        )
        return [] if row is None else [row]


register(
    "Einsum(inputs:N*T) -> (output:T) [equation:string; N:int>=1; T:type]",
    shape=_shape,
    kernel=_kernel,
    gradient=lambda op, dy: [_operand_gradient(op, dy, k) for k in range(len(op.inputs))],
    native=Native(_bind, frozenset(BODIES)),
)

# Function


def einsum(equation: str, *inputs: Any, name: str | None = None) -> Tensor:
    """Sum products by an equation such as "ij,jk->ik"; without "->", repeated labels are summed.

    More than two operands are multiplied in sequence.

    Raises:
        GraphValueError: the operands do not fit the equation.
    """
    operands = convert_n_to_tensor(
        inputs[0] if len(inputs) == 1 and isinstance(inputs[0], list | tuple) else inputs
    )
    left, arrow, output = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise GraphValueError(f"einsum: {equation!r} is for {len(terms)} operands, got {len(operands)}")
    if not arrow:
        letters = left.replace(",", "").replace("...", "")
        output = ("..." if "..." in left else "") + "".join(
            sorted(x for x in set(letters) if letters.count(x) == 1)
        )
    while len(operands) > 2:
        later = "".join([*terms[2:], output])
        kept = "".join(dict.fromkeys(x for x in "".join(terms[:2]) if x.isalpha() and x in later))
        kept = ("..." if "..." in terms[0] + terms[1] else "") + kept
        operands[:2] = [_einsum(operands[:2], f"{terms[0]},{terms[1]}->{kept}")]
        terms[:2] = [kept]
    return apply_op("Einsum", operands, equation=f"{','.join(terms)}->{output}", name=name)
