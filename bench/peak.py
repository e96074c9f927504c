"""What this machine computes and reads at most, for the bound on a step: the bench of networks calls it a step "at the peak".

Computing: the best time of NumPy's product of two large float32 matrices, with all threads of its BLAS.

Reading: one thread a core reads its own part of an array, by `np.max` or `np.sum`, whichever is faster; nothing is written. The
array is as large as what a step reads, and is read over and over, as steps do it: what stays in a cache from one step to the
next is read from the cache here too, so the bound is no lower for small networks. A round of a small array makes many passes,
so that starting the threads does not count.

A step can be faster than this only by computing less (Winograd's convolution has fewer multiplications) or by reading less.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any

import numpy as np

SIZE, PRODUCTS = 1024, 8
"""Of the matrices, and how many products a round has: short ones are more likely to have the machine for themselves."""

READ_A_ROUND = 1 << 27
"""Bytes that a round reads at least."""


class Peak:
    """Measures both rates; each is that of the fastest round so far."""

    def __init__(self, read_bytes: int) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._matrix = np.ones((SIZE, SIZE), np.float32)
        self._product = np.empty_like(self._matrix)
        self._parts = np.array_split(np.ones(max(read_bytes // 4, cores), np.float32), cores)
        self._bytes = sum(part.nbytes for part in self._parts)
        self._passes = -(-READ_A_ROUND // self._bytes)
        self._pool = ThreadPoolExecutor(cores)
        self.flops_per_second = self.bytes_per_second = 0.0

    def measure(self) -> None:
        """Do a round of each."""
        seconds = min(_seconds(np.matmul, self._matrix, self._matrix, self._product) for _ in range(PRODUCTS))
        self.flops_per_second = max(self.flops_per_second, 2 * SIZE**3 / seconds)
        reductions: tuple[Callable[[Any], Any], ...] = (np.max, np.sum)
        for reduce in reductions:
            seconds = _seconds(self._read, reduce)
            self.bytes_per_second = max(self.bytes_per_second, self._passes * self._bytes / seconds)

    def _read(self, reduce: Callable[[Any], Any]) -> None:
        def passes(part: Any) -> None:
            for _ in range(self._passes):
                reduce(part)

        list(self._pool.map(passes, self._parts))

    def least_seconds(self, flops: int, read_bytes: int) -> float:
        """The least time for so many operations and bytes, as these rates allow."""
        return max(flops / self.flops_per_second, read_bytes / self.bytes_per_second)


def _seconds(function: Callable[..., Any], *arguments: Any) -> float:
    before = perf_counter()
    function(*arguments)
    return perf_counter() - before
