"""Fourier transforms, running sums and products, reductions."""

from __future__ import annotations

from typing import Any

from tests.interop.parity.sweeps import COMPLEX, plain_dtypes, reduction, sample
from tests.interop.parity.table import Case, case, const, unknown


def cut(suffix: str, shape: tuple[int, ...], length: list[int]) -> dict[str, Any]:
    """TensorFlow differentiates no transform of three dimensions, nor one of a part of its input."""
    if suffix == "3D":
        return {"grad": False}
    whole = list(shape[-len(length) :]) == length
    return {} if whole else {"grad": False, "note": "TensorFlow's gradient fails where the input is cut"}


WAVES = [
    *(
        case(f"{name}{suffix}", sample(dtype, shape))
        for name in ("FFT", "IFFT")
        for suffix, shapes in (
            ("", ((4,), (5,), (2, 3), (0, 4))),
            ("2D", ((4, 3), (2, 3, 5), (1, 1), (0, 2, 2))),
            ("3D", ((2, 3, 4), (2, 2, 2, 3), (1, 1, 1), (0, 2, 2, 2))),
        )
        for shape in shapes
        for dtype in COMPLEX
    ),
    *(
        case(f"{name}{suffix}", unknown(sample("complex64", (2, 2, 2))))
        for name in ("FFT", "IFFT")
        for suffix in ("", "2D", "3D")
    ),
    *(
        case(f"{name}{suffix}", sample("float32", (2, 2, 2)), bad=True)
        for name in ("FFT", "IFFT")
        for suffix in ("", "2D", "3D")
    ),
    *(
        case(f"{name}{suffix}", sample("complex64", shape), bad=True)
        for name in ("FFT", "IFFT")
        for suffix, shape in (("", ()), ("2D", (2,)), ("3D", (2, 2)))
    ),
    *(
        case(f"{name}{suffix}", sample("complex64", shape, 4))
        for name in ("FFT", "IFFT")
        for suffix, shape in (("", (7,)), ("2D", (3, 3)), ("3D", (3, 1, 2)))
    ),
    *(
        case(
            f"RFFT{suffix}",
            sample(real, shape),
            const(length),
            attrs={"Tcomplex": whole},
            **cut(suffix, shape, length),
        )
        for real, whole in (("float32", "complex64"), ("float64", "complex128"))
        for suffix, shape, length in (
            ("", (8,), [8]),
            ("", (2, 5), [5]),
            ("", (6,), [4]),
            ("", (2, 3), [1]),
            ("2D", (4, 6), [4, 6]),
            ("2D", (2, 3, 5), [3, 5]),
            ("2D", (4, 5), [4, 4]),
            ("3D", (2, 3, 4), [2, 3, 4]),
            ("3D", (2, 2, 3, 5), [2, 3, 5]),
            ("3D", (3, 3, 3), [2, 3, 2]),
            ("2D", (1, 1), [1, 1]),
            ("3D", (1, 2, 2), [1, 2, 2]),
        )
    ),
    *(
        case(
            f"IRFFT{suffix}",
            sample(whole, shape),
            const(length),
            attrs={"Treal": real},
            **cut(suffix, (*shape[:-1], 2 * shape[-1] - 2 + length[-1] % 2), length),
        )
        for real, whole in (("float32", "complex64"), ("float64", "complex128"))
        for suffix, shape, length in (
            ("", (5,), [8]),
            ("", (2, 3), [5]),
            ("", (4,), [4]),
            ("", (2, 1), [1]),
            ("2D", (4, 4), [4, 6]),
            ("2D", (2, 3, 3), [3, 5]),
            ("2D", (1, 1), [1, 1]),
            ("3D", (2, 3, 3), [2, 3, 4]),
            ("3D", (2, 2, 3, 3), [2, 3, 5]),
            ("2D", (4, 4), [3, 4]),
            ("3D", (3, 3, 3), [2, 3, 2]),
            ("3D", (1, 1, 1), [1, 1, 1]),
        )
    ),
    *(
        case(f"RFFT{suffix}", sample("float32", shape), length)
        for suffix, shape, length in (("", (4,), [4]), ("2D", (2, 4), [2, 4]))
    ),
    *(
        case(f"IRFFT{suffix}", sample("complex64", shape), length)
        for suffix, shape, length in (("", (3,), [4]), ("2D", (2, 3), [2, 4]))
    ),
    *(
        case(f"RFFT{s}", unknown(sample("float32", (2, 2, 4))), const([2] * (n - 1) + [4]), grad=n < 3)
        for n, s in ((1, ""), (2, "2D"), (3, "3D"))
    ),
    *(
        case(f"IRFFT{s}", unknown(sample("complex64", (2, 2, 3))), const([2] * (n - 1) + [4]), grad=n < 3)
        for n, s in ((1, ""), (2, "2D"), (3, "3D"))
    ),
    *(
        case(f"RFFT{s}", sample("float32", (2, 2, 4)), const([9] * n), bad=True)
        for n, s in ((1, ""), (2, "2D"), (3, "3D"))
    ),
    *(
        case(f"IRFFT{s}", sample("complex64", (2, 2, 3)), const([9] * n), bad=True)
        for n, s in ((1, ""), (2, "2D"), (3, "3D"))
    ),
    *(
        case(f"RFFT{s}", sample("float32", (2, 2, 4)), const([2] * (n + 1)), bad=True)
        for n, s in ((1, ""), (2, "2D"), (3, "3D"))
    ),
    *(
        case(f"IRFFT{s}", sample("complex64", (2, 2, 3)), const([2] * (n + 1)), bad=True)
        for n, s in ((1, ""), (2, "2D"), (3, "3D"))
    ),
]

SCANS = [
    *(
        case(op, sample(name, (3, 4), 1), const(1))
        for op in ("Cumsum", "Cumprod", "CumulativeLogsumexp")
        for name in plain_dtypes(op)
    ),
    *(
        case(
            op, sample("float32", (3, 4), 1), const(axis), attrs={"exclusive": exclusive, "reverse": reverse}
        )
        for op in ("Cumsum", "Cumprod", "CumulativeLogsumexp")
        for axis in (0, -1)
        for exclusive in (False, True)
        for reverse in (False, True)
    ),
    *(
        case(op, sample("float32", shape), 0)
        for op in ("Cumsum", "Cumprod", "CumulativeLogsumexp")
        for shape in ((0,), (5,), (2, 0))
    ),
    *(
        case(op, unknown([1.0, 2.0]), const(0, "int64"))
        for op in ("Cumsum", "Cumprod", "CumulativeLogsumexp")
    ),
    *(case(op, [1.0, 2.0], 1, bad=True) for op in ("Cumsum", "Cumprod", "CumulativeLogsumexp")),
]

REDUCTIONS = [
    *(
        c
        for name in ("Sum", "Mean", "Prod", "Max", "Min", "EuclideanNorm", "All", "Any")
        for c in reduction(name)
    ),
]

CASES: list[Case] = [*WAVES, *SCANS, *REDUCTIONS]
