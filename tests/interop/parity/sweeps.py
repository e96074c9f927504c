"""Values and generators of cases for the tables: dtypes an op allows, typical shapes, families with one formula."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import dtypes as dt
from tests.interop.parity.table import Case, Feed, case, unknown
from tests.interop.parity.written import signature

SHAPES = ((), (1,), (0,), (5,), (2, 0, 3), (2, 3), (3, 1, 4), (2, 1, 3, 2))
"""Shapes of one operand."""

PAIRS = (
    ((), ()), ((3,), ()), ((), (2, 3)), ((2, 3), (3,)), ((2, 1), (1, 4)), ((0, 3), (3,)), ((2, 0), (1,)),
    ((4, 1, 3), (2, 1)), ((2, 3), (2, 3)), ((1,), (2, 2, 2)),
)  # fmt: skip
"""Shapes of two operands that broadcast."""

FLOATS = ("float32", "float64", "float16", "bfloat16")
COMPLEX = ("complex64", "complex128")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def sample(
    dtype: Any, shape: Sequence[int], seed: int = 0, low: float = -3.0, high: float = 3.0, whole: bool = False
) -> Any:
    """The same values each time: spread over [low, high); unsigned ones not below 0; words for strings.

    Args:
        whole: floats are whole numbers too.
    """
    wanted = dt.as_dtype(dtype)
    draw = np.random.default_rng([seed, *(size + 1 for size in shape)])
    if wanted is dt.string:
        words = np.array([b"", b"a", b"Bc", b"d e", b"\xc3\xa9\xe2\x82\xac", b"12.5"], object)
        return np.asarray(words[draw.integers(0, len(words), shape)], object).reshape(shape)
    if wanted is dt.bool:
        return np.asarray(draw.integers(0, 2, shape), bool)
    if wanted.is_quantized:
        inner = wanted.numpy[0]
        return np.asarray(draw.integers(0, 9, shape), inner).view(wanted.numpy).reshape(shape)
    if wanted.is_integer or whole:
        low = max(low, 0.0) if wanted.name.startswith("uint") else low
        return np.asarray(draw.integers(int(low), max(int(high), int(low) + 1), shape)).astype(wanted.numpy)
    drawn = draw.uniform(low, high, shape)
    if wanted.is_complex:
        drawn = drawn + 1j * draw.uniform(low, high, shape)
    return np.asarray(drawn).astype(wanted.numpy)


def all_dtypes(op_type: str, attr: str = "T") -> list[str]:
    """The names of the dtypes that a type attribute of TensorFlow's op allows; the usual ones if it allows all."""
    allowed = next(each for each in signature(op_type).attr if each.name == attr).allowed_values.list.type
    if not allowed:
        return [*FLOATS, *COMPLEX, *INTEGERS, "bool", "string"]
    names = [dt.as_dtype(number).name for number in allowed]
    return list(dict.fromkeys(names))


def plain_dtypes(op_type: str, attr: str = "T") -> list[str]:
    """`all_dtypes` but for the quantized and those without values of their own."""
    return [
        name
        for name in all_dtypes(op_type, attr)
        if not dt.as_dtype(name).is_quantized and name not in ("variant", "resource")
    ]


def unary(
    op_type: str,
    *,
    low: float = -3.0,
    high: float = 3.0,
    dtypes: Sequence[str] | None = None,
    special: Sequence[float] = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, -1e30, 1.0, -1.0),
    **options: Any,
) -> list[Case]:
    """y = f(x): every dtype, every shape, special values, an unknown shape, and a dtype it does not take."""
    names = list(dtypes or plain_dtypes(op_type))
    first = "float32" if "float32" in names else names[0]
    cases = [case(op_type, sample(name, (3, 4), 1, low, high), **options) for name in names]
    cases += [case(op_type, sample(first, shape, 2, low, high), **options) for shape in SHAPES]
    cases += [case(op_type, sample(name, (2, 0), 3), **options) for name in names[:3]]
    if first == "float32" and special:
        cases += [case(op_type, np.array(special, name), **options) for name in ("float32", "float64")]
    cases.append(case(op_type, unknown(sample(first, (2, 3), 4, low, high)), **options))
    return [*cases, *bad_dtype(op_type, 1)]


