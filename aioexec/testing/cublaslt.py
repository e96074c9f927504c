"""A stand-in for `nvmath.bindings.cublasLt`: it computes products with NumPy, and refuses what the library would not forgive.

It knows the part of the interface that `devices.cuda.cublaslt` uses. Products are performed when the stream reaches them.
"""

from __future__ import annotations

import ctypes
import enum
from collections import Counter
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

_TYPES: dict[int, Any] = {
    0: np.float32,
    1: np.float64,
    2: np.float16,
    14: ml_dtypes.bfloat16,
}
_SUMS: dict[int, Any] = {68: np.float32, 70: np.float64, 77: np.float32}


class MatmulDescAttribute(enum.IntEnum):
    TRANSA = 3
    TRANSB = 4


class MatrixLayoutAttribute(enum.IntEnum):
    BATCH_COUNT = 5
    STRIDED_BATCH_OFFSET = 6


class MatmulPreferenceAttribute(enum.IntEnum):
    MAX_WORKSPACE_BYTES = 1
    MIN_ALIGNMENT_A_BYTES = 5
    MIN_ALIGNMENT_B_BYTES = 6
    MIN_ALIGNMENT_C_BYTES = 7
    MIN_ALIGNMENT_D_BYTES = 8


_SIZES = {"BATCH_COUNT": 4, "STRIDED_BATCH_OFFSET": 8, "TRANSA": 4, "TRANSB": 4, "MAX_WORKSPACE_BYTES": 8}


class StubError(Exception):
    """The library's error."""


