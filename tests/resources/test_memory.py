"""Memory of variables: large arrays are aligned to cache lines."""

from __future__ import annotations

import numpy as np
import pytest

from aioexec import dtypes
from aioexec.resources.memory import LINE, aligned_copy, aligned_empty, owns_memory
from aioexec.resources.tensor_list import kept
from aioexec.resources.variable import Variable

SHAPES = [(), (0,), (3, 0, 5), (7,), (1023,), (1025,), (33, 65), (2, 3, 1001)]


def begins_at_a_line(array: np.ndarray) -> bool:
    return array.ctypes.data % LINE == 0


@pytest.mark.parametrize(
    "dtype", [dtypes.float32, dtypes.float64, dtypes.bool, dtypes.bfloat16, dtypes.string]
)
@pytest.mark.parametrize("shape", SHAPES)
def test_an_array_is_one_like_any_other(shape, dtype):
    made = aligned_empty(shape, dtype.numpy)

    assert made.shape == shape
    assert made.dtype == dtype.numpy
    assert made.flags.c_contiguous
    assert made.flags.writeable


def test_large_ones_begin_at_a_line():
    made = [aligned_empty((1024 + k,), np.dtype(np.float32)) for k in range(20)]

    assert all(map(begins_at_a_line, made))


@pytest.mark.parametrize(
    "value", [np.arange(6000.0).reshape(60, 100).T, np.arange(9000.0)[::3], np.float32(3)]
)
def test_a_copy_is_in_order_of_rows_and_on_its_own(value):
    value = np.asarray(value)
    expected = value.tolist()

    copy = aligned_copy(value)
    value[...] = -1

    assert copy.tolist() == expected
    assert copy.flags.c_contiguous


def test_whatever_a_variable_is_given_lies_at_a_line():
    variable = Variable("v", dtypes.float32, (2000,))

    variable.assign(np.ones(2000, np.float32))
    assert begins_at_a_line(variable.require())
    fresh = variable.next_buffer(in_place=False)
    assert begins_at_a_line(fresh)
    fresh[:] = 2
    variable.publish(fresh)
    variable.update(lambda present: present)
    assert begins_at_a_line(variable.require())
    np.testing.assert_array_equal(variable.read(), np.full(2000, 2, np.float32))


@pytest.mark.parametrize("count", [10, 5000])
def test_an_array_owns_its_memory_and_a_view_of_it_does_not(count):
    whole = aligned_copy(np.arange(float(count)))
    views = (whole[:], whole[3:], whole[:0], whole.reshape(5, -1), whole.view(np.int64), whole[None][0])

    assert owns_memory(whole)
    assert not any(map(owns_memory, views))
    assert not any(owns_memory(view[1:]) for view in views)
    assert all(owns_memory(view.copy()) for view in views)
    assert type(whole) is np.ndarray


@pytest.mark.parametrize("count", [10, 5000])
def test_what_is_held_is_copied_only_if_it_is_part_of_something_else(count):
    whole = aligned_copy(np.arange(float(count)))

    assert kept(whole) is whole
    assert not np.shares_memory(kept(whole[1:]), whole)
