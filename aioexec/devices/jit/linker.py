"""Links object code into this process.

Every name an object needs is checked against the list and resolved here, one by one: the linker is given
these addresses and nothing else, so no object can reach another symbol of the process. What is linked stays
until the process ends: blocks and programs hold bare addresses.

LLVM has two linkers. JITLink puts all sections of an object into one mapping, calls what is outside through
pointers, and says so when it fails. The other, its default here, maps each section wherever there is room: once
large values lie between them, an offset of 32 bits does not reach, and that, like a lack of memory, ends the process.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable
from typing import Any

from aioexec.devices.jit import blas
from aioexec.devices.jit.objects import (
    GEMM_SYMBOLS,
    MATH_SYMBOLS,
    MEMORY_SYMBOLS,
    ObjectCode,
    ObjectRefusedError,
    check_symbols,
)
from aioexec.devices.jit.target import llvm

LIBRARIES = (None, "libm.so.6", "libm.dylib")
"""Where C functions are searched: in the process itself, then in the mathematics library."""


def library_address(name: str) -> int:
    """Address of a C function; 0 if this system has none of that name."""
    for library in LIBRARIES:
        try:
            function = getattr(ctypes.CDLL(library), name)
        except (OSError, AttributeError):
            continue
        return ctypes.cast(function, ctypes.c_void_p).value or 0
    return 0


class Linker:
    """Links objects, each into a library of its own, so that names never clash.

    Attributes:
        allowed: names an object may need.
    """

    def __init__(self, external: Iterable[str] = (), resolve: Callable[[str], int] = library_address) -> None:
        self.allowed = MATH_SYMBOLS | MEMORY_SYMBOLS | GEMM_SYMBOLS | frozenset(external)
        self._resolve = resolve
        self._lock = threading.Lock()  # held while linking; guards what follows
        self._jit: Any = None  # LLVM's linker, made with the first object
        self._addresses: dict[str, int] = {}  # of the allowed names resolved so far
        self._attempts = 0  # links begun: LLVM keeps the name of a library even if linking it fails
        self._linked: list[Any] = []  # keeps the code alive

    def link(self, code: ObjectCode) -> int:
        """Return the address of the kernel in an object.

        Raises:
            ObjectRefusedError: it is damaged, needs a name that is not allowed, or one this process lacks.
        """
        needed = check_symbols(code, self.allowed)
        with self._lock:
            binding = llvm()
            builder = binding.JITLibraryBuilder().add_object_img(code.image).export_symbol(code.symbol)
            for name in needed:
                builder.import_symbol(name, self._address(name))
            self._attempts += 1
            try:
                if self._jit is None:
                    self._jit = binding.create_lljit_compiler(use_jit_link=True)
                tracker = builder.link(self._jit, f"kernel{self._attempts}")
            except RuntimeError as error:
                raise ObjectRefusedError(f"cannot be linked: {error}") from error
            self._linked.append(tracker)
            return int(tracker[code.symbol])

    def _address(self, name: str) -> int:
        found = self._addresses.get(name)
        if found is None:
            found = blas.symbols().get(name, 0) if name in GEMM_SYMBOLS else self._resolve(name)
            if not found:
                raise ObjectRefusedError(f"needs {name}, which this process does not have")
            self._addresses[name] = found
        return found