class StubCublasLt:
    """See the module.

    Attributes:
        counts: objects that exist, by kind.
        made: the plans, as (compute type, matrices as (dtype, rows, columns, step, batch step)).
        multiplied: how many products were given.
        workspace: the bytes that algorithms need.
        algorithms: whether the heuristics find one.
        failure: what `create` raises, if anything.

    Args:
        reach: the bytes of memory from a pointer on, when the stream has come to the product.
        submit: gives a stream work.
        alignment: of the memory, in bytes.
    """

    cuBLASLtError = StubError
    MatmulDescAttribute = MatmulDescAttribute
    MatrixLayoutAttribute = MatrixLayoutAttribute
    MatmulPreferenceAttribute = MatmulPreferenceAttribute

    def __init__(
        self,
        reach: Callable[[int], Array],
        submit: Callable[[int, Callable[[], object]], object],
        alignment: int = 256,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.made: list[tuple[Any, ...]] = []
        self.multiplied = 0
        self.workspace = 0
        self.algorithms = True
        self.failure: StubError | None = None
        self._reach = reach
        self._submit = submit
        self._alignment = alignment
        self._objects: dict[int, tuple[str, dict[str, Any]]] = {}
        self._next = 100

    def get_version(self) -> int:
        return 130_000

    def create(self) -> int:
        if self.failure is not None:
            raise self.failure
        return self._make("handle")

    def destroy(self, handle: int) -> None:
        self._drop("handle", handle)

    # Descriptors

    def matmul_desc_create(self, compute: int, scale: int) -> int:
        return self._make("operation", compute=compute, scale=scale)

    def matmul_desc_set_attribute(self, operation: int, attribute: int, address: int, nbytes: int) -> None:
        self._set("operation", operation, MatmulDescAttribute(attribute).name, address, nbytes)

    def matmul_desc_destroy(self, operation: int) -> None:
        self._drop("operation", operation)

    def matrix_layout_create(self, dtype: int, rows: int, columns: int, step: int) -> int:
        if step < rows or not rows or not columns:
            raise StubError("CUBLAS_STATUS_INVALID_VALUE")
        return self._make("layout", dtype=dtype, rows=rows, columns=columns, step=step)

    def matrix_layout_set_attribute(self, layout: int, attribute: int, address: int, nbytes: int) -> None:
        self._set("layout", layout, MatrixLayoutAttribute(attribute).name, address, nbytes)

    def matrix_layout_destroy(self, layout: int) -> None:
        self._drop("layout", layout)

    def matmul_preference_create(self) -> int:
        return self._make("preference")

    def matmul_preference_set_attribute(
        self, preference: int, attribute: int, address: int, nbytes: int
    ) -> None:
        self._set("preference", preference, MatmulPreferenceAttribute(attribute).name, address, nbytes)

    def matmul_preference_destroy(self, preference: int) -> None:
        self._drop("preference", preference)

    def _make(self, kind: str, **fields: Any) -> int:
        self.counts[kind] += 1
        self._next += 1
        self._objects[self._next] = kind, fields
        return self._next

    def _drop(self, kind: str, number: int) -> None:
        self._fields(kind, number)
        del self._objects[number]
        self.counts[kind] -= 1

    def _fields(self, kind: str, number: int) -> dict[str, Any]:
        found, fields = self._objects[number]
        assert found == kind, f"{found} in place of {kind}"
        return fields

    def _set(self, kind: str, number: int, name: str, address: int, nbytes: int) -> None:
        assert nbytes == _SIZES.get(name, 4), (name, nbytes)
        value = int.from_bytes(ctypes.string_at(address, nbytes), "little", signed=True)
        self._fields(kind, number)[name] = value

    # Products

    def matmul_algo_get_heuristic(
        self,
        handle: int,
        operation: int,
        a: int,
        b: int,
        c: int,
        result: int,
        preference: int,
        wanted: int,
        results: int,
        count: int,
    ) -> None:
        self._fields("handle", handle)
        assert wanted == 1
        assert c == result
        layouts = [self._fields("layout", each) for each in (a, b, result)]
        kept = self._fields("preference", preference)
        fields = ("dtype", "rows", "columns", "step", "STRIDED_BATCH_OFFSET")
        shapes = tuple(tuple(layout[name] for name in fields) for layout in layouts)
        self.made.append((self._fields("operation", operation)["compute"], shapes))
        found = self.algorithms and self.workspace <= kept["MAX_WORKSPACE_BYTES"]
        ctypes.memmove(count, int(found).to_bytes(4, "little"), 4)
        alignments = [kept[f"MIN_ALIGNMENT_{letter}_BYTES"] for letter in "ABD"]
        algorithm = np.array([operation, a, b, result, *alignments, 0, self.workspace], np.uint64)
        ctypes.memmove(results, algorithm.tobytes() + bytes(24), 96)

    def matmul(
        self,
        handle: int,
        operation: int,
        alpha: int,
        a: int,
        layout_a: int,
        b: int,
        layout_b: int,
        beta: int,
        c: int,
        layout_c: int,
        result: int,
        layout_result: int,
        algorithm: int,
        workspace: int,
        workspace_bytes: int,
        stream: int,
    ) -> None:
        self._fields("handle", handle)
        found = np.frombuffer(ctypes.string_at(algorithm, 72), np.uint64)
        layouts = [self._fields("layout", each) for each in (layout_a, layout_b, layout_result)]
        if [operation, layout_a, layout_b, layout_result] != found[:4].tolist():
            raise StubError("CUBLAS_STATUS_INVALID_VALUE: the algorithm is for another product")
        if any(
            pointer % min(int(to), self._alignment)
            for pointer, to in zip((a, b, result), found[4:7], strict=True)
        ):
            raise StubError("CUBLAS_STATUS_NOT_SUPPORTED: an operand is not aligned")
        if workspace_bytes < found[8] or (found[8] and not workspace):
            raise StubError("CUBLAS_STATUS_INVALID_VALUE: the workspace is too small")
        if c != result or layout_c != layout_result:
            raise StubError("CUBLAS_STATUS_INVALID_VALUE: the result is in place")
        fields = dict(self._fields("operation", operation))
        scale = np.dtype(_TYPES[fields["scale"]])
        factors = [np.frombuffer(ctypes.string_at(each, scale.itemsize), scale)[0] for each in (alpha, beta)]
        assert factors == [1, 0]
        self.multiplied += 1
        pointers = (a, b, result)

        def run() -> None:
            if workspace_bytes:
                assert self._reach(workspace).nbytes >= workspace_bytes
            self._product(fields, layouts, pointers)

        self._submit(stream, run)

    def _product(
        self, fields: dict[str, Any], layouts: list[dict[str, Any]], pointers: tuple[int, ...]
    ) -> None:
        a, b, result = (
            self._matrices(layout, pointer) for layout, pointer in zip(layouts, pointers, strict=True)
        )
        left, right = (
            each.swapaxes(1, 2) if fields[name] else each for each, name in ((a, "TRANSA"), (b, "TRANSB"))
        )
        total = _SUMS[fields["compute"]]
        result[...] = (left.astype(total) @ right.astype(total)).astype(result.dtype)

    def _matrices(self, layout: dict[str, Any], pointer: int) -> Array:
        """A writable view of the matrices of a layout: [batch, rows, columns]."""
        dtype = np.dtype(_TYPES[layout["dtype"]])
        batches, rows, columns = layout["BATCH_COUNT"], layout["rows"], layout["columns"]
        steps = (layout["STRIDED_BATCH_OFFSET"], 1, layout["step"])
        last = sum((n - 1) * step for n, step in zip((batches, rows, columns), steps, strict=True))
        elements = self._reach(pointer)[: (last + 1) * dtype.itemsize].view(dtype)
        assert len(elements) == last + 1, "a matrix goes beyond the memory"
        strides = [step * dtype.itemsize for step in steps]
        return np.lib.stride_tricks.as_strided(elements, (batches, rows, columns), strides)
