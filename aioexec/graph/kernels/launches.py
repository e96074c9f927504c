"""Layout of elementwise and copying launches: broadcasting becomes strides, adjacent dimensions are merged.

Pure. `expression` makes the native form of most ops from one line; the op families use `View` and `launch` where the layout is
not plain broadcasting (concat, slices, transposes: all strided copies).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.errors import OpError
from aioexec.graph.kernels.kernel import (
    Attrs,
    ElementwiseKernel,
    Launch,
    Launches,
    Native,
    Operand,
    Spec,
    Units,
)

Shape = tuple[int, ...]

_EXPENSIVE = re.compile(
    r"\b(exp|expm1|log|log1p|tanh|sigmoid|softplus|sin|cos|tan|erf|erfc|pow|atan|asin|acos|sinh|cosh)\("
)
ENTRY_NS = 6
_GRAIN = 1024  # elements; tasks begin on a cache line
_FAR, _FAR_NS = 2**19, 0.04
"""Bytes of all operands from which on some of them are in the L3 cache or in memory, and nanoseconds to load or store one."""
_NATIVE_DTYPES = frozenset({"float32", "float64", "int32", "int64", "bool"})


@dataclass(frozen=True, slots=True)
class View:
    """An operand of an elementwise launch as a strided array; strides in bytes, one for each dimension of the launch."""

    operand: Operand
    dtype: str
    strides: tuple[int, ...]


def c_strides(shape: Shape, itemsize: int) -> tuple[int, ...]:
    """Strides in bytes of a C-ordered array."""
    strides, step = [], itemsize
    for dim in reversed(shape):
        strides.append(step)
        step *= dim
    return tuple(reversed(strides))


def broadcast_strides(shape: Shape, itemsize: int, to: Shape) -> tuple[int, ...]:
    """Strides in bytes under which a C-ordered array of `shape` reads as one of shape `to`."""
    padded = (1,) * (len(to) - len(shape)) + shape
    strides = c_strides(padded, itemsize)
    return tuple(
        0 if dim == 1 and wide != 1 else stride for dim, wide, stride in zip(padded, to, strides, strict=True)
    )


def launch(
    body: str, inputs: Sequence[tuple[str, View]], outputs: Sequence[tuple[str, View]], shape: Shape
) -> Launch | None:
    """A launch of an elementwise kernel over `shape`; None if there are no elements.

    Args:
        body: statements that assign every output name.
        inputs, outputs: the name in `body` and the layout of each operand.
    """
    if 0 in shape:
        return None
    views = [view for _, view in (*inputs, *outputs)]
    dims, strides = collapse(shape, [view.strides for view in views])
    kernel = ElementwiseKernel(
        body,
        tuple((name, view.dtype) for name, view in inputs),
        tuple((name, view.dtype) for name, view in outputs),
        "".join(_letter(view, stride[-1], dims[-1]) for view, stride in zip(views, strides, strict=True)),
    )
    words = (len(dims), *dims, *(stride for operand in strides for stride in operand))
    units = Units(1, tuple(operand[0] for operand in strides), _GRAIN if len(dims) == 1 else 1)
    operands = tuple(view.operand for view in views)
    nbytes = sum(
        prod(dim for dim, step in zip(dims, steps, strict=True) if step) * ITEMSIZE[view.dtype]
        for view, steps in zip(views, strides, strict=True)
    )
    cost = _cost(body, prod(shape), len(views)) + (int(nbytes * _FAR_NS) if nbytes >= _FAR else 0)
    return Launch(kernel, operands, words, cost=cost, units=units)


def collapse(shape: Shape, strides: Sequence[tuple[int, ...]]) -> tuple[Shape, list[tuple[int, ...]]]:
    """Drop dimensions of one element and merge adjacent ones that are contiguous in every operand; rank at least 1."""
    kept = [axis for axis, dim in enumerate(shape) if dim != 1]
    dims = [shape[axis] for axis in kept]
    steps = [[operand[axis] for operand in strides] for axis in kept]
    axis = len(dims) - 2
    while axis >= 0:
        if all(
            outer == inner * dims[axis + 1] for outer, inner in zip(steps[axis], steps[axis + 1], strict=True)
        ):
            dims[axis] *= dims.pop(axis + 1)
            steps[axis] = steps.pop(axis + 1)
        axis -= 1
    if not dims:
        return (1,), [(0,)] * len(strides)
    return tuple(dims), [tuple(step[k] for step in steps) for k in range(len(strides))]


ITEMSIZE = {
    "float32": 4, "float64": 8, "int32": 4, "int64": 8, "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2,
    "uint32": 4, "uint64": 8,
}  # fmt: skip


def _letter(view: View, stride: int, length: int) -> str:
    if length == 1 or stride == ITEMSIZE[view.dtype]:
        return "v"
    return "s" if stride == 0 else "x"


def expensive_calls(body: str) -> int:
    """The number of calls in a body to functions that take tens of instructions."""
    return len(_EXPENSIVE.findall(body))


def _cost(body: str, elements: int, operands: int) -> int:
    per_element = 0.02 * operands + 0.15 * expensive_calls(body)  # measured in cache, 512-bit vectors
    return ENTRY_NS + int(elements * per_element)


def copy_launch(
    source: Operand,
    source_strides: tuple[int, ...],
    target: Operand,
    target_strides: tuple[int, ...],
    shape: Shape,
    itemsize: int,
) -> Launch | None:
    """Copy a strided array of `shape`; None if there are no elements. Of the dtype only the item size matters."""
    dtype = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}[itemsize]
    return launch(
        "y = x",
        [("x", View(source, dtype, source_strides))],
        [("y", View(target, dtype, target_strides))],
        shape,
    )


def fill_launch(
    value: float | int | bool, target: Operand, strides: tuple[int, ...], shape: Shape, dtype: str
) -> Launch | None:
    """Set every element of a strided array to a number."""
    return launch(f"y = {value!r}", [], [("y", View(target, dtype, strides))], shape)


_HEAD = re.compile(r"^\s*([\w, ]*?)\s*(?:->\s*([\w, ]+?))?\s*:(.*)$", re.DOTALL)


def expression(
    text: str | Callable[[Attrs], str],
    *,
    dtypes: frozenset[str] = _NATIVE_DTYPES,
    statuses: tuple[tuple[type[OpError], str], ...] = (),
) -> Native:
    """The native form of an op that computes each element from the elements at the same index.

    Args:
        text: "x, y: x + y", input names in order, then the value of the only output; or, with several outputs or with
            statements, "x, y -> a, b: a = x + y; b = x - a". An output with the name of an input is the new content of the
            variable behind that input. A function makes it from the attributes.
        dtypes: the supported dtypes.
        statuses: see `Native`.
    """

    def bind(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
        spelled = text if isinstance(text, str) else text(attrs)
        return _bind(
            spelled, *(tuple((spec.dtype, spec.shape) for spec in each) for each in (inputs, outputs))
        )

    return Native(bind, dtypes, statuses)


_Layouts = tuple[tuple[np.dtype[Any], Shape], ...]


@functools.lru_cache(1024)
def _bind(text: str, inputs: _Layouts, outputs: _Layouts) -> Launches | None:
    """The launch of an expression for operands of these dtypes and shapes; cached, since many nodes have the same."""
    return _bind_expression(
        *_parse(text), [Spec(*each) for each in inputs], [Spec(*each) for each in outputs]
    )


@functools.cache
def _name(dtype: np.dtype[Any]) -> str:
    """`dtype.name`; cached, since NumPy takes microseconds to build it."""
    return dtype.name


def _parse(text: str) -> tuple[list[str], list[str], str]:
    match = _HEAD.match(text)
    if match is None:
        raise ValueError(f"expression {text!r}: expected 'inputs: value' or 'inputs -> outputs: statements'")
    inputs = [name.strip() for name in match[1].split(",") if name.strip()]
    body = match[3].strip()
    if match[2] is None:
        return inputs, ["out"], f"out = {body}"
    return inputs, [name.strip() for name in match[2].split(",")], body


def _targets(
    input_names: list[str], output_names: list[str], inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Iterator[tuple[str, Operand, Spec]]:
    """The target of each result: the variable behind the input of its name, or the next output."""
    spare = enumerate(outputs)
    for name in output_names:
        if name in input_names:
            k = input_names.index(name)
            yield name, Operand("state", k), inputs[k]
        else:
            j, spec = next(spare)
            yield name, Operand("output", j), spec


def _bind_expression(
    input_names: list[str],
    output_names: list[str],
    body: str,
    inputs: Sequence[Spec],
    outputs: Sequence[Spec],
) -> Launches | None:
    targets = list(_targets(input_names, output_names, inputs, outputs))
    shape = targets[0][2].shape
    if any(_name(spec.dtype) not in ITEMSIZE for spec in (*inputs, *(spec for _, _, spec in targets))):
        return None
    if any(spec.shape != shape for _, _, spec in targets):
        return None
    sources = [
        (
            name,
            View(
                Operand("input", k),
                _name(spec.dtype),
                broadcast_strides(spec.shape, spec.dtype.itemsize, shape),
            ),
        )
        for k, (name, spec) in enumerate(zip(input_names, inputs, strict=True))
    ]
    sinks = [
        (name, View(operand, _name(spec.dtype), c_strides(shape, spec.dtype.itemsize)))
        for name, operand, spec in targets
    ]
    row = launch(body, sources, sinks, shape)
    first = targets[0][2]
    inplace = tuple(
        k
        for k, spec in enumerate(inputs)
        if spec.shape == shape and spec.dtype.itemsize == first.dtype.itemsize
    )
    return Launches(() if row is None else (row,), inplace=inplace)
