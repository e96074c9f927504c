"""The BLAS library bundled with NumPy's wheel, called by address from compiled kernels.

NumPy's wheels bundle an OpenBLAS with 64-bit integers under `scipy_` names. That is no stable interface:
where it is not found, `available()` is False, kernels that need it cannot be linked, and products go through
`np.matmul` instead.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from aioexec.data_classes import dataclass

FUNCTIONS = {"aioexec_sgemm": "scipy_cblas_sgemm64_", "aioexec_dgemm": "scipy_cblas_dgemm64_"}
"""Our names of the functions, and the library's."""


@dataclass(frozen=True, slots=True)
class Blas:
    """The library as found in this process.

    Attributes:
        path: the file it was loaded from.
        addresses: address of each of `FUNCTIONS`, by our name.
        get_threads, set_threads_count: its own functions.
    """

    path: str
    addresses: Mapping[str, int]
    get_threads: Any
    set_threads_count: Any


def candidates() -> Iterator[str]:
    """Files that may be the OpenBLAS NumPy itself uses."""
    package = os.path.dirname(np.__file__)
    for folder in (f"{package}.libs", f"{package}/.libs", f"{package}/.dylibs"):
        with contextlib.suppress(OSError), os.scandir(folder) as files:
            yield from sorted(file.path for file in files if file.name.startswith("libscipy_openblas64_"))


def load(path: str) -> Blas | None:
    """Open one library; None if it is not an OpenBLAS with these functions."""
    try:
        library = ctypes.CDLL(path)
        addresses = {
            ours: ctypes.cast(getattr(library, theirs), ctypes.c_void_p).value or 0
            for ours, theirs in FUNCTIONS.items()
        }
        get_threads = library.scipy_openblas_get_num_threads64_
        set_threads_count = library.scipy_openblas_set_num_threads64_
    except (OSError, AttributeError):
        return None
    get_threads.argtypes, get_threads.restype = [], ctypes.c_int
    set_threads_count.argtypes, set_threads_count.restype = [ctypes.c_int], None
    return Blas(path, addresses, get_threads, set_threads_count)


@functools.cache
def find() -> Blas | None:
    """The bundled library, or None; searched for once in a process."""
    for path in candidates():
        blas = load(path)
        if blas is not None:
            return blas
    return None


def available() -> bool:
    """Whether kernels may call `gemm`."""
    return find() is not None


def symbols() -> Mapping[str, int]:
    """Addresses of `aioexec_sgemm` and `aioexec_dgemm`; empty without the library."""
    blas = find()
    return blas.addresses if blas is not None else {}


def set_threads(count: int) -> int | None:
    """Let the library use `count` threads a call; return the number before, None without the library.

    `np.matmul` uses the same library, so this is seen by the whole process: give the old number back when
    done.
    """
    blas = find()
    if blas is None:
        return None
    before = int(blas.get_threads())
    if before != count:
        blas.set_threads_count(count)
    return before
