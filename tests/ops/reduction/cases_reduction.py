"""Cases of reductions: all combinations of axes, long and short rows, empty ones, ties, NaN and infinities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.errors import InvalidArgumentError
from tests.ops.harness import Case, case

nan, inf = np.nan, np.inf
NO_AXES = np.array([], np.int32)
ROW = [[1.5, -2.0, 0.5], [3.0, 4.0, -1.0]]
WHOLE = [[3, -2, 5], [7, 4, -8]]
CUBE = np.linspace(-2.0, 2.5, 24).reshape(2, 3, 4)
FIVE = np.linspace(-1.0, 1.0, 2 * 3 * 2 * 2 * 3).reshape(2, 3, 2, 2, 3)
LONG = np.sin(np.arange(3 * 1500.0)).reshape(3, 1500)
NATIVE = ("float64", "float32", "int64", "int32")
SPECIAL = [[1.0, nan, 3.0], [inf, 1.0, 2.0], [-inf, -inf, -inf], [inf, -inf, 0.0]]


def reducing(function: Callable[..., Any], axes: Any, keep: bool = False) -> Callable[..., Any]:
    chosen = tuple(np.atleast_1d(np.asarray(axes, int)).tolist())
    return lambda x, _: function(x, axis=chosen, keepdims=keep)


def whole_mean(axes: Any) -> Callable[..., Any]:
    return lambda x, _: np.trunc(np.mean(x.astype(np.float64), axis=tuple(np.atleast_1d(axes)))).astype(
        x.dtype
    )


def everywhere(op: str, function: Callable[..., Any]) -> Iterator[Case]:
    """All layouts; `function` is NumPy's."""
    gradients = (0,)
    for axes in (0, 1, -1, [0, 1], NO_AXES, [1, 0]):
        yield case(op, ROW, axes, expected=reducing(function, axes), gradients=gradients)
    for axes in ([0], [1], [2], [0, 2], [0, 1], [1, 2], [0, 1, 2], [-2]):
        yield case(op, CUBE, axes, expected=reducing(function, axes), gradients=gradients)
        yield case(
            op,
            CUBE,
            axes,
            attrs={"keep_dims": True},
            expected=reducing(function, axes, True),
            gradients=gradients,
        )
    for axes in ([0, 2, 4], [1, 3], [0, 1, 3, 4]):
        yield case(op, FIVE, axes, expected=reducing(function, axes), gradients=gradients)
    yield case(op, 2.5, NO_AXES, expected=reducing(function, NO_AXES), gradients=gradients)
    yield case(op, [[[2.0]]], [0, 2], expected=reducing(function, [0, 2]), gradients=gradients)
    yield case(op, ROW, [1, 1], raises=InvalidArgumentError)
    yield case(op, ROW, np.int64(2), raises=InvalidArgumentError, dtypes=["float32"], native=False)


def sums() -> Iterator[Case]:
    yield from everywhere("Sum", np.sum)
    yield case("Sum", WHOLE, np.int64(1), expected=[6, 3])
    yield case("Sum", WHOLE, [0], expected=[10, 2, -3], attrs={"keep_dims": False})
    yield case("Sum", np.arange(24).reshape(2, 3, 4), [0, 2], expected=[60, 92, 124])
    yield case("Sum", [[1 + 2j, 3 - 1j]], [1], expected=[4 + 1j])
    for shape, axes in (
        ((3, 1500), [1]),
        ((3, 1500), [0]),
        ((1500, 3), [0]),
        ((1500, 3), [0, 1]),
        ((40, 5, 300), [1]),
    ):
        values = (
            LONG.reshape(-1)[: shape[0] * shape[1]].reshape(shape)
            if len(shape) == 2
            else np.resize(LONG, shape)
        )
        yield case("Sum", values, axes, expected=reducing(np.sum, axes), dtypes=["float32", "float64"])
        whole = (values * 100).astype(int)
        yield case("Sum", whole, axes, expected=reducing(np.sum, axes), dtypes=["int32", "int64"])
    yield case("Sum", SPECIAL, [1], expected=[nan, inf, -inf, nan])
    yield case("Sum", np.zeros((2, 0, 3)), [1], expected=np.zeros((2, 3)))
    yield case("Sum", np.zeros((2, 0, 3)), [0], expected=np.zeros((0, 3)))
    yield case("Sum", np.zeros((0,), int), 0, expected=0)
    yield case("Sum", [200, 100], 0, expected=44, dtypes=["uint8"])
    yield case("Sum", [2**31 - 1, 1], 0, expected=-(2**31), dtypes=["int32"])


