"""Cases of ops used by functional control flow: conditions of any type."""

import numpy as np

from aioexec.errors import InvalidArgumentError
from tests.ops.harness import case

CASES = [
    *(
        case("ToBool", value, dtypes=dtypes, expected=np.array(bool(np.any(value))))
        for value, dtypes in (
            (0.5, ("float16", "float32", "float64", "bfloat16")),
            (0, ("float32", "int8", "uint8", "int32", "int64")),
            (-3, ("int8", "int32", "int64")),
            (True, ("bool",)),
            (False, ("bool",)),
        )
    ),
    case("ToBool", np.zeros((2, 2)), expected=np.array(True)),
    case("ToBool", np.zeros((2, 0)), expected=np.array(False)),
    case("ToBool", b"", expected=np.array(False)),
    case("ToBool", b"0", expected=np.array(True)),
    case("ToBool", 0j, dtypes=("complex64",), raises=InvalidArgumentError),
]
