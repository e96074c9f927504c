"""`import aioexec.compat.v1 as tf` imports `aioexec` itself, whose names are those of TensorFlow 1.x."""

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Any name of `aioexec`."""

else:
    sys.modules[__name__] = sys.modules["aioexec"]
