"""Guard pages: every array that native kernels read or write ends at the beginning of an inaccessible page.

An access beyond the end, or before the beginning, of even one element ends the process with SIGSEGV. Inputs, outputs,
variables, growing lists, and values between two stretches of a program get memory of their own; constants and the arena are
laid out anew, with a page between any two buffers, which then share no memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from aioexec.devices.jit.walker import HEADER
from aioexec.execution import item_runner
from aioexec.execution.programs import frame as frame_module, python_rows, run_memory, walk
from aioexec.execution.programs.linking import address_of
from aioexec.planning.layout import variant_builder
from aioexec.planning.layout.buffers import Buffer
from aioexec.planning.layout.variant import Variant
from aioexec.resources import variable as variable_module

Array = np.ndarray[Any, Any]
PAGE = mmap.PAGESIZE
PROT_NONE = 0

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def protect(address: int, nbytes: int = PAGE) -> None:
    """Forbid all access to these pages from now on."""
    if _libc.mprotect(address, nbytes, PROT_NONE):
        raise OSError(ctypes.get_errno(), "mprotect")


def mapped(nbytes: int) -> mmap.mmap:
    """Memory of separate pages.

    Raises:
        MemoryError: out of memory, with NumPy's message, whose allocator this replaces.
    """
    try:
        return mmap.mmap(-1, nbytes)
    except OSError as error:
        raise MemoryError(f"unable to map {nbytes} bytes") from error


class Guards:
    """Gives out memory at the ends (or, with `before`, at the beginnings) of pages; what it holds is full of garbage."""

    def __init__(self, before: bool) -> None:
        self.before = before
        self._arenas: list[list[int]] = []  # of the layout under way: the offsets of its guard pages
        self._of_variant: dict[int, tuple[Variant, list[int]]] = {}

    def pages(self, nbytes: int) -> int:
        return -(-max(nbytes, 1) // PAGE)

    def empty(self, shape: Any, dtype: Any = float, **options: Any) -> Array:
        """`numpy.empty` in guarded memory."""
        dtype = np.dtype(dtype)
        dims = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
        if dtype.hasobject:
            return np.empty(dims, dtype)
        nbytes = int(np.prod(dims, dtype=object)) * dtype.itemsize
        size = self.pages(nbytes) * PAGE
        try:
            memory = mmap.mmap(-1, size + PAGE)
        except (OSError, OverflowError):  # more than there is, which NumPy refuses with an error of its own
            return np.empty(dims, dtype)
        whole = np.frombuffer(memory, np.uint8)
        if self.before:
            protect(address_of(whole))
            start = PAGE
        else:
            protect(address_of(whole) + size)
            start = size - nbytes
        whole[start : start + nbytes] = 0xA5
        return np.ndarray(dims, dtype, whole, start)

    def array(self, value: Any, dtype: Any = None, copy: bool = True, **options: Any) -> Array:
        """A guarded copy."""
        given = np.asarray(value, dtype)
        if given.dtype.hasobject:
            return np.array(given)
        made = self.empty(given.shape, given.dtype)
        made[...] = given
        return made

    # Arenas and constants

    def lay_out(self, buffers: Iterable[Buffer]) -> int:
        """Instead of `buffers.lay_out`: no two buffers share memory, and a page lies between them."""
        offset, guards = PAGE, [0]
        for buffer in buffers:
            if buffer.slot is not None:
                continue
            size = self.pages(buffer.nbytes) * PAGE
            buffer.offset = offset if self.before else offset + size - buffer.nbytes
            offset += size + PAGE
            guards.append(offset - PAGE)
        self._arenas.append(guards)
        return offset

    def lay_out_lanes(self, buffers: Sequence[Buffer], program: Any, lanes: int, lane_slot: int) -> int:
        return self.lay_out(buffers)

    def pool(self, constants: Sequence[tuple[Buffer, Array]], slot: int) -> Array:
        """Instead of `_Freezer._pool`."""
        offset, guards = PAGE, [0]
        for buffer, content in constants:
            size = self.pages(content.nbytes) * PAGE
            buffer.slot, buffer.offset = slot, offset if self.before else offset + size - content.nbytes
            offset += size + PAGE
            guards.append(offset - PAGE)
        memory = np.frombuffer(mapped(offset), np.uint8)
        for buffer, content in constants:
            flat = np.ascontiguousarray(content).reshape(-1).view(np.uint8)
            memory[buffer.offset : buffer.offset + content.nbytes] = flat
        for guard in guards:
            protect(address_of(memory) + guard)
        return memory

    def note(self, variant: Variant) -> Variant:
        """A variant has been made: where the guard pages of its arena are."""
        self._of_variant[id(variant)] = variant, self._arenas[-1]
        self._arenas.clear()
        return variant

    def arena(self, variant: Variant) -> Array:
        memory = np.frombuffer(mapped(max(variant.arena_bytes, PAGE)), np.uint8)
        for guard in self._of_variant[id(variant)][1]:
            protect(address_of(memory) + guard)
        return memory

    def forget(self) -> None:
        self._of_variant.clear()


class _GuardedNumpy:
    """NumPy as a module sees it, whose new arrays are guarded."""

    def __init__(self, guards: Guards) -> None:
        self.empty = guards.empty
        self.array = guards.array

    def asarray(self, value: Any, *arguments: Any, **options: Any) -> Array:
        made = np.asarray(value, *arguments, **options)
        return made if made.dtype.hasobject else self.array(made)

    def require(self, value: Any, *arguments: Any, **options: Any) -> Array:
        return self.array(value)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


@contextlib.contextmanager
def guarded(before: bool = False) -> Iterator[Guards]:
    """Guard what programs made inside touch; only one at a time, and with one thread that plans."""
    guards = Guards(before)
    with pytest.MonkeyPatch.context() as patch:
        numpy = _GuardedNumpy(guards)
        for module in (item_runner, python_rows, run_memory, walk):
            patch.setattr(module, "np", numpy)
        patch.setattr(variable_module, "aligned_empty", guards.empty)
        patch.setattr(variable_module, "aligned_copy", guards.array)
        patch.setattr(variant_builder, "lay_out", guards.lay_out)
        patch.setattr(variant_builder, "lay_out_lanes", guards.lay_out_lanes)
        freezer, usual_variant = variant_builder._Freezer, variant_builder._Freezer.variant
        patch.setattr(freezer, "_pool", lambda self, slot: guards.pool(self.layout.constants, slot))
        patch.setattr(freezer, "variant", lambda self: guards.note(usual_variant(self)))
        made = frame_module.Frame.__init__

        def make_frame(self: Any, program: Any) -> None:
            made(self, program)
            self.arena = guards.arena(program.variant)
            self.words[HEADER + program.variant.arena_slot] = address_of(self.arena)

        # That of the arena, which is replaced.
        patch.setattr(frame_module, "_memory", lambda nbytes: np.empty(0, np.uint8))
        patch.setattr(frame_module.Frame, "__init__", make_frame)
        started = walk.Walk.__init__

        def make_run(self: Any, program: Any, inputs: Any, *arguments: Any, **options: Any) -> None:
            started(self, program, [guards.array(each) for each in inputs], *arguments, **options)

        patch.setattr(walk.Walk, "__init__", make_run)
        walked = item_runner.ItemRunner._walk_stateless

        def walk_stateless(self: Any, program: Any, inputs: Any) -> Any:
            return walked(self, program, [guards.array(each) for each in inputs])

        patch.setattr(item_runner.ItemRunner, "_walk_stateless", walk_stateless)
        yield guards
