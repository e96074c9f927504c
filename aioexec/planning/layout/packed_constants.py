"""Packed constants: copies of large constants in the layout that a kernel takes, made once and shared by all programs.

A layout claims the constants that its rows take packed; they are packed when the program is linked, in the thread that builds
it. Programs of any session that use the same constant (the same memory, which sessions of one graph share) hold the same copy.
It is freed with the last of them. The total size is bounded; what does not fit is not packed. Any thread may call.
"""

from __future__ import annotations

import functools
import os
import threading
from typing import Any
from weakref import WeakValueDictionary, finalize

import numpy as np

from aioexec.devices.jit import panels as packing
from aioexec.graph.kernels.panels import Panels

Array = np.ndarray[Any, Any]

_SHARE_OF_MEMORY = 4
"""Divisor of the machine's memory for the bound."""


class PackedConstant:
    """A constant in another layout.

    Constant: `content`, `panels`, `nbytes`. Changing: `_array`, None until it is packed.
    """

    __slots__ = ("__weakref__", "_array", "_lock", "content", "nbytes", "panels")

    def __init__(self, content: Array, panels: Panels) -> None:
        self.content = content
        self.panels = panels
        self.nbytes = packing.packed_bytes(panels, content.itemsize)
        self._array: Array | None = None
        self._lock = threading.Lock()

    def array(self) -> Array:
        """The packed constant; the first call packs it, and takes as long as copying."""
        with self._lock:
            if self._array is None:
                self._array = packing.pack(self.content, self.panels)
            return self._array


class PackedConstants:
    """The packed constants of a process.

    Constant: `bound`, in bytes. Changing, under `_lock`: `nbytes`, of all that exist; `_known`, by memory and layout. Each
    entry holds its constant, so that no other one can have the same address.
    """

    def __init__(self, bound: int) -> None:
        self.bound = bound
        self.nbytes = 0
        self._lock = threading.RLock()  # the collector may run a finalizer while this thread holds it
        self._known: WeakValueDictionary[tuple[object, ...], PackedConstant] = WeakValueDictionary()

    def claim(self, content: Array, panels: Panels) -> PackedConstant | None:
        """The constant in a layout, shared with others while any of them holds it; None: there is no room."""
        place = content.__array_interface__["data"][0], content.shape, content.strides, content.dtype.str
        with self._lock:
            known = self._known.get((place, panels))
            if known is not None:
                return known
            made = PackedConstant(content, panels)
            if self.nbytes + made.nbytes > self.bound:
                return None
            self.nbytes += made.nbytes
            finalize(made, self._release, made.nbytes).atexit = False
            self._known[place, panels] = made
            return made

    def _release(self, nbytes: int) -> None:
        with self._lock:
            self.nbytes -= nbytes


@functools.cache
def packed_constants() -> PackedConstants | None:
    """Those of this process; None if kernels for this processor take no panels."""
    if not packing.vector_bytes():
        return None
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return PackedConstants(memory // _SHARE_OF_MEMORY)
