"""Errors of the elementary functions of the expression language, in units of the last place.

    python -m tests.devices.jit.ulp --all                  every function at every float32: about a minute each
    python -m tests.devices.jit.ulp --all --stride 7       at every seventh
    python -m tests.devices.jit.ulp exp tanh --target x86-64
    python -m tests.devices.jit.ulp pow --samples 100000000
    python -m tests.devices.jit.ulp --all --dtype float64 --samples 10000000

The oracle of float32 is float64 (NumPy, and SciPy for erf and erfc), that of float64 is long double (erf and erfc: the C
library's float64, itself within 1 ulp); `test_math` holds the oracle against mpmath where it is hard. Denormals count like any
number: the kernels are called as they are, without the walker, which flushes them.

The exit status says whether everything was within 4 ulp.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import special

from tests.devices.jit.elementwise import Compiled, compiled, ulps

LIMIT = 4.0
WHOLE, STEP = 1 << 32, 1 << 16
"""All float32, and how many are compared at a time: what fits the cache."""
WIDER = {"float32": np.float64, "float64": np.longdouble}

Oracle = Callable[..., Any]


def exact_sigmoid(x: Any) -> Any:
    e = np.exp(-np.abs(x))
    return np.where(x > 0, 1 / (1 + e), e / (1 + e))


def of_error(fast: Oracle, exact: Callable[[float], float]) -> Oracle:
    """erf or erfc: for float64 operands SciPy's, which is right to 13 digits; for wider ones the C library's."""
    each = np.frompyfunc(exact, 1, 1)
    return lambda x: fast(x) if x.dtype == np.float64 else each(x.astype(np.float64)).astype(np.float64)


ORACLES: dict[str, Oracle] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "sigmoid": exact_sigmoid,
    "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
    "softsign": lambda x: np.where(np.isinf(x), np.nan, x / (1 + np.abs(x))),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": of_error(special.erf, math.erf),
    "erfc": of_error(special.erfc, math.erfc),
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
}


def compared(kernel: Compiled, oracle: Oracle, *arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A kernel's results, and exact ones in a wider dtype."""
    z = np.empty_like(arrays[0])
    assert kernel(*arrays, z) == 0
    wide = WIDER[z.dtype.name]
    with np.errstate(all="ignore"):
        return z, oracle(*(x.astype(wide) for x in arrays))


def distances(kernel: Compiled, oracle: Oracle, *arrays: np.ndarray) -> np.ndarray:
    """How far a kernel's results are from exact ones, in ulp."""
    return ulps(*compared(kernel, oracle, *arrays))


def suspects(got: np.ndarray, want: np.ndarray, highest: float) -> np.ndarray:
    """Where results might be further off than `highest` ulp, by their bits: that takes a thirtieth of the time of `ulps`.

    An exact number is at most half a step from its rounded value; a step beyond a power of two is up to two ulp long.
    """
    whole = f"int{got.dtype.itemsize * 8}"
    with np.errstate(all="ignore"):
        steps = np.abs(got.view(whole) - want.astype(got.dtype).view(whole)).view(f"u{whole}")
    return np.flatnonzero(steps >= max((highest - 1) / 2, 0))


def every_float32(stride: int) -> Iterator[tuple[np.ndarray]]:
    """The float32 numbers in the order of their bits, positive ones first."""
    for start in range(0, WHOLE, STEP * stride):
        end = min(start + STEP * stride, WHOLE)
        yield (np.arange(start, end, stride, dtype=np.uint64).astype(np.uint32).view(np.float32),)


