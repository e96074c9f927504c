"""Cases of the control-flow ops that have a kernel; what the executor runs by role is tested with steps."""

import numpy as np

from aioexec.errors import InvalidArgumentError
from tests.ops.harness import Ref, case

VALUE = np.array([1.5, -2.0])

CASES = [
    case("LoopCond", True, expected=np.array(True)),
    case("LoopCond", False, expected=np.array(False)),
    case("ControlTrigger"),
    case("RefIdentity", Ref(VALUE, "float64"), gradients=(0,)),
    case("RefSelect", np.int32(1), [Ref(VALUE, "float64"), Ref(-VALUE, "float64")]),
    case(
        "RefSelect",
        np.int32(2),
        [Ref(VALUE, "float64"), Ref(-VALUE, "float64")],
        raises=InvalidArgumentError,
    ),
]