def binary(
    op_type: str,
    *,
    low: float = -3.0,
    high: float = 3.0,
    low2: float | None = None,
    high2: float | None = None,
    whole: bool = False,
    dtypes: Sequence[str] | None = None,
    **options: Any,
) -> list[Case]:
    """z = f(x, y) with broadcasting: every dtype, every pair of shapes, unknown shapes, and what does not fit."""
    names = list(dtypes or plain_dtypes(op_type))
    first = "float32" if "float32" in names else names[0]
    bounds = (low if low2 is None else low2, high if high2 is None else high2)

    def pair(name: str, a: Sequence[int], b: Sequence[int]) -> tuple[Any, Any]:
        return sample(name, a, 1, low, high, whole), sample(name, b, 2, *bounds, whole)

    cases = [case(op_type, *pair(name, (3, 4), (3, 4)), **options) for name in names]
    cases += [case(op_type, *pair(first, *shapes), **options) for shapes in PAIRS]
    cases += [case(op_type, *pair(name, (2, 1, 3), (4, 1)), **options) for name in names[1:]]
    cases.append(case(op_type, *map(unknown, pair(first, (2, 3), (3,))), **options))
    cases.append(case(op_type, *pair(first, (2, 3), (2, 4)), bad=True, **options))
    cases.append(case(op_type, *map(unknown, pair(first, (2, 3), (2, 4))), bad=True, **options))
    return [*cases, *bad_dtype(op_type, 2)]


def reduction(
    op_type: str, *, dtypes: Sequence[str] | None = None, low: float = -3.0, high: float = 3.0, **options: Any
) -> list[Case]:
    """y = f(x, axes): dtypes, axes, kept dimensions, empty operands, axes known late, axes out of range."""
    from tests.interop.parity.table import const  # the tables read better with one import here

    typed = any(attr.name == "T" for attr in signature(op_type).attr)
    names = list(dtypes or (plain_dtypes(op_type) if typed else ["bool"]))
    first = "float32" if "float32" in names else names[0]
    x = sample(first, (2, 3, 4), 1, low, high)

    def row(x: Any, axes: Any, **more: Any) -> Case:
        return case(op_type, x, axes, **{**options, **more})

    cases = [row(sample(name, (2, 3), 2, low, high), const([1])) for name in names]
    cases += [row(x, const(axes)) for axes in (0, -1, [0], [0, 1], [-1, 0], [2, 1, 0], np.zeros(0, np.int32))]
    cases += [row(x, const(axes), attrs={"keep_dims": True}) for axes in (1, [0, 2], np.zeros(0, np.int32))]
    cases += [row(x, axes) for axes in (1, [0, 2])]
    cases += [row(x, const([1, 2], "int64")), row(unknown(x), const([1])), row(unknown(x), [1])]
    cases += [
        row(sample(first, shape, 3), const(axes))
        for shape, axes in (((0,), [0]), ((2, 0, 3), [1]), ((0, 3), [1]))
    ]
    cases += [row(sample(first, (), 3), const(np.zeros(0, np.int32)))]
    return [*cases, row(x, const([3]), bad=True), row(x, [-4], bad=True), row(x, const([0, 0]), bad=True)]


def bad_dtype(op_type: str, count: int) -> list[Case]:
    """A dtype that the op's T does not allow, if there is one."""
    allowed = all_dtypes(op_type) if any(attr.name == "T" for attr in signature(op_type).attr) else []
    refused = next((name for name in ("string", "bool", "int32", "uint8") if name not in allowed), None)
    if refused is None or not allowed or len(allowed) == len(all_dtypes("Identity")):
        return []
    return [case(op_type, *(Feed(sample(refused, (2,), k)) for k in range(count)), bad=True)]
