"""What a session is made with: the parts of ConfigProto that are honoured, in the engine's words."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, cast

from aioexec.errors import GraphValueError
from aioexec.execution.engine import JitMode

_JIT_MODES = ("off", "background", "eager")


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """Options of a session.

    Attributes:
        target: "" for a session in this process.
        jit: "off" (reference kernels), "background" (programs are compiled meanwhile) or "eager" (the first run of a
            signature waits, without blocking the loop, until its program is compiled).
        intra_op_threads: threads of the CPU device; 0 for one a processor.
    """

    target: str = ""
    jit: JitMode = "background"
    intra_op_threads: int = 0

    @classmethod
    def from_config(cls, target: str, config: Any) -> SessionOptions:
        """Read a ConfigProto, or None; what it leaves open comes from AIOEXEC_JIT, then from the defaults.

        Raises:
            GraphValueError: a value that is not allowed.
        """
        asked = config.aioexec.jit if config is not None else ""
        jit = asked or os.environ.get("AIOEXEC_JIT", "") or "background"
        if jit not in _JIT_MODES:
            raise GraphValueError(f"ConfigProto.aioexec.jit: expected one of {_JIT_MODES}, got {jit!r}")
        threads = config.intra_op_parallelism_threads if config is not None else 0
        return cls(target, cast("JitMode", jit), max(0, threads))