def means() -> Iterator[Case]:
    yield from everywhere("Mean", np.mean)
    yield case("Mean", WHOLE, [1], expected=[2, 1], dtypes=["int64", "int32", "int8", "int16"])
    yield case("Mean", [-7, 0, 0], [0], expected=-2, dtypes=["int64", "int32", "int8"])
    yield case("Mean", [250, 252], [0], expected=251, dtypes=["uint8"])
    yield case("Mean", [2**31 - 1, 1], 0, expected=2**30, dtypes=["int32"])
    yield case(
        "Mean",
        np.arange(-30, 30).reshape(3, 4, 5),
        [0, 2],
        expected=whole_mean((0, 2)),
        dtypes=["int64", "int32"],
    )
    yield case("Mean", LONG, [1], expected=reducing(np.mean, 1), dtypes=["float32", "float64"])
    yield case("Mean", np.zeros((2, 0)), [1], expected=[nan, nan])
    yield case("Mean", np.zeros((2, 0), int), [1], expected=[0, 0], dtypes=["int64", "int32"])
    yield case("Mean", [[1 + 2j, 3 - 1j]], [1], expected=[2 + 0.5j])


def products() -> Iterator[Case]:
    yield from everywhere("Prod", np.prod)
    yield case("Prod", WHOLE, [1], expected=[-30, -224], dtypes=["int64", "int32", "int16"])
    yield case("Prod", [[0.0, 2.0, 3.0], [0.0, 0.0, 3.0]], [1], expected=[0.0, 0.0], gradients=(0,))
    yield case(
        "Prod",
        1.0 + LONG / 100,
        [1],
        expected=reducing(np.prod, 1),
        dtypes=["float32", "float64"],
        tolerance=3e-4,
    )
    yield case("Prod", 1.0 + LONG / 100, [0], expected=reducing(np.prod, 0), dtypes=["float32", "float64"])
    yield case("Prod", SPECIAL, [1], expected=[nan, inf, -inf, nan])
    yield case("Prod", np.zeros((2, 0)), [1], expected=[1.0, 1.0])
    yield case("Prod", [1 + 2j, 3 - 1j], [0], expected=5 + 5j)


def extrema() -> Iterator[Case]:
    yield from everywhere("Max", np.max)
    yield from everywhere("Min", np.min)
    yield case("Max", [[1.0, 3.0, 3.0]], [1], expected=[3.0])
    for op, function in (("Max", np.max), ("Min", np.min)):
        for values, axes in ((WHOLE, [0]), (WHOLE, [0, 1]), (np.arange(24).reshape(2, 3, 4), [0, 2])):
            yield case(op, values, axes, expected=reducing(function, axes))
        for values, axes in ((LONG, [1]), (LONG, [0]), (LONG.T, [0]), (LONG.T, [0, 1])):
            yield case(op, values, axes, expected=reducing(function, axes), dtypes=["float32", "float64"])
            yield case(
                op,
                (values * 1000).astype(int),
                axes,
                expected=reducing(function, axes),
                dtypes=["int32", "int64"],
            )
        long = LONG.copy()
        long[0, 3], long[1, 1499], long[2, 0] = nan, nan, nan
        yield case(op, long, [1], expected=[nan, nan, nan], dtypes=["float32", "float64"])
        yield case(op, long[:, :9], [0], expected=reducing(function, 0), dtypes=["float32", "float64"])
        yield case(op, SPECIAL, [1], expected=reducing(function, 1))
        yield case(op, SPECIAL, [0], expected=reducing(function, 0))
    yield case("Max", np.zeros((2, 0)), [1], expected=[-inf, -inf])
    yield case("Min", np.zeros((2, 0)), [1], expected=[inf, inf])
    yield case("Max", np.zeros((2, 0), int), [1], expected=[-(2**31)] * 2, dtypes=["int32"])
    yield case("Min", np.zeros((2, 0), int), [1], expected=[2**63 - 1] * 2, dtypes=["int64"])


