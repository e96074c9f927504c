"""Kernels that we generate: LLVM IR that becomes PTX when the PTX is first asked for.

Compiling takes tens of milliseconds and more, so what asks for `ptx` is a thread of the device, never the event loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from aioexec.devices.cuda.launch import Module
from aioexec.devices.cuda.ptx.compiler import compile_ptx


class GeneratedModule(Module):
    """A module with one kernel, `entry`; equal to itself alone. Any thread may read it.

    Args:
        emit: writes the LLVM module; called once.
    """

    __slots__ = ("_emit", "_ir", "_lock", "_ptx", "entry")

    entry: str
    _emit: Callable[[], str]
    _ir: str | None
    _ptx: str | None
    _lock: threading.RLock

    def __init__(self, name: str, entry: str, emit: Callable[[], str]) -> None:
        values = {"name": name, "entry": entry, "_emit": emit, "_ir": None, "_ptx": None}
        for field, value in {**values, "_lock": threading.RLock()}.items():
            object.__setattr__(self, field, value)

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    @property
    def ir(self) -> str:
        """The text of the LLVM module."""
        with self._lock:
            if self._ir is None:
                object.__setattr__(self, "_ir", self._emit())
            assert self._ir is not None
            return self._ir

    @property
    def ptx(self) -> str:
        """The text of the module.

        Raises:
            IrError: LLVM refuses the IR.
        """
        with self._lock:
            if self._ptx is None:
                object.__setattr__(self, "_ptx", compile_ptx(self.entry, self.ir))
            assert self._ptx is not None
            return self._ptx
