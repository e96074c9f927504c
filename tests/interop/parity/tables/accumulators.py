"""Conditional accumulators, dense and sparse: accepted, stale and invalid gradients.

Gradients of another dtype, and vectors where a scalar is expected, are cases only if shape rules detect them: TensorFlow
crashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.interop.parity.sweeps import sample
from tests.interop.parity.table import Case, Node, case, node, unknown

DTYPES = ["float32", "float64"]  # TensorFlow has no other kernels
SHAPES: list[tuple[int, ...]] = [(), (3,), (2, 3), (0,)]
PREFIXES = ["", "Resource"]


def step(value: int) -> Any:
    return np.int64(value)


def count(value: int) -> Any:
    return np.int32(value)


def steps_of(before: Sequence[Any], last: Any) -> Any:
    return lambda made: [*[[each] for each in before], *last(made)]


# Dense


def accumulator(prefix: str, dtype: str = "float32", shape: Any = (2,), **more: Any) -> Node:
    return node(f"{prefix}ConditionalAccumulator", attrs={"dtype": dtype, "shape": shape, **more})


def apply(prefix: str, made: Node, gradient: Any, at: int = 0) -> Node:
    return node(f"{prefix}AccumulatorApplyGradient", made, step(at), gradient)


def verb(prefix: str, name: str, made: Node, *inputs: Any, **attrs: Any) -> Node:
    return node(f"{prefix}Accumulator{name}", made, *inputs, attrs=attrs)


def dense(prefix: str) -> list[Case]:
    cases = []
    for reduction in ("MEAN", "SUM"):
        for dtype in DTYPES:
            for shape in SHAPES:
                cases += through(prefix, dtype, shape, reduction)
    for bad in ({"container": "no name!"}, {"shared_name": "_x"}):
        cases.append(
            case(
                f"{prefix}ConditionalAccumulator",
                attrs={"dtype": "float32", "shape": (2,), **bad},
                bad=True,
                steps=lambda made: [[verb(prefix, "NumAccumulated", made)]],
            )
        )
    return [*cases, *stale(prefix), *unfit(prefix)]


def through(prefix: str, dtype: str, shape: tuple[int, ...], reduction: str) -> list[Case]:
    """Three gradients, counted and taken; as a case of each op."""
    made = accumulator(prefix, dtype, shape, reduction_type=reduction)
    gradients = [sample(dtype, shape, seed) for seed in (1, 2, 3)]
    applied = [apply(prefix, made, each) for each in gradients]
    size = verb(prefix, "NumAccumulated", made)
    take = verb(prefix, "TakeGradient", made, count(2), dtype=dtype)
    number, later = step(7), apply(prefix, made, gradients[0], 8)
    return [
        case(
            f"{prefix}ConditionalAccumulator",
            attrs=made.attrs,
            steps=lambda own: [
                [apply(prefix, own, gradients[0])],
                [verb(prefix, "TakeGradient", own, count(1), dtype=dtype)],
                [verb(prefix, "NumAccumulated", own)],
            ],
        ),
        case(
            f"{prefix}AccumulatorApplyGradient",
            made,
            step(0),
            unknown(gradients[0]),
            steps=steps_of(applied[1:], lambda last: [[last], [size], [take]]),
        ),
        case(
            f"{prefix}AccumulatorTakeGradient",
            made,
            count(3),
            attrs={"dtype": dtype},
            steps=steps_of(applied, lambda last: [[last], [size], [applied[0]], [size]]),
        ),
        case(f"{prefix}AccumulatorNumAccumulated", made, steps=steps_of(applied, lambda last: [[last]])),
        case(
            f"{prefix}AccumulatorSetGlobalStep",
            made,
            number,
            steps=lambda last: [[applied[0]], [last], [applied[1]], [size], [later], [size]],
        ),
    ]


def stale(prefix: str) -> list[Case]:
    made = accumulator(prefix)
    size = verb(prefix, "NumAccumulated", made)
    gradient = np.float32([1, 2])
    take = verb(prefix, "TakeGradient", made, count(1), dtype="float32")
    cases = []
    for at, now in ((0, 1), (1, 1), (5, 2), (-3, 0)):
        setting = verb(prefix, "SetGlobalStep", made, step(now))
        cases += [
            case(
                f"{prefix}AccumulatorApplyGradient",
                made,
                step(at),
                gradient,
                steps=steps_of([setting], lambda last: [[last], [size]]),
            ),
            case(
                f"{prefix}AccumulatorSetGlobalStep",
                made,
                step(now),
                steps=lambda last, at=at: [[last], [apply(prefix, made, gradient, at)], [size], [last]],
            ),
            case(
                f"{prefix}AccumulatorNumAccumulated",
                made,
                steps=steps_of([setting, apply(prefix, made, gradient, at)], lambda last: [[last]]),
            ),
        ]
    cases.append(
        case(
            f"{prefix}AccumulatorApplyGradient",
            made,
            step(0),
            gradient,
            steps=lambda last: [[last], [take], [last], [size]],
            note="taking begins the next step",
        )
    )
    return cases


def unfit(prefix: str) -> list[Case]:
    made, free = accumulator(prefix), accumulator(prefix, shape=None)
    partial = accumulator(prefix, shape=(None, 2))
    pair, triple = np.float32([1, 2]), np.float32([1, 2, 3])
    size = verb(prefix, "NumAccumulated", made)
    name = f"{prefix}AccumulatorApplyGradient"
    cases = [
        case(name, made, step(0), unknown(gradient), bad=True)
        for gradient in (triple, pair[:1], pair[None], np.float32(1))
    ]
    cases += [
        case(name, made, np.int64([0]), pair, bad=True),
        case(name, made, unknown(np.int64([0])), pair, bad=True),
        case(name, free, step(0), triple, steps=lambda last: [[last]]),
        case(
            name,
            free,
            step(0),
            triple,
            bad=True,
            steps=steps_of([apply(prefix, free, pair)], lambda x: [[x]]),
        ),
        case(name, partial, step(0), unknown(triple), bad=True),
        case(f"{prefix}AccumulatorSetGlobalStep", made, unknown(np.int64([1])), bad=True),
        case(f"{prefix}AccumulatorSetGlobalStep", made, np.int64([1]), bad=True),
    ]
    for required in (count(0), count(-2), np.int32([1])):
        cases.append(
            case(f"{prefix}AccumulatorTakeGradient", made, required, attrs={"dtype": "float32"}, bad=True)
        )
    cases.append(case(f"{prefix}AccumulatorNumAccumulated", made, steps=lambda last: [[last], [size]]))
    return cases


# Sparse


def sparse_accumulator(dtype: str = "float32", shape: Any = (4, 2), **more: Any) -> Node:
    return node("SparseConditionalAccumulator", attrs={"dtype": dtype, "shape": shape, **more})


def slices(made: Node, indices: Any, values: Any, shape: Any = None, at: int = 0) -> Node:
    known = shape is not None
    sizes = np.array(shape if known else [], np.int64)
    attrs = {"has_known_shape": known}
    inputs = (step(at), np.array(indices, np.int64), values, sizes)
    return node("SparseAccumulatorApplyGradient", made, *inputs, attrs=attrs)


def about_slices(made: Node, indices: Any, values: Any, shape: Any = None, **options: Any) -> Case:
    asked = slices(made, indices, values, shape, options.pop("at", 0))
    return case(asked.op_type, *asked.inputs, attrs=asked.attrs, **options)


def parts(take: Node) -> list[Any]:
    return [take[k] for k in range(3)]


LISTS = [
    ([0, 2], [1, 2]),
    ([3], [0, 1, 2]),
    ([1, 1], [1]),
    ([3, 0], [0, 3]),
    ([2, 1, 0], [2, 1, 0]),
    ([], [1]),
]


def sparse() -> list[Case]:
    cases = []
    for dtype in DTYPES:
        for reduction in ("MEAN", "SUM"):
            for first, second in LISTS:
                cases += merged(dtype, reduction, first, second)
    for shape in ((4,), (4, 2), (4, 2, 3), (None, 2), None):
        inner = (2,) if shape is None else shape[1:]
        made = sparse_accumulator(shape=shape)
        values = sample("float32", (2, *inner))
        take = node("SparseAccumulatorTakeGradient", made, count(1), attrs={"dtype": "float32"})
        for known in (None, (4, *inner)):
            cases.append(
                about_slices(made, [0, 3], values, known, steps=lambda last, take=take: [[last], parts(take)])
            )
        cases.append(
            case(
                "SparseConditionalAccumulator",
                attrs=made.attrs,
                steps=lambda own, values=values: [
                    [slices(own, [0, 3], values)],
                    [node("AccumulatorNumAccumulated", own)],
                ],
            )
        )
    for bad in ({"container": "no name!"}, {"shared_name": "_x"}):
        cases.append(
            case(
                "SparseConditionalAccumulator",
                attrs={"dtype": "float32", "shape": (2,), **bad},
                bad=True,
                steps=lambda made: [[node("AccumulatorNumAccumulated", made)]],
            )
        )
    return [*cases, *unfit_slices()]


def merged(dtype: str, reduction: str, first: Sequence[int], second: Sequence[int]) -> list[Case]:
    """Two gradients of other slices; as a case of each op."""
    made = sparse_accumulator(dtype, reduction_type=reduction)
    values = [sample(dtype, (len(indices), 2), 3 + k) for k, indices in enumerate((first, second))]
    begun = slices(made, first, values[0], (4, 2))
    take = node("SparseAccumulatorTakeGradient", made, count(2), attrs={"dtype": dtype})
    more = slices(made, second, values[1])
    return [
        about_slices(made, second, values[1], steps=lambda last: [[begun], [last], parts(take)]),
        case(
            "SparseAccumulatorTakeGradient",
            made,
            count(2),
            attrs={"dtype": dtype},
            steps=lambda last: [[begun], [more], parts(last), [node("AccumulatorNumAccumulated", made)]],
        ),
        case(
            "SparseConditionalAccumulator",
            attrs=made.attrs,
            steps=lambda own: [
                [slices(own, first, values[0], (4, 2))],
                parts(node("SparseAccumulatorTakeGradient", own, count(1), attrs={"dtype": dtype})),
            ],
        ),
    ]


def unfit_slices() -> list[Case]:
    made, free = sparse_accumulator(), sparse_accumulator(shape=None)
    pair, row = sample("float32", (2, 2)), sample("float32", (1, 2))
    size = node("AccumulatorNumAccumulated", made)
    cases = [
        about_slices(made, [0, 4], pair, bad=True),
        about_slices(made, [0, 4], pair, (4, 2), bad=True),
        about_slices(made, [0, 1], pair, (5, 2), bad=True),
        about_slices(made, [0, 1], pair, (4, 3), bad=True),
        about_slices(made, [0, 1], pair, (4,), bad=True),
        about_slices(made, [0], sample("float32", (1, 3)), bad=True),
        about_slices(made, [0], sample("float32", (1,)), bad=True),
        about_slices(made, [0], np.float32(1), bad=True),
        about_slices(made, [0, 1], row, bad=True),
        about_slices(made, [[0]], row, bad=True),
        about_slices(free, [0], sample("float32", (1, 3)), bad=True,
                     steps=steps_of([slices(free, [0], row)], lambda last: [[last]])),
        about_slices(made, [0], row, at=-1, steps=lambda last: [[last], [size]]),
    ]  # fmt: skip
    cases += [
        case("SparseAccumulatorTakeGradient", made, required, attrs={"dtype": "float32"}, bad=True)
        for required in (count(0), count(-1), np.int32([1]))
    ]
    return cases


CASES: list[Case] = [*(each for prefix in PREFIXES for each in dense(prefix)), *sparse()]