def logical() -> Iterator[Case]:
    table = np.array([[True, False, True], [True, True, True], [False, False, False]])
    long = np.ones((2, 1500), bool)
    long[1, 1300] = False
    for op, function in (("All", np.all), ("Any", np.any)):
        for values, axes in (
            (table, 0),
            (table, [1]),
            (table, [0, 1]),
            (long, [1]),
            (~long, [1]),
            (True, NO_AXES),
            (table, NO_AXES),
        ):
            yield case(op, values, axes, expected=reducing(function, axes))
        yield case(op, np.zeros((2, 0), bool), [1], expected=reducing(function, 1))
        yield case(op, table, [0], attrs={"keep_dims": True}, expected=reducing(function, 0, True))
        yield case(op, table, [2], raises=InvalidArgumentError, native=False)


def indices() -> Iterator[Case]:
    for op, function in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
        for values, axis in ((ROW, 0), (ROW, -1), (CUBE, 1), (WHOLE, 1), (LONG, 1), (LONG, 0), (LONG.T, 0)):
            yield case(
                op,
                values,
                axis,
                expected=lambda x, a, f=function: f(x, axis=int(a)),
                dtypes=["float32", "float64"] if values is not WHOLE else None,
            )
        yield case(
            op,
            WHOLE,
            0,
            attrs={"output_type": dtypes.int32},
            expected=lambda x, a, f=function: f(x, 0).astype(np.int32),
        )
        yield case(op, [[1.0, 3.0, 3.0, 1.0]], np.int64(1), expected=[1 if op == "ArgMax" else 0])
        yield case(op, np.zeros((0, 2)), 1, expected=np.zeros(0, np.int64))
        yield case(op, 3.0, 0, expected=0, native=False)
        yield case(op, np.zeros((2, 0)), 1, raises=InvalidArgumentError)
        yield case(op, ROW, 2, raises=InvalidArgumentError, native=False)
        yield case(op, [False, True, True, False], 0, expected=1 if op == "ArgMax" else 0)
    special = [
        [1.0, nan, 3.0],
        [nan, 1.0, 3.0],
        [nan, nan, nan],
        [nan, -inf, inf],
        [-inf, inf, -inf],
        [nan, -inf, nan],
    ]
    yield case("ArgMax", special, 1, expected=[2, 2, 0, 2, 1, 0])
    yield case("ArgMin", special, 1, expected=[0, 1, 0, 1, 0, 1])
    long = np.resize(special, (4, 777))
    long[1], long[2], long[3, 700] = nan, -inf, 5.0
    yield case(
        "ArgMax",
        long,
        1,
        expected=[11, 0, 0, np.flatnonzero(long[3] == inf)[0]],
        dtypes=["float32", "float64"],
    )
    yield case(
        "ArgMin",
        long,
        1,
        expected=[10, 0, 0, np.flatnonzero(long[3] == -inf)[0]],
        dtypes=["float32", "float64"],
    )
    ties = np.zeros((1, 1000), int)
    ties[0, [300, 299, 555, 428]] = 7
    yield case("ArgMax", ties, 1, expected=[299], dtypes=["int32", "int64"])
    yield case("ArgMin", -ties, 1, expected=[299], dtypes=["int32", "int64"])
    yield case("ArgMax", np.transpose(special), 0, expected=[2, 2, 0, 2, 1, 0])


def running() -> Iterator[Case]:
    for op, function in (("Cumsum", np.cumsum), ("Cumprod", np.cumprod)):
        for values, axis in ((ROW, 0), (ROW, 1), (CUBE + 0.05, -2), ([1.5, 2.0, 0.5], 0)):
            yield case(op, values, axis, expected=lambda x, a, f=function: f(x, axis=int(a)), gradients=(0,))
        yield case(
            op,
            WHOLE,
            1,
            expected=lambda x, a, f=function: f(x, axis=1, dtype=x.dtype),
            dtypes=["int32", "int64"],
        )
        yield case(op, np.zeros((2, 0)), 1, expected=np.zeros((2, 0)))
        yield case(op, ROW, 2, raises=InvalidArgumentError, native=False)
    for reverse, sums_, products_ in ((False, [0, 1, 3], [1, 1, 2]), (True, [5, 3, 0], [6, 3, 1])):
        attrs = {"exclusive": True, "reverse": reverse}
        yield case("Cumsum", [1.0, 2.0, 3.0], 0, attrs=attrs, expected=sums_, gradients=(0,))
        yield case("Cumprod", [1.0, 2.0, 3.0], 0, attrs=attrs, expected=products_, gradients=(0,))
    yield case("Cumsum", [1, 2, 3], 0, attrs={"reverse": True}, expected=[6, 5, 3])


CASES = [*sums(), *means(), *products(), *extrema(), *logical(), *indices(), *running()]
