"""Cases of assertions, prints and checks for finite values."""

import numpy as np

from aioexec.errors import InvalidArgumentError
from tests.ops.harness import case

NAN, INF = float("nan"), float("inf")
CHECK = {"message": "found"}
FINITE = np.array([[1.0, -2.0, 0.0], [3.0, 0.5, -0.25]])


def with_one(value: float, size: int) -> np.ndarray:
    """Finite numbers but for one in the middle."""
    numbers = np.arange(size) / 8
    numbers[size // 2] = value
    return numbers


CASES = [
    case("Assert", True, [np.arange(3), [1.5, NAN], b"text"]),
    case("Assert", False, [np.arange(3), b"text"], raises=InvalidArgumentError),
    case("Assert", [True], [np.arange(3)], raises=InvalidArgumentError),
    case("Print", FINITE, [], attrs={"first_n": 0}, expected=FINITE, gradients=(0,)),
    case("Print", np.arange(4), [np.arange(2), b"text"], attrs={"first_n": 0}, expected=np.arange(4)),
    case("Print", b"a", [np.arange(2)], attrs={"first_n": 0}, expected=np.array(b"a", object)),
    case("CheckNumerics", FINITE, attrs=CHECK, expected=FINITE, gradients=(0,)),
    case("CheckNumerics", 2.5, attrs=CHECK, expected=2.5),
    case("CheckNumerics", np.zeros((0, 3)), attrs=CHECK, expected=np.zeros((0, 3))),
    case(
        "CheckNumerics",
        np.arange(1000.0),
        attrs=CHECK,
        expected=np.arange(1000.0),
        dtypes=("float32", "float64"),
    ),
    case(
        "CheckNumerics",
        [3e38, -3e38, 1e-40],
        attrs=CHECK,
        dtypes=("float32",),
        expected=np.array([3e38, -3e38, 1e-40]),
    ),
    *(
        case("CheckNumerics", with_one(value, size), attrs=CHECK, raises=InvalidArgumentError)
        for value in (NAN, INF, -INF)
        for size in (1, 7, 1001)
    ),
]