def samples(dtype: str, count: int, seed: int) -> Iterator[tuple[np.ndarray]]:
    """Seeded numbers: of all bit patterns, and of the ranges where functions do most."""
    rng = np.random.default_rng(seed)
    bits = np.dtype(dtype).itemsize * 8
    for _ in range(0, count, STEP):
        patterns = rng.integers(0, (1 << bits) - 1, STEP // 2, dtype=f"uint{bits}", endpoint=True).view(dtype)
        share = STEP // 32
        parts = [rng.uniform(-size, size, share) for size in (0.01, 0.5, 1, 2, 8, 30, 100, 800)]
        parts.append(1 + rng.normal(size=share * 2) * 10.0 ** rng.uniform(-15, -1, share * 2))
        turns = rng.integers(-600_000, 600_000, share * 2) * (np.pi / 2)
        yield (np.concatenate([patterns, *(part.astype(dtype) for part in parts), turns.astype(dtype)]),)


def pairs(dtype: str, count: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Seeded x and y for x to the power of y: any bits, results in range, x near 1, whole y, and special numbers."""
    rng = np.random.default_rng(seed)
    limits = np.finfo(dtype)
    reach = 0.97 * math.log(limits.max)
    bits, share = np.dtype(dtype).itemsize * 8, STEP // 8
    special_x, special_y = (part.ravel() for part in np.meshgrid(*[special_numbers(dtype)] * 2))
    yield special_x, special_y
    for _ in range(0, count, STEP):
        patterns = rng.integers(0, (1 << bits) - 1, (2, share), dtype=f"uint{bits}", endpoint=True)
        x = np.exp(rng.uniform(-reach, reach, 4 * share)).astype(dtype)
        near = (
            1 + rng.normal(size=2 * share) * 10.0 ** rng.uniform(-limits.precision, -1, 2 * share)
        ).astype(dtype)
        base = np.concatenate([x, near])
        with np.errstate(all="ignore"):
            logarithm = np.log(base)
            y = (rng.uniform(-1.05, 1.0, len(base)) * reach / logarithm).astype(dtype)
        y[logarithm == 0] = 3
        whole = rng.integers(-40, 40, share).astype(dtype)
        negative = (-np.exp(rng.uniform(-4, 4, share))).astype(dtype)
        yield (
            np.concatenate([patterns[0].view(dtype), base, negative]),
            np.concatenate([patterns[1].view(dtype), y, whole]),
        )


def special_numbers(dtype: str) -> np.ndarray:
    """Zeros, infinities, NaN, the ends of the range, and where whole numbers, then odd ones, cease."""
    limits = np.finfo(dtype)
    digits = 2.0**limits.nmant
    positive: list[Any] = [
        0.0,
        1.0,
        2.0,
        3.0,
        0.5,
        1.5,
        1 / 3,
        1 + limits.eps,
        1 - limits.epsneg,
        digits,
        digits / 2 + 0.5,
    ]
    positive += [
        digits + 1,
        2 * digits,
        2 * digits + 2,
        limits.max,
        limits.tiny,
        limits.smallest_subnormal,
        np.inf,
    ]
    return np.array([*positive, *[-each for each in positive], np.nan]).astype(dtype)


def worst(
    kernel: Compiled,
    oracle: Oracle,
    chunks: Iterator[tuple[np.ndarray, ...]],
    progress: Callable[[int], None] = lambda count: None,
) -> tuple[float, tuple[Any, ...]]:
    """The largest distance, and for which arguments."""
    highest, place, count = -1.0, (), 0
    for arrays in chunks:
        got, want = compared(kernel, oracle, *arrays)
        places = suspects(got, want, highest)
        found = ulps(got[places], want[places])
        if len(found) and found.max() > highest:
            k = places[np.argmax(found)]
            highest, place = float(found.max()), tuple(array[k] for array in arrays)
        count += len(got)
        progress(count)
    return highest, place


def kernel_of(name: str, dtype: str, target: str = "") -> Compiled:
    inputs = f"x:{dtype} y:{dtype}" if name == "pow" else f"x:{dtype}"
    arguments = "x, y" if name == "pow" else "x"
    return compiled(f"z = {name}({arguments})", inputs, f"z:{dtype}", target=target)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.devices.jit.ulp", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="FUNCTION", help=f"one of {', '.join(ORACLES)}, pow")
    parser.add_argument("--all", action="store_true", help="every function, and pow")
    parser.add_argument("--dtype", default="float32", choices=WIDER)
    parser.add_argument("--stride", type=int, default=1, help="compare every n-th float32")
    parser.add_argument(
        "--samples", type=int, default=10**8, help="how many pairs for pow, or float64 numbers"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", default="", help="a processor LLVM knows, such as x86-64 or nehalem")
    options = parser.parse_args()
    within = True
    for name in [*ORACLES, "pow"] if options.all else options.names:
        started = time.perf_counter()
        if name == "pow":
            chunks: Any = pairs(options.dtype, options.samples, options.seed)
        elif options.dtype == "float32":
            chunks = every_float32(options.stride)
        else:
            chunks = samples(options.dtype, options.samples, options.seed)
        total = WHOLE // options.stride if options.dtype == "float32" and name != "pow" else options.samples
        kernel = kernel_of(name, options.dtype, options.target)
        highest, place = worst(
            kernel, np.power if name == "pow" else ORACLES[name], chunks, shown(name, total)
        )
        within &= highest <= LIMIT
        at = ", ".join(f"{number!r} ({float(number).hex()})" for number in place)
        print(f"\r{name:10}{highest:10.3f} ulp at {at}, {time.perf_counter() - started:.0f} s", flush=True)
    return int(not within)


def shown(name: str, total: int) -> Callable[[int], None]:
    """Report the progress on the error stream, every 16 million numbers."""

    def progress(count: int) -> None:
        if count % (1 << 24) < STEP and sys.stderr.isatty():
            print(f"\r{name:10}{100 * count / total:5.1f} %", end="", file=sys.stderr, flush=True)

    return progress


if __name__ == "__main__":
    sys.exit(main())
