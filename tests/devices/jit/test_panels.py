"""Panels: constant matrices are packed in the order in which compiled kernels read them."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from aioexec.devices.jit import panels as packing
from aioexec.devices.jit.library import library
from aioexec.graph.kernels.kernel import LoopKernel
from aioexec.graph.kernels.loop_language import panel_columns, panel_terms
from aioexec.graph.kernels.panels import Panels


def matrix(rows: int, columns: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    return np.arange(rows * columns, dtype=dtype).reshape(rows, columns)


@pytest.fixture(params=[32, 64])
def vectors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The bytes of a vector of a processor."""
    monkeypatch.setattr(packing, "vector_bytes", lambda: request.param)
    return int(request.param)


@pytest.mark.parametrize("columns", [1, 15, 16, 32, 40, 64, 70])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_panel_holds_some_columns_of_all_rows_and_the_last_one_is_padded(vectors, columns, dtype):
    given = matrix(5, columns, dtype)
    wide = 2 * vectors // given.itemsize

    packed = packing.pack(given, Panels(5, columns))

    assert packed.shape == (-(-columns // wide), 5, wide)
    for number, panel in enumerate(packed):
        shown = given[:, number * wide : (number + 1) * wide]
        np.testing.assert_array_equal(panel[:, : shown.shape[1]], shown)
        np.testing.assert_array_equal(panel[:, shown.shape[1] :], 0)


@pytest.mark.parametrize("columns", [15, 48, 70])
def test_a_transposed_constant_yields_the_panels_of_the_matrix(vectors, columns):
    given = matrix(7, columns)

    packed = packing.pack(np.ascontiguousarray(given.T), Panels(7, columns, transposed=True))

    np.testing.assert_array_equal(packed, packing.pack(given, Panels(7, columns)))


def test_a_constant_with_more_dimensions_is_a_matrix_of_its_last_one(vectors):
    given = matrix(12, 40)

    packed = packing.pack(given.reshape(2, 3, 2, 40), Panels(12, 40))

    np.testing.assert_array_equal(packed, packing.pack(given, Panels(12, 40)))


def test_panels_begin_on_a_cache_line(vectors):
    for rows in range(1, 9):
        packed = packing.pack(matrix(rows, 20), Panels(rows, 20))
        assert packed.__array_interface__["data"][0] % 64 == 0
        assert packed.flags.c_contiguous


def sizes(x, found) -> int:
    found[0] = panel_columns(x)
    found[1] = panel_terms(x)
    return 0


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_compiled_kernels_read_panels_of_the_width_that_is_packed(dtype):
    kernel = LoopKernel(sizes, (dtype, "int64"), 0, 0)
    library().request([kernel]).result()
    arrays = np.zeros(1, dtype), np.zeros(2, np.int64)
    frame = np.array([array.ctypes.data for array in arrays], np.int64)
    block = np.array([0, 0, 1, 0], np.int64)

    code = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(library().address(kernel))
    assert code(block.ctypes.data, frame.ctypes.data) == 0

    columns, terms = arrays[1]
    assert terms >= 64
    if packing.vector_bytes():
        assert columns == packing.packed_shape(Panels(1, 1), arrays[0].itemsize)[2]
